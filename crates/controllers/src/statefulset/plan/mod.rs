//! What a StatefulSet needs next.
//!
//! First its history is put in order, which is a plan of its own: no Pod is made before its revision is there. Then, in this
//! order: Pods that are wanted, Pods that are no longer wanted, Pods of an old revision. In an ordered set the first Pod that
//! something waits for ends the plan; in a parallel one all that can be done is done.

pub(in super::super) mod identity;
mod members;
mod retention;
mod revisions;
mod status;
mod storage;
mod update;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use pintle_runtime::Plan;
use pintle_runtime::plan::StatusUpdate;

use members::Round;

/// What there is.
pub(super) struct Facts<'a> {
    pub(super) set: &'a StatefulSet,
    /// Those that are the set's and named like its Pods.
    pub(super) pods: Vec<Arc<Pod>>,
    /// The set's, oldest first.
    pub(super) revisions: Vec<Arc<ControllerRevision>>,
    /// The claim of this name in the set's namespace.
    pub(super) claim: &'a dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    /// The revision of this name in the set's namespace, whichever set owns it.
    pub(super) revision: &'a dyn Fn(&str) -> Option<Arc<ControllerRevision>>,
    pub(super) now: Timestamp,
}

/// Compares what is there with what is wanted.
pub(super) fn plan(facts: Facts<'_>) -> Plan {
    let history = match revisions::settle(&facts) {
        Ok(history) => history,
        Err(unsettled) => return *unsettled,
    };
    let (set, now) = (facts.set, facts.now);
    let truncation = history.truncation(&facts);
    let mut round = Round::new(&facts, &history);
    if set.metadata.deletion_timestamp.is_none() {
        round.run();
    }
    let status = round.status();
    let again = status::next_check(set, &facts.pods, &status, now);
    let mut plan = Plan { writes: truncation, again, ..Plan::default() };
    let (writes, events) = round.done();
    plan.writes.extend(writes);
    plan.events = events;
    plan.status = Some(StatusUpdate::of(set, set.status.as_ref(), &status).even_if_failed());
    plan
}

/// How the set wants its Pods.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// The number of the first Pod.
    start: i64,
    replicas: i64,
    /// Nothing is waited for.
    is_parallel: bool,
}

impl Wanted {
    fn of(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let start = spec.and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or(0);
        Wanted {
            start: i64::from(start),
            replicas: i64::from(spec.and_then(|spec| spec.replicas).unwrap_or(1).max(0)),
            is_parallel: spec.and_then(|spec| spec.pod_management_policy.as_deref()) == Some("Parallel"),
        }
    }

    fn ordinals(&self) -> std::ops::Range<i64> {
        self.start..self.start + self.replicas
    }
}

fn min_ready_seconds(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}
