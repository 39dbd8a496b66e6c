//! What a DaemonSet needs next.
//!
//! First its history is put in order, which is a plan of its own. Then Pods are made where one is missing and deleted where
//! none, or only one, is wanted. Only when there is nothing of that to do, Pods of an old template make way.

mod manage;
mod node;
mod revisions;
mod rolling;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_runtime::plan::{Note, Pace, StatusUpdate};
use pintle_runtime::{Plan, Write};

pub(super) use node::{Daemon, Fit};

use crate::pods;
use revisions::Revision;

/// Pods made, and Pods deleted, in one go, at most.
const BURST: usize = 250;

/// When to look again after the history was put in order: no Event of a new revision tells.
const SOON: Duration = Duration::from_millis(1);

/// What there is.
pub(super) struct Facts<'a> {
    pub(super) set: &'a DaemonSet,
    /// By name.
    pub(super) nodes: Vec<Arc<Node>>,
    /// Those that are the set's, also those on their way out.
    pub(super) pods: Vec<Arc<Pod>>,
    /// The set's, oldest first.
    pub(super) revisions: Vec<Arc<ControllerRevision>>,
    /// The revision of this name in the set's namespace, whichever set owns it.
    pub(super) revision: &'a dyn Fn(&str) -> Option<Arc<ControllerRevision>>,
    /// How long a Pod that failed on this node stays.
    pub(super) backoff: &'a dyn Fn(&str) -> Option<Duration>,
    pub(super) now: Timestamp,
}

/// What is to be done.
pub(super) struct Decision {
    pub(super) plan: Plan,
    /// The nodes on which a Pod that failed is replaced.
    pub(super) replaced_failed: Vec<String>,
}

/// The Pods of each node, those first that were there first, and the nodes that a set is to run on.
struct Layout<'a> {
    facts: &'a Facts<'a>,
    daemon: Daemon<'a>,
    revision: &'a Revision,
    /// Without those that have ended and are on their way out.
    pods: BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
}

/// Pods to be made and deleted.
#[derive(Default)]
struct Changes<'a> {
    /// The names of the nodes that get one.
    created: Vec<&'a str>,
    deleted: Vec<&'a Arc<Pod>>,
    events: Vec<Note>,
    replaced_failed: Vec<String>,
    again: Option<Duration>,
}

/// A set without a selector does nothing, and says so.
pub(super) fn selecting_all() -> Plan {
    let message = "This daemon set is selecting all pods. A non-empty selector is required.";
    Plan::telling(Note::warning("SelectingAll", message))
}

/// Compares what is there with what is wanted.
pub(super) fn plan(facts: Facts<'_>) -> Decision {
    let facts = &facts;
    let revision = match revisions::settle(facts) {
        Ok(revision) => revision,
        Err(mut unsettled) => {
            unsettled.look_again((!unsettled.writes.is_empty()).then_some(SOON));
            return Decision { plan: *unsettled, replaced_failed: Vec::new() };
        }
    };
    let layout = Layout::new(facts, &revision);
    let mut changes = manage::manage(&layout);
    if changes.is_empty() && strategy(facts.set) == "RollingUpdate" {
        let rolling = rolling::update(&layout);
        (changes.created, changes.deleted) = (rolling.created, rolling.deleted);
    }
    let set = facts.set;
    let status = status::status(&layout);
    let mut plan = Plan { writes: revision.truncation(facts), again: changes.again, ..Plan::default() };
    plan.look_again(status::next_check(&layout));
    plan.writes.extend(changes.writes(&layout));
    plan.events = changes.events;
    plan.status = Some(StatusUpdate::of(set, set.status.as_ref(), &status).even_if_failed());
    Decision { plan, replaced_failed: changes.replaced_failed }
}

impl<'a> Layout<'a> {
    fn new(facts: &'a Facts<'a>, revision: &'a Revision) -> Self {
        let mut pods: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in facts.pods.iter().filter(|pod| !(pods::is_terminal(pod) && is_going(pod))) {
            if let Some(node) = node::target(pod) {
                pods.entry(node).or_default().push(pod);
            }
        }
        pods.values_mut().for_each(|pods| pods.sort_by_key(|pod| precedence(pod)));
        Layout { facts, daemon: Daemon::of(facts.set), revision, pods }
    }

    fn on(&self, node: &Node) -> &[&'a Arc<Pod>] {
        self.pods.get(node::name(node)).map(Vec::as_slice).unwrap_or_default()
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, min_ready_seconds(self.facts.set), self.facts.now)
    }
}

/// Those that have a node come first, then the oldest, then by name.
fn precedence(pod: &Pod) -> (bool, Option<Timestamp>, Option<String>) {
    let meta = &pod.metadata;
    (pods::node_name(pod).is_empty(), meta.creation_timestamp.as_ref().map(|time| time.0), meta.name.clone())
}

impl Changes<'_> {
    fn is_empty(&self) -> bool {
        self.created.is_empty() && self.deleted.is_empty()
    }

    /// Deletions come first: a quota that leaves no room for new Pods does not keep old ones from going.
    fn writes(&self, layout: &Layout<'_>) -> Vec<Write> {
        let deletion = |pod: &&Arc<Pod>| {
            Write::delete(pod.as_ref())
                .paced(Pace::Together)
                .saying("SuccessfulDelete", "Deleted pod: {name}")
                .warning("FailedDelete", "Error deleting: {error}")
        };
        let creation = |node: &&str| {
            Write::create(&layout.daemon.pod(node, &layout.revision.hash))
                .paced(Pace::SlowStart)
                .saying("SuccessfulCreate", "Created pod: {name}")
                .warning("FailedCreate", "Error creating: {error}")
        };
        let deletions = self.deleted.iter().take(BURST).map(deletion);
        deletions.chain(self.created.iter().take(BURST).map(creation)).collect()
    }
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn min_ready_seconds(set: &DaemonSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

fn strategy(set: &DaemonSet) -> &str {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()).unwrap_or_default()
}

/// How Pods of an old template make way, if they do so by themselves.
fn rolling_update(set: &DaemonSet) -> Option<&RollingUpdateDaemonSet> {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref())?;
    strategy.rolling_update.as_ref().filter(|_| strategy.type_.as_deref() == Some("RollingUpdate"))
}
