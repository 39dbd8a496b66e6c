//! What a Job's spec asks for, with defaults and bounds.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;

use crate::pods;

/// A Job's spec as numbers and questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) parallelism: usize,
    /// Without it the Job is done when one Pod has succeeded and none runs any more.
    pub(super) completions: Option<u32>,
    pub(super) is_indexed: bool,
    pub(super) is_suspended: bool,
    pub(super) is_being_deleted: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn of(job: &'a Job, spec: &'a JobSpec) -> Self {
        Asked {
            spec,
            parallelism: usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or(0),
            completions: spec.completions.map(|count| u32::try_from(count).unwrap_or(0)),
            is_indexed: spec.completion_mode.as_deref() == Some("Indexed"),
            is_suspended: spec.suspend == Some(true),
            is_being_deleted: job.metadata.deletion_timestamp.is_some(),
        }
    }

    pub(super) fn backoff_limit(&self) -> i32 {
        self.spec.backoff_limit.unwrap_or(6)
    }

    /// How often one index may fail, if each index counts on its own.
    pub(super) fn limit_per_index(&self) -> Option<i32> {
        self.spec.backoff_limit_per_index
    }

    /// A Pod that is on its way out counts as failed, and is replaced, only when it has ended.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed") || self.spec.pod_failure_policy.is_some()
    }

    /// Whether the Pod counts as failed. One that is deleted does, because it may never get so far.
    pub(super) fn has_failed(&self, pod: &Pod) -> bool {
        match pods::phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => !self.replaces_only_failed() && pod.metadata.deletion_timestamp.is_some(),
        }
    }

    /// The Pod's index if it is one of the Job's.
    pub(super) fn index_of(&self, pod: &Pod) -> Option<u32> {
        index_of(pod).filter(|index| self.completions.is_some_and(|completions| *index < completions))
    }

    /// Whether the Pod counts at all: in an indexed Job only with an index of the Job.
    pub(super) fn counts(&self, pod: &Pod) -> bool {
        !self.is_indexed || self.index_of(pod).is_some()
    }
}

/// The index that a Pod says it has.
pub(super) fn index_of(pod: &Pod) -> Option<u32> {
    // What does not fit into an i32 is no index either.
    let index = pod.metadata.annotations.as_ref()?.get(super::COMPLETION_INDEX)?.parse::<i32>().ok()?;
    u32::try_from(index).ok()
}
