//! What the Pods of a node take of it, and whether there is room for one more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::Key;

use super::{Home, Pods, Seat, Tenancy, by_node};
use crate::fit::{Claim, Misfit, Victim, is_preemptable, misfits, victims};
use crate::make::resources::service_of;
use crate::plan::{Evicted, is_terminal};
use crate::pressure::{Tenants, is_critical};
use crate::statics::mirror::{shown_by, uid_at_runtime};

/// What Pods take that the node has taken on, by UID. Lock order: seats before claims.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<BTreeMap<String, Claim>>);

impl Claims {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Claim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn release(&self, uid: &str) {
        self.all().remove(uid);
    }
}

/// What became of a Pod that asked for room.
pub(super) enum Room {
    Given,
    /// A reason and a message.
    Refused(String, String),
    /// Others are about to end, and it fits when they have.
    Later,
}

impl Pods {
    /// Takes a Pod on, whatever there is room for: it runs already.
    pub(super) fn take_on(&self, pod: &Pod, seat: &Seat) {
        seat.home.claims.all().insert(seat.uid.clone(), Claim::of(pod));
    }

    /// Takes a Pod on if it fits beside the others. One decision at a time: two Pods never get the same room.
    pub(super) fn make_room(&self, pod: &Pod, seat: &Seat) -> Room {
        let home = &seat.home;
        let node = home.nodes.get(&Key::cluster(&home.name));
        let begun = self.begun(home);
        let mut claims = home.claims.all();
        // Not kept: who is looked at later takes for itself what it has.
        let unseen = begun.iter().filter(|(uid, _)| **uid != seat.uid && !claims.contains_key(*uid));
        let unseen: BTreeMap<String, Claim> = unseen.map(|(uid, pod)| (uid.clone(), Claim::of(pod))).collect();
        let claim = Claim::of(pod);
        let others: Vec<(&String, &Claim)> =
            claims.iter().chain(&unseen).filter(|(uid, _)| **uid != seat.uid).collect();
        let beside =
            |others: &[&Claim]| misfits(pod, &claim, node.as_deref(), &home.allocatable, others, is_static(pod));
        let found = beside(&others.iter().map(|(_, claim)| *claim).collect::<Vec<_>>());
        let Some(first) = found.first() else {
            claims.insert(seat.uid.clone(), claim);
            return Room::Given;
        };
        let counted = self.counted(home);
        let staying: Vec<&Claim> =
            others.iter().filter(|(uid, _)| counted.contains(*uid)).map(|(_, claim)| *claim).collect();
        if staying.len() < others.len() && beside(&staying).is_empty() {
            return Room::Later;
        }
        if !is_critical(pod) {
            let (reason, message) = first.told();
            return Room::Refused(reason, message);
        }
        if let Some(other) = found.iter().find(|misfit| misfit.missing().is_none()) {
            let (reason, message) = other.told();
            return Room::Refused(reason, message);
        }
        // Seats come before claims.
        let mut all = claims.clone();
        drop(claims);
        all.extend(unseen);
        self.preempt(pod, seat, &found, &all)
    }

    /// Sends away as many as a critical Pod needs the room of.
    fn preempt(&self, pod: &Pod, seat: &Seat, found: &[Misfit], claims: &BTreeMap<String, Claim>) -> Room {
        let tenants = Tenancy { pods: self.clone(), node: seat.home.name.clone() };
        let mut missing: BTreeMap<String, i64> = found
            .iter()
            .filter_map(|misfit| misfit.missing().map(|(resource, amount)| (resource.to_owned(), amount)))
            .collect();
        let active = tenants.active();
        let staying: BTreeSet<&str> = active.iter().map(|other| uid_at_runtime(other)).collect();
        // Those that go already give back what they have.
        for (_, claim) in claims.iter().filter(|(uid, _)| !staying.contains(uid.as_str())) {
            missing.iter_mut().for_each(|(resource, amount)| *amount = amount.saturating_sub(claim.amount(resource)));
        }
        missing.retain(|_, amount| *amount > 0);
        if missing.is_empty() {
            return Room::Later;
        }
        let candidates: Vec<(Victim, &Arc<Pod>)> = active
            .iter()
            .filter(|other| is_preemptable(pod, other))
            .filter_map(|other| {
                let uid = uid_at_runtime(other).to_owned();
                let claim = claims.get(&uid)?.clone();
                let class = service_of(other, other.spec.as_ref()?);
                Some((Victim { uid, class, claim }, other))
            })
            .collect();
        let plain: Vec<Victim> = candidates.iter().map(|(victim, _)| victim.clone()).collect();
        match victims(&missing.into_iter().collect(), &plain) {
            Ok(going) => {
                for (_, other) in candidates.iter().filter(|(victim, _)| going.contains(&victim.uid)) {
                    preempted(&seat.home, &tenants, other);
                }
                Room::Later
            }
            Err(why) => {
                let why = format!("preemption: error finding a set of pods to preempt: {why}");
                let message = format!("Unexpected error while attempting to recover from admission failure: {why}");
                Room::Refused("UnexpectedAdmissionError".to_owned(), message)
            }
        }
    }

    /// The Pods of the node that a scheduler counts, and those of its files, by UID. A Pod that was deleted without grace, or whose
    /// end is told, is none of them although its containers may still run.
    pub(super) fn counted(&self, home: &Home) -> BTreeSet<String> {
        let pods = self.pods.by(by_node, &home.name);
        let counted = pods.iter().filter(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            !is_terminal(phase)
        });
        counted.map(|pod| uid_at_runtime(pod).to_owned()).chain(self.statics.uids()).collect()
    }

    /// Pods that have begun on the node, by the UID that its runtime knows them by: after a restart of the agent not all of them
    /// have been looked at when the first new one comes.
    fn begun(&self, home: &Home) -> BTreeMap<String, Arc<Pod>> {
        let all = self.pods.by(by_node, &home.name).into_iter();
        let begun = all.filter(|pod| {
            let status = pod.status.as_ref();
            let phase = status.and_then(|status| status.phase.as_deref());
            let seat = self.seat_of(&Key::of(pod.as_ref()), uid_at_runtime(pod));
            let is_over = seat.is_some_and(|seat| seat.finished.load(Ordering::Acquire));
            status.is_some_and(|status| status.start_time.is_some()) && !is_terminal(phase) && !is_over
        });
        begun.map(|pod| (uid_at_runtime(&pod).to_owned(), pod)).collect()
    }
}

fn preempted(home: &Home, tenants: &Tenancy, pod: &Pod) {
    let message = "Preempted in order to admit critical pod";
    tracing::info!(node = %home.name, pod = %super::described(pod), "preempted for a critical Pod");
    home.recorder.warning(pod, "Preempting", message.to_owned());
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let grace = Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30));
    let disrupts = Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned());
    tenants.evict(pod, Evicted { reason: "Preempting", message: message.to_owned(), grace, disrupts });
}

fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|all| all.get("kubernetes.io/config.source"));
    shown_by(pod).is_some() || source.is_some_and(|source| source != "api")
}
