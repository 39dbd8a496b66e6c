//! What is left in a namespace, what to say about it, and whether the namespace may go.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pintle_runtime::conditions;

use crate::pods;

/// The finalizer in `spec.finalizers` that this loop takes off.
pub(super) const FINALIZER: &str = "kubernetes";

/// How long objects with finalizers are expected to take.
const FINALIZERS_TAKE: u64 = 15;

/// Never wait longer than this before looking again: people wait for `kubectl delete namespace`.
const LONGEST_WAIT: u64 = 2;

/// What a pass over a namespace found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) discovery_error: Option<String>,
    pub(super) deletion_errors: Vec<String>,
    /// How many are left, by `resource.group`.
    remaining: BTreeMap<String, usize>,
    /// How many of those wait for each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Seconds until they should be gone.
    estimate: u64,
    /// Pods go first: nothing else has been looked at while some are left.
    pub(super) only_pods: bool,
}

/// What to do after a pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Finalize,
    Wait(Duration),
    Fail(String),
}

impl Findings {
    /// Notes what a resource has left after its deletion; `grace` is how long its objects may take.
    pub(super) fn note(&mut self, resource: &str, group: &str, left: &[ObjectMeta], grace: u64) {
        if left.is_empty() {
            return;
        }
        self.remaining.insert(format!("{resource}.{group}"), left.len());
        let finalizers = left.iter().flat_map(|meta| meta.finalizers.iter().flatten());
        let mut has_finalizers = false;
        for finalizer in finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
            has_finalizers = true;
        }
        match (grace, has_finalizers) {
            (0, false) => self.deletion_errors.push(format!("{resource}.{group} still has {} objects", left.len())),
            (0, true) => self.estimate = self.estimate.max(FINALIZERS_TAKE),
            (grace, _) => self.estimate = self.estimate.max(grace),
        }
    }

    pub(super) fn next(&self) -> Next {
        if let Some(error) = self.discovery_error.as_ref().or(self.deletion_errors.first()) {
            return Next::Fail(format!("the namespace cannot be emptied: {error}"));
        }
        match self.estimate {
            0 => Next::Finalize,
            seconds => Next::Wait(Duration::from_secs((seconds / 2 + 1).min(LONGEST_WAIT))),
        }
    }

    /// The conditions that tell it; `None` if they are told already.
    pub(super) fn conditions(&self, namespace: &Namespace, now: Timestamp) -> Option<Vec<NamespaceCondition>> {
        let present = namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let mut told = present.clone();
        for (kind, failure, fine) in self.statements() {
            let (status, (reason, message)) = match failure {
                Some(failure) => ("True", failure),
                None => ("False", (fine.0, fine.1.to_owned())),
            };
            conditions::set(
                &mut told,
                NamespaceCondition {
                    type_: kind.into(),
                    status: status.into(),
                    reason: Some(reason.into()),
                    message: Some(message),
                    last_transition_time: Some(Time(now)),
                },
            );
        }
        (told != present).then_some(told)
    }

    /// Each condition: its type, reason and message if it holds, and what is said if it does not.
    #[expect(clippy::type_complexity, reason = "a table, read once")]
    fn statements(&self) -> [(&'static str, Option<(&'static str, String)>, (&'static str, &'static str)); 5] {
        let listed = |counts: &BTreeMap<String, usize>, verb: &str| {
            let parts: Vec<String> =
                counts.iter().map(|(what, count)| format!("{what} {verb} {count} resource instances")).collect();
            parts.join(", ")
        };
        let mut errors = self.deletion_errors.clone();
        errors.sort();
        let failed = (!errors.is_empty()).then(|| {
            let message =
                format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", "));
            ("ContentDeletionFailed", message)
        });
        let content = (!self.only_pods && !self.remaining.is_empty()).then(|| {
            ("SomeResourcesRemain", format!("Some resources are remaining: {}", listed(&self.remaining, "has")))
        });
        let finalizers = (!self.only_pods && !self.finalizers.is_empty()).then(|| {
            let list = listed(&self.finalizers, "in");
            ("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {list}"))
        });
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                self.discovery_error.clone().map(|error| ("DiscoveryFailed", error)),
                ("ResourcesDiscovered", "All resources successfully discovered"),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                None,
                ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ),
            (
                "NamespaceDeletionContentFailure",
                failed,
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            ),
            ("NamespaceContentRemaining", content, ("ContentRemoved", "All content successfully removed")),
            (
                "NamespaceFinalizersRemaining",
                finalizers,
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ),
        ]
    }
}

/// What is said of versions whose resources are not known: what they have in the namespace would be forgotten with it.
pub(super) fn undiscovered(stale: &[String]) -> Option<String> {
    let each: Vec<String> = stale.iter().map(|one| format!("{one}: stale GroupVersion discovery: {one}")).collect();
    let all = format!("unable to retrieve the complete list of server APIs: {}", each.join(", "));
    let count = stale.len();
    (count > 0).then(|| format!("Discovery failed for some groups, {count} failing: {all}"))
}

/// How long the Pods that still run may take, unless the namespace has waited that long already.
pub(super) fn grace_of(running: &[Pod], deleted_at: Timestamp, now: Timestamp) -> u64 {
    let periods = running.iter().filter(|pod| !pods::is_terminal(pod));
    let periods = periods.filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds);
    let longest = u64::try_from(periods.max().unwrap_or(0)).unwrap_or(0);
    let waited = u64::try_from(now.duration_since(deleted_at).as_secs()).unwrap_or(0);
    if waited >= longest { 0 } else { longest }
}

/// The namespace without this loop's finalizer.
pub(super) fn finalized(namespace: &Namespace) -> Namespace {
    let mut namespace = namespace.clone();
    let finalizers = namespace.spec.get_or_insert_default().finalizers.get_or_insert_default();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    namespace
}

pub(super) fn is_finalized(namespace: &Namespace) -> bool {
    namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref()).is_none_or(Vec::is_empty)
}
