//! Whether a Job's time is over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use pintle_runtime::owner::Cascade;
use pintle_runtime::{Plan, Write};

use crate::job::end_of;

/// Whether the Job has ended, and says how long it is to stay.
pub(super) fn is_concerned(job: &Job) -> bool {
    job.metadata.deletion_timestamp.is_none() && seconds(job).is_some() && end_of(job).is_some()
}

/// Deletes the Job, after its Pods, or says when to look again.
pub(super) fn plan(job: &Job, now: Timestamp) -> Plan {
    if !is_concerned(job) {
        return Plan::default();
    }
    let ended = end_of(job).and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
    let (Some(ended), Some(seconds)) = (ended, seconds(job)) else { return Plan::default() };
    let over = ended.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    match Duration::try_from(over.duration_since(now)) {
        Ok(left) if !left.is_zero() => Plan { again: Some(left), ..Plan::default() },
        // If somebody has given the Job more time meanwhile, this is a conflict, and the next look sees it.
        _ => Plan::of(vec![Write::delete(job).at_version_of(&job.metadata).cascading(Cascade::Foreground)]),
    }
}

fn seconds(job: &Job) -> Option<i64> {
    job.spec.as_ref()?.ttl_seconds_after_finished.map(i64::from)
}
