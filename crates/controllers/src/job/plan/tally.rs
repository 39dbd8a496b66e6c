//! Which Pods are noted in the status, which lose their finalizer, and what the counters then say.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::indexes::Intervals;
use super::policy;
use super::verdict::Verdict;
use super::{Scene, census, number};
use crate::job::is_tracked;
use crate::pods;

/// So many Pods are noted at once, at most: UIDs of 20 KB.
const MOST_NOTED: usize = 500;

/// How a Pod that has ended is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Succeeded,
    Index(u32),
    Failed,
    /// It is ignored, or nobody cares any more.
    Not,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Pods that the stored status accounts for.
    pub(super) removable: Vec<Arc<Pod>>,
    /// Whether nothing is left to be counted once those are removed.
    pub(super) is_final: bool,
    noted_succeeded: Vec<String>,
    noted_failed: Vec<String>,
    /// Noted Pods whose finalizer is gone.
    gone_succeeded: usize,
    gone_failed: usize,
    indexes: Option<Intervals>,
    /// How many of the notes belong to Pods that are removable.
    removable_uids: BTreeSet<String>,
}

impl Tally {
    pub(super) fn of(scene: &Scene<'_>, verdict: Option<&Verdict>) -> Self {
        let tracked: BTreeSet<&str> =
            scene.pods.iter().filter(|pod| is_tracked(pod)).filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let still = |uids: Option<&Vec<String>>| -> (Vec<String>, usize) {
            let (still, gone): (Vec<_>, Vec<_>) =
                uids.into_iter().flatten().cloned().partition(|uid| tracked.contains(uid.as_str()));
            (still, gone.len())
        };
        let notes = scene.status.uncounted_terminated_pods.as_ref();
        let (noted_succeeded, gone_succeeded) = still(notes.and_then(|notes| notes.succeeded.as_ref()));
        let (noted_failed, gone_failed) = still(notes.and_then(|notes| notes.failed.as_ref()));
        let mut tally = Tally { noted_succeeded, noted_failed, gone_succeeded, gone_failed, ..Tally::default() };
        tally.take(scene, verdict);
        tally
    }

    /// Decides about every Pod that has ended.
    fn take(&mut self, scene: &Scene<'_>, verdict: Option<&Verdict>) {
        let noted_succeeded = census::noted(&scene.status, |noted| noted.succeeded.as_deref());
        let noted_failed = census::noted(&scene.status, |noted| noted.failed.as_deref());
        let mut ended: Vec<&Arc<Pod>> =
            scene.pods.iter().filter(|pod| is_tracked(pod) && may_be_removed(scene, verdict, pod)).collect();
        // Indexes are noted in their order.
        ended.sort_by_key(|pod| scene.asked.is_indexed.then(|| scene.asked.index_of(pod)));
        let (mut new_indexes, mut new_uids) = (Vec::new(), Vec::new());
        for pod in ended {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let count = match noted_failed.contains(&uid) {
                true => Count::Failed,
                false => count_of(scene, verdict, pod),
            };
            let is_noted = match count {
                Count::Succeeded => noted_succeeded.contains(&uid),
                Count::Failed => noted_failed.contains(&uid),
                Count::Index(index) => scene.census.known_indexes.has(index),
                Count::Not => true,
            };
            if is_noted {
                self.removable.push(pod.clone());
                self.removable_uids.insert(uid);
            } else {
                new_uids.push((uid, count));
            }
        }
        let kept = |uid: &&String| !self.removable_uids.contains(*uid);
        let already = self.noted_succeeded.iter().chain(&self.noted_failed).filter(kept).count();
        let is_all_noted = new_uids.is_empty();
        for (uid, count) in new_uids.into_iter().take(MOST_NOTED.saturating_sub(already)) {
            match count {
                Count::Succeeded => self.noted_succeeded.push(uid),
                Count::Index(index) => new_indexes.push(index),
                Count::Failed => self.noted_failed.push(uid),
                Count::Not => {}
            }
        }
        self.is_final = is_all_noted && already == 0;
        if scene.asked.is_indexed {
            self.indexes = Some(scene.census.known_indexes.merged(&new_indexes.into_iter().collect()));
        }
    }

    /// The status with what has been seen so far.
    pub(super) fn before_removal(&self, before: &JobStatus) -> JobStatus {
        self.status(before, &BTreeSet::new())
    }

    /// The status when the removable Pods have lost their finalizers.
    pub(super) fn after_removal(&self, before: &JobStatus) -> JobStatus {
        self.status(before, &self.removable_uids)
    }

    fn status(&self, before: &JobStatus, removed: &BTreeSet<String>) -> JobStatus {
        let split = |noted: &[String]| -> (Vec<String>, usize) {
            let (gone, left): (Vec<_>, Vec<_>) = noted.iter().cloned().partition(|uid| removed.contains(uid));
            (left, gone.len())
        };
        let ((succeeded, counted), (failed, counted_failed)) =
            (split(&self.noted_succeeded), split(&self.noted_failed));
        let plus = |old: Option<i32>, more: usize| Some(old.unwrap_or(0).saturating_add(number(more)));
        let succeeded_now = plus(before.succeeded, self.gone_succeeded.saturating_add(counted));
        let some = |uids: Vec<String>| Some(uids).filter(|uids| !uids.is_empty());
        JobStatus {
            succeeded: self.indexes.as_ref().map_or(succeeded_now, |indexes| Some(number(indexes.total()))),
            failed: plus(before.failed, self.gone_failed.saturating_add(counted_failed)),
            completed_indexes: self.indexes.as_ref().map(ToString::to_string).filter(|text| !text.is_empty()),
            uncounted_terminated_pods: Some(UncountedTerminatedPods {
                succeeded: some(succeeded),
                failed: some(failed),
            }),
            ..before.clone()
        }
    }
}

/// Whether the Pod has ended, or its end is of no interest any more.
fn may_be_removed(scene: &Scene<'_>, verdict: Option<&Verdict>, pod: &Arc<Pod>) -> bool {
    if scene.asked.is_being_deleted || verdict.is_some() || pods::phase(pod) == "Succeeded" {
        return true;
    }
    let awaits_successor = scene.asked.index_of(pod).is_some_and(|index| {
        scene.census.awaiting_successor.get(&index).is_some_and(|last| last.metadata.uid == pod.metadata.uid)
    });
    scene.asked.has_failed(pod) && !awaits_successor
}

fn count_of(scene: &Scene<'_>, verdict: Option<&Verdict>, pod: &Pod) -> Count {
    let asked = &scene.asked;
    if pods::phase(pod) == "Succeeded" {
        return match asked.is_indexed {
            true => asked.index_of(pod).map_or(Count::Not, Count::Index),
            false => Count::Succeeded,
        };
    }
    // Once the Job has failed, what still runs has failed with it. Once it has succeeded, what it stops itself has not.
    let has_failed = match verdict {
        Some(verdict) if verdict.is_success => pods::phase(pod) == "Failed",
        Some(_) => true,
        None => asked.has_failed(pod),
    };
    let counts = || asked.counts(pod) && policy::judge(asked.spec.pod_failure_policy.as_ref(), pod).counts();
    if has_failed && counts() { Count::Failed } else { Count::Not }
}
