//! What the Pods of a Job and its status say together: how many run, have succeeded and have failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::api::core::v1::Pod;

use super::asked::{Asked, index_of};
use super::backoff::finished_at;
use super::indexes::Intervals;
use super::policy::{self, Judgement};
use super::{failures_of, ignored_failures_of};
use crate::job::is_tracked;
use crate::pods;

#[derive(Debug)]
pub(super) struct Census {
    pub(super) active: Vec<Arc<Pod>>,
    /// On their way out, and still running.
    pub(super) terminating: Vec<Arc<Pod>>,
    /// Counted, and about to be.
    pub(super) succeeded: usize,
    pub(super) failed: i32,
    /// What the status says.
    pub(super) known_indexes: Intervals,
    /// With those that have succeeded since.
    pub(super) succeeded_indexes: Intervals,
    /// Only if each index has a limit of its own.
    pub(super) failed_indexes: Option<Intervals>,
    /// The last failed Pod of each index that has no other: it keeps its finalizer until its successor exists, which takes over
    /// how often the index has failed.
    pub(super) awaiting_successor: BTreeMap<u32, Arc<Pod>>,
}

impl Census {
    pub(super) fn of(asked: &Asked<'_>, status: &JobStatus, pods: &[Arc<Pod>]) -> Self {
        let all = |wanted: fn(&Pod) -> bool| pods.iter().filter(|pod| wanted(pod)).cloned().collect::<Vec<_>>();
        let known_indexes = known(asked, status.completed_indexes.as_deref());
        let mut census = Census {
            active: all(pods::is_active),
            terminating: all(pods::is_terminating),
            succeeded: succeeded(asked, status, pods),
            failed: failed(asked, status, pods),
            succeeded_indexes: known_indexes.clone(),
            known_indexes,
            failed_indexes: None,
            awaiting_successor: BTreeMap::new(),
        };
        if asked.is_indexed {
            census.count_indexes(asked, status, pods);
        }
        census
    }

    fn count_indexes(&mut self, asked: &Asked<'_>, status: &JobStatus, pods: &[Arc<Pod>]) {
        let uncounted = || pods.iter().filter(|pod| is_tracked(pod));
        let indexes = |of: fn(&Asked<'_>, &Pod) -> bool| -> Intervals {
            uncounted().filter(|pod| of(asked, pod)).filter_map(|pod| asked.index_of(pod)).collect()
        };
        self.succeeded_indexes = self.known_indexes.merged(&indexes(|_, pod| pods::phase(pod) == "Succeeded"));
        self.succeeded = self.succeeded_indexes.total();
        if asked.limit_per_index().is_some() {
            let known = known(asked, status.failed_indexes.as_deref());
            self.failed_indexes = Some(known.merged(&indexes(is_index_failed)));
            self.awaiting_successor = self.without_successor(asked, pods);
        }
    }

    fn without_successor(&self, asked: &Asked<'_>, pods: &[Arc<Pod>]) -> BTreeMap<u32, Arc<Pod>> {
        let active: BTreeSet<u32> = self.active.iter().filter_map(|pod| index_of(pod)).collect();
        let has_ended = |index: u32| {
            self.succeeded_indexes.has(index) || self.failed_indexes.as_ref().is_some_and(|failed| failed.has(index))
        };
        let mut last: BTreeMap<u32, Arc<Pod>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| is_tracked(pod) && asked.has_failed(pod)) {
            let Some(index) = asked.index_of(pod).filter(|index| !active.contains(index) && !has_ended(*index)) else {
                continue;
            };
            let age = |pod: &Pod| (failures_of(pod).saturating_add(ignored_failures_of(pod)), finished_at(pod));
            let is_later = |before: &Arc<Pod>| {
                let ((count_before, time_before), (count, time)) = (age(before), age(pod));
                count_before <= count && time_before <= time
            };
            if last.get(&index).is_none_or(is_later) {
                last.insert(index, pod.clone());
            }
        }
        last
    }

    pub(super) fn ready(&self) -> usize {
        self.active.iter().filter(|pod| pods::is_ready(pod)).count()
    }
}

fn known(asked: &Asked<'_>, text: Option<&str>) -> Intervals {
    Intervals::parse(text.unwrap_or_default(), asked.completions.unwrap_or(0))
}

/// How many Pods have succeeded in a Job without indexes.
fn succeeded(asked: &Asked<'_>, status: &JobStatus, pods: &[Arc<Pod>]) -> usize {
    let noted = noted(status, |noted| noted.succeeded.as_deref());
    let new = new_ones(asked, &noted, pods).filter(|pod| pods::phase(pod) == "Succeeded").count();
    usize::try_from(status.succeeded.unwrap_or(0)).unwrap_or(0).saturating_add(new).saturating_add(noted.len())
}

/// How many failures count towards the limit.
fn failed(asked: &Asked<'_>, status: &JobStatus, pods: &[Arc<Pod>]) -> i32 {
    let policy = asked.spec.pod_failure_policy.as_ref();
    let noted = noted(status, |noted| noted.failed.as_deref());
    let new = new_ones(asked, &noted, pods).filter(|pod| asked.has_failed(pod));
    let new = new.filter(|pod| policy::judge(policy, pod).counts()).count();
    let number = i32::try_from(new.saturating_add(noted.len())).unwrap_or(i32::MAX);
    status.failed.unwrap_or(0).saturating_add(number)
}

/// The UIDs that the status has noted, but not counted.
pub(super) fn noted(
    status: &JobStatus,
    which: fn(&k8s_openapi::api::batch::v1::UncountedTerminatedPods) -> Option<&[String]>,
) -> BTreeSet<String> {
    status.uncounted_terminated_pods.as_ref().and_then(which).into_iter().flatten().cloned().collect()
}

fn new_ones<'a>(
    asked: &'a Asked<'_>,
    noted: &'a BTreeSet<String>,
    pods: &'a [Arc<Pod>],
) -> impl Iterator<Item = &'a Arc<Pod>> {
    let is_noted = |pod: &Pod| pod.metadata.uid.as_ref().is_some_and(|uid| noted.contains(uid));
    pods.iter().filter(move |pod| is_tracked(pod) && !is_noted(pod) && asked.counts(pod))
}

fn is_index_failed(asked: &Asked<'_>, pod: &Pod) -> bool {
    if !asked.has_failed(pod) {
        return false;
    }
    let limit = asked.limit_per_index().unwrap_or(0);
    match policy::judge(asked.spec.pod_failure_policy.as_ref(), pod) {
        Judgement::FailIndex => true,
        Judgement::Ignore => false,
        Judgement::Count | Judgement::FailJob(_) => failures_of(pod) >= limit,
    }
}
