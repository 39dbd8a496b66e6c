//! One look at all Pods of a StatefulSet: those that are wanted, in order, and those that are not, from the highest number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSetStatus;
use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::Write;
use pintle_runtime::plan::{Note, Pace};

use super::retention::Holder;
use super::revisions::{History, revision_of};
use super::storage::Storage;
use super::{Facts, Wanted, identity, min_ready_seconds, status, update};
use crate::{history, pods};

/// Pods made in one go, at most.
const BURST: usize = 500;

/// Whether what comes after a Pod may be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continue,
    Stop,
}

pub(super) struct Round<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) history: &'a History<'a>,
    pub(super) wanted: Wanted,
    /// Those that are there and wanted, by number.
    pub(super) present: BTreeMap<i64, &'a Arc<Pod>>,
    /// Those that are not wanted, the highest number first.
    condemned: Vec<(i64, &'a Arc<Pod>)>,
    writes: Writes,
    events: Vec<Note>,
    /// Names of the Pods that are deleted in this round.
    deleted: BTreeSet<String>,
    /// How many of them for an update.
    leaving: i32,
}

/// The writes, in three steps, so that a claim that cannot be made keeps only its own Pod from being made.
#[derive(Default)]
struct Writes {
    first: Vec<Write>,
    claims: Vec<Write>,
    /// What needs the claims.
    last: Vec<Write>,
}

impl<'a> Round<'a> {
    pub(super) fn new(facts: &'a Facts<'a>, history: &'a History<'a>) -> Self {
        let wanted = Wanted::of(facts.set);
        let numbered = facts.pods.iter().filter_map(|pod| Some((identity::ordinal(pod)?, pod)));
        let (present, others): (Vec<_>, Vec<_>) =
            numbered.partition(|(ordinal, _)| wanted.ordinals().contains(ordinal));
        let mut condemned = others;
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Round {
            facts,
            history,
            wanted,
            present: present.into_iter().collect(),
            condemned,
            writes: Writes::default(),
            events: Vec::new(),
            deleted: BTreeSet::new(),
            leaving: 0,
        }
    }

    pub(super) fn run(&mut self) {
        if self.wanted_members() == Flow::Stop {
            return;
        }
        self.claims_of_condemned();
        if self.condemned_members() == Flow::Continue {
            update::update(self);
        }
    }

    /// What is to be written, and what is to be told.
    pub(super) fn done(self) -> (Vec<Write>, Vec<Note>) {
        let Writes { first, claims, last } = self.writes;
        let pace = if self.wanted.is_parallel { Pace::SlowStart } else { Pace::InOrder };
        let all = first.into_iter().chain(claims).chain(last);
        (all.map(|write| write.paced(pace)).collect(), self.events)
    }

    pub(super) fn status(&self) -> StatefulSetStatus {
        let counted: Vec<&Arc<Pod>> =
            self.present.values().copied().chain(self.condemned.iter().map(|(_, pod)| *pod)).collect();
        status::status(self.facts, self.history, &counted, self.leaving)
    }

    /// Makes, repairs and replaces Pods, from the lowest number on.
    fn wanted_members(&mut self) -> Flow {
        let (mut made, mut blocked) = (0, false);
        for ordinal in self.wanted.ordinals() {
            let flow = match self.present.get(&ordinal).copied() {
                Some(pod) => self.keep(ordinal, pod, &mut blocked),
                None => {
                    made += 1;
                    self.make(ordinal, &mut blocked)
                }
            };
            // What is left comes in the next round.
            if made == BURST || (flow == Flow::Stop && !self.wanted.is_parallel) {
                return Flow::Stop;
            }
        }
        if blocked { Flow::Stop } else { Flow::Continue }
    }

    /// Makes a Pod that is missing, after its claims.
    fn make(&mut self, ordinal: i64, blocked: &mut bool) -> Flow {
        let (set, name) = (self.facts.set, identity::pod_name(self.facts.set, ordinal));
        let storage = Storage::of(self.facts, ordinal, &Holder { name: &name, pod: None, is_wanted: true });
        if storage.has_stale {
            return Flow::Stop;
        }
        self.writes.claims.extend(storage.creations(self.facts, &name));
        let failed =
            |error: &str| format!("Create Pod {name} in StatefulSet {} failed error: {error}", identity::name_of(set));
        if let Some(claim) = storage.going.first() {
            // Its end wakes the set.
            self.events.push(Note::warning("FailedCreate", failed(&format!("pvc {claim} is being deleted"))));
            *blocked = true;
            return Flow::Stop;
        }
        let is_current = self.is_made_of_current(ordinal);
        let revision = if is_current { &self.history.current } else { &self.history.update };
        let Some(template) = self.history.template(is_current) else {
            let text = format!("the data of revision {} cannot be read", history::name(revision));
            self.events.push(Note::warning("FailedCreate", failed(&text)));
            *blocked = true;
            return Flow::Stop;
        };
        let pod = identity::pod(set, &template, history::name(revision), ordinal);
        let creation = Write::create(&pod)
            .saying("SuccessfulCreate", self.successful("Create", &name))
            .warning("FailedCreate", failed("{error}"));
        if storage.missing.is_empty() { &mut self.writes.first } else { &mut self.writes.last }.push(creation);
        self.writes.claims.extend(storage.ownership());
        self.events.extend(storage.conflicts());
        Flow::Stop
    }

    /// Below the partition Pods are of the current revision. Without a partition that is true of as many as are left of it.
    fn is_made_of_current(&self, ordinal: i64) -> bool {
        let strategy = self.facts.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        let Some(strategy) = strategy else { return false };
        let current = match &strategy.rolling_update {
            Some(rolling) => rolling.partition.unwrap_or(0),
            None if strategy.type_.as_deref() == Some("RollingUpdate") => {
                self.facts.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0)
            }
            None => 0,
        };
        ordinal < self.wanted.start + i64::from(current)
    }

    /// Looks after a Pod that is there.
    fn keep(&mut self, ordinal: i64, pod: &Arc<Pod>, blocked: &mut bool) -> Flow {
        let name = pod.metadata.name.clone().unwrap_or_default();
        if pods::is_terminal(pod) {
            // Its successor is made when it is gone.
            if !is_going(pod) {
                self.delete(pod);
            }
            return Flow::Stop;
        }
        let storage = Storage::of(self.facts, ordinal, &Holder { name: &name, pod: Some(pod), is_wanted: true });
        if pods::phase(pod) == "Pending" {
            self.writes.claims.extend(storage.creations(self.facts, &name));
            self.events.extend(storage.conflicts());
            if !storage.going.is_empty() {
                *blocked = true;
                return Flow::Stop;
            }
        }
        let must_wait = is_going(pod) || !is_running_and_ready(pod) || !self.is_available(pod);
        if must_wait && !self.wanted.is_parallel {
            if pods::phase(pod) == "Pending" {
                self.writes.claims.extend(storage.ownership());
            }
            return Flow::Stop;
        }
        self.repair(ordinal, pod, &storage);
        Flow::Continue
    }

    /// Gives a Pod its labels and volumes again, and its claims their owners.
    fn repair(&mut self, ordinal: i64, pod: &Arc<Pod>, storage: &Storage) {
        let (is_labelled, mounts) = (identity::is_labelled(pod), identity::mounts_claims(self.facts.set, pod, ordinal));
        if is_labelled && mounts && storage.misowned.is_empty() {
            return;
        }
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let said = |write: Write| {
            let failed = format!(
                "Update Pod {name} in StatefulSet {} failed error: {{error}}",
                identity::name_of(self.facts.set)
            );
            write.saying("SuccessfulUpdate", self.successful("Update", name)).warning("FailedUpdate", failed)
        };
        let mut repaired = pod.as_ref().clone();
        if !is_labelled {
            identity::label(&mut repaired, ordinal);
        }
        if !mounts {
            identity::mount_claims(self.facts.set, &mut repaired, ordinal);
        }
        let replacement = (!is_labelled || !mounts).then(|| said(Write::replace(&repaired)));
        let mut ownership = storage.ownership();
        if replacement.is_none() {
            ownership = ownership.into_iter().map(said).collect();
        }
        if !mounts && pods::phase(pod) != "Pending" {
            let creations = storage.creations(self.facts, name);
            self.writes.claims.extend(creations);
        }
        if pods::phase(pod) != "Pending" {
            self.events.extend(storage.conflicts());
        }
        self.writes.claims.extend(ownership);
        self.writes.last.extend(replacement);
    }

    /// Gives claims of Pods that go to those Pods, if they are to go with them.
    fn claims_of_condemned(&mut self) {
        for (ordinal, pod) in self.condemned.clone() {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let storage = Storage::of(self.facts, ordinal, &Holder { name, pod: Some(pod), is_wanted: false });
            if !storage.misowned.is_empty() {
                self.writes.claims.extend(storage.ownership());
                self.events.extend(storage.conflicts());
            }
        }
    }

    /// Deletes Pods that are not wanted: in an ordered set one at a time, and only while all others are available.
    fn condemned_members(&mut self) -> Flow {
        let lowest_unavailable = self.condemned.iter().rev().find(|(_, pod)| !self.is_available(pod) || is_going(pod));
        let lowest_unavailable = lowest_unavailable.map(|(ordinal, _)| *ordinal);
        for (ordinal, pod) in self.condemned.clone() {
            if self.wanted.is_parallel {
                if !is_going(pod) {
                    self.delete(pod);
                }
                continue;
            }
            let is_well = is_running_and_ready(pod) && self.is_available(pod);
            if !is_going(pod) && (is_well || Some(ordinal) == lowest_unavailable) {
                self.delete(pod);
            }
            return Flow::Stop;
        }
        Flow::Continue
    }

    /// Deletes a Pod so that one of the new revision takes its place.
    pub(super) fn replace(&mut self, pod: &Arc<Pod>) {
        self.delete(pod);
        self.leaving = self.leaving.saturating_add(1);
    }

    fn delete(&mut self, pod: &Arc<Pod>) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        if !self.deleted.insert(name.clone()) {
            return;
        }
        let failed =
            format!("Delete Pod {name} in StatefulSet {} failed error: {{error}}", identity::name_of(self.facts.set));
        let deletion = Write::delete(pod.as_ref())
            .saying("SuccessfulDelete", self.successful("Delete", &name))
            .warning("FailedDelete", failed);
        self.writes.last.push(deletion);
    }

    /// Whether the Pod is of another revision than the set goes to, and nobody deletes it yet.
    pub(super) fn is_old(&self, pod: &Pod) -> bool {
        revision_of(pod) != history::name(&self.history.update) && !is_going(pod)
    }

    pub(super) fn is_unavailable(&self, pod: &Pod) -> bool {
        is_going(pod) || !self.is_available(pod)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, min_ready_seconds(self.facts.set), self.facts.now)
    }

    fn successful(&self, verb: &str, pod: &str) -> String {
        format!("{verb} Pod {pod} in StatefulSet {} successful", identity::name_of(self.facts.set))
    }
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn is_running_and_ready(pod: &Pod) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}
