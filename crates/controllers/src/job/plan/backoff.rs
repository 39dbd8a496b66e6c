//! How long to wait before a failed Pod is replaced: 10 s, and twice as long after each further failure, up to 10 min.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::asked::Asked;
use super::{failures_of, ignored_failures_of};
use crate::job::is_tracked;
use crate::pods;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(10);

/// How a Job's Pods have failed since one succeeded last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    failures: u32,
    last_failure: Option<Timestamp>,
    /// The finished Pods that are taken into account, as long as they could be taken for new ones.
    seen: BTreeSet<String>,
}

impl Backoff {
    /// Takes into account what has finished since. Without a record of before, which is lost with the process, that is
    /// everything that is still there.
    pub(crate) fn after(before: Option<&Backoff>, job: &Job, pods: &[Arc<Pod>]) -> Self {
        let Some(spec) = &job.spec else { return Backoff::default() };
        let asked = Asked::of(job, spec);
        let mut record = before.cloned().unwrap_or_default();
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        let is_new = |pod: &&Arc<Pod>| match before {
            Some(before) => is_tracked(pod) && !before.seen.contains(&uid(pod)),
            // One that the loop has let go is on its way out without the finalizer.
            None => is_tracked(pod) || pods::is_terminal(pod),
        };
        let new: Vec<&Arc<Pod>> = pods.iter().filter(|pod| asked.counts(pod)).filter(is_new).collect();
        let times = |ended: fn(&Asked<'_>, &Pod) -> bool| -> Vec<Timestamp> {
            new.iter().filter(|pod| ended(&asked, pod)).map(|pod| finished_at(pod)).collect()
        };
        let last_success = times(|_, pod| pods::phase(pod) == "Succeeded").into_iter().max();
        let mut failed = times(|asked, pod| asked.has_failed(pod));
        if let Some(success) = last_success {
            (record.failures, record.last_failure) = (0, None);
            failed.retain(|failure| *failure > success);
        }
        record.failures = record.failures.saturating_add(u32::try_from(failed.len()).unwrap_or(u32::MAX));
        record.last_failure = failed.into_iter().max().or(record.last_failure);
        let has_ended = |pod: &&Arc<Pod>| pods::phase(pod) == "Succeeded" || asked.has_failed(pod);
        record.seen = pods.iter().filter(|pod| is_tracked(pod)).filter(has_ended).map(|pod| uid(pod)).collect();
        record
    }

    /// How long to wait still; nothing if a Pod may be made now.
    pub(crate) fn remaining(&self, now: Timestamp) -> Option<Duration> {
        remaining_after(self.failures, self.last_failure?, now)
    }
}

/// How long an index whose last Pod was this one has to wait still.
pub(super) fn remaining_of_index(last: &Pod, now: Timestamp) -> Option<Duration> {
    let failures = failures_of(last).saturating_add(ignored_failures_of(last)).saturating_add(1);
    remaining_after(u32::try_from(failures).unwrap_or(1), finished_at(last), now)
}

fn remaining_after(failures: u32, last: Timestamp, now: Timestamp) -> Option<Duration> {
    let doublings = failures.checked_sub(1)?.min(16);
    let wait = SignedDuration::try_from((FIRST * (1 << doublings)).min(LONGEST)).ok()?;
    let left = wait.saturating_sub(now.duration_since(last));
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// When a Pod finished, as well as can be told: when its last container ended, when it was no longer ready, when it was deleted,
/// or else when it was created.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let unready = || {
        let condition = pods::ready_condition(pod).filter(|condition| condition.status == "False")?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    };
    let deleted = || {
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
        pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
    };
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    containers_ended_at(pod).or_else(unready).or_else(deleted).or_else(created).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// When the last container or sidecar ended, if all have.
fn containers_ended_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let sidecars = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = sidecars
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let of_sidecars = status.init_container_statuses.iter().flatten();
    let of_sidecars = of_sidecars.filter(|status| sidecars.contains(&status.name.as_str()));
    let ended =
        |status: &ContainerStatus| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0);
    let all: Option<Vec<Timestamp>> =
        status.container_statuses.iter().flatten().chain(of_sidecars).map(ended).collect();
    all?.into_iter().max()
}
