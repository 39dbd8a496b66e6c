//! What every key was at every revision, rebuilt from what the clients were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::log::{Answer, Asked, Change, Seen, SeenEvent, Step, Tick, spliced};
use super::violation::{Findings, Kind};
use super::{Evidence, holds, is_unknown, may_delete};
use crate::{Durability, EventKind, Revision};

/// The versions of all keys as one life of the store had them.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    /// For each key the revisions that changed it, in order, and what they left.
    keys: BTreeMap<Arc<str>, Vec<(Revision, Option<Seen>)>>,
    made: BTreeMap<Revision, Made>,
}

/// One transaction.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// The operation, if it is known: expired keys and deletes without an answer have none.
    pub(super) by: Option<usize>,
    pub(super) synced: bool,
    /// It cannot have been seen before.
    pub(super) invoked: Tick,
    pub(super) events: Vec<SeenEvent>,
}

impl Timeline {
    pub(super) fn at(&self, key: &str, revision: Revision) -> Option<&Seen> {
        let versions = self.keys.get(key)?;
        let later = versions.partition_point(|(at, _)| *at <= revision);
        versions[..later].last()?.1.as_ref()
    }

    /// All keys that had a value.
    pub(super) fn state(&self, revision: Revision) -> BTreeMap<&str, &Seen> {
        self.keys.keys().filter_map(|key| Some((&**key, self.at(key, revision)?))).collect()
    }

    /// The changes of a key after a revision.
    pub(super) fn changes_after(&self, key: &str, revision: Revision) -> &[(Revision, Option<Seen>)] {
        let versions = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        &versions[versions.partition_point(|(at, _)| *at <= revision)..]
    }

    /// Whether a version of the key was ever exactly this.
    pub(super) fn ever(&self, seen: &Seen) -> bool {
        self.keys.get(&seen.key).is_some_and(|all| all.iter().any(|(_, version)| version.as_ref() == Some(seen)))
    }

    pub(super) fn made(&self) -> &BTreeMap<Revision, Made> {
        &self.made
    }

    /// The last revision that changed anything.
    pub(super) fn end(&self) -> Revision {
        self.keys.values().filter_map(|versions| versions.last()).map(|(at, _)| *at).max().unwrap_or(0)
    }

    /// Forgets everything after a revision.
    pub(super) fn cut(&mut self, after: Revision) {
        for versions in self.keys.values_mut() {
            versions.truncate(versions.partition_point(|(at, _)| *at <= after));
        }
        self.made.split_off(&(after + 1));
    }

    /// From `revision` on a key is this, however that came about.
    pub(super) fn set(&mut self, key: &Arc<str>, revision: Revision, seen: Option<Seen>) {
        self.keys.entry(Arc::clone(key)).or_default().push((revision, seen));
    }

    /// Applies changes at a revision behind all others, and returns what each of them leaves behind.
    pub(super) fn apply(
        &mut self,
        revision: Revision,
        (by, synced, invoked): (Option<usize>, bool, Tick),
        changes: &[Change],
    ) -> Vec<Option<Seen>> {
        let mut left = Vec::new();
        let mut events = Vec::new();
        for change in changes {
            let key = change.key();
            let previous = self.at(key, revision).cloned();
            let mut state: BTreeMap<_, _> = previous.iter().map(|seen| (Arc::clone(key), seen.clone())).collect();
            let entry = self::change(change, revision, &mut state);
            left.push(entry.clone());
            let Some(entry) = entry else { continue };
            let stored = state.remove(key);
            let kind = if stored.is_some() { EventKind::Put } else { EventKind::Delete };
            self.set(key, revision, stored);
            events.push(SeenEvent { kind, revision, entry, previous });
        }
        self.made.insert(revision, Made { by, synced, invoked, events });
        left
    }
}

/// Applies one change to a state, and returns what a commit answers for it.
pub(super) fn change(change: &Change, revision: Revision, state: &mut BTreeMap<Arc<str>, Seen>) -> Option<Seen> {
    match change {
        Change::Put { key, value, expires_at } => {
            let previous = state.get(key);
            let entry = Seen {
                key: Arc::clone(key),
                value: spliced(value, revision),
                create_revision: previous.map_or(revision, |previous| previous.create_revision),
                mod_revision: revision,
                version: previous.map_or(1, |previous| previous.version + 1),
                expires_at: *expires_at,
            };
            state.insert(Arc::clone(key), entry.clone());
            Some(entry)
        }
        Change::Delete { key } => {
            let last = state.remove(key)?;
            Some(Seen { value: spliced(&last.value, revision), mod_revision: revision, ..last })
        }
    }
}

/// Who took a revision, as far as anybody can tell.
enum Taker {
    Operation(usize),
    /// Keys that a watch says were deleted: expired, or by a client that was cut off.
    Nobody(BTreeSet<Arc<str>>),
}

/// Adds what happened in a life to the timeline of its beginning.
pub(super) fn extend(timeline: &mut Timeline, evidence: &Evidence<'_>, life: usize, findings: &mut Findings) {
    let base = evidence.base(life);
    let takers = takers(evidence, life, base, findings);
    let mut expired = 0;
    for (revision, taker) in takers {
        match taker {
            Taker::Operation(number) => take(timeline, evidence, (revision, number), findings),
            Taker::Nobody(keys) => {
                let victims: Vec<_> = keys.iter().map(|key| timeline.at(key, revision).cloned()).collect();
                for (key, victim) in keys.iter().zip(victims) {
                    explain_delete(evidence, life, (revision, key), victim.as_ref(), findings);
                    expired += 1;
                }
                let changes: Vec<_> = keys.into_iter().map(|key| Change::Delete { key }).collect();
                timeline.apply(revision, (None, false, 0), &changes);
            }
        }
    }
    count_expired(evidence, life, expired, findings);
}

fn takers(evidence: &Evidence<'_>, life: usize, base: Revision, findings: &mut Findings) -> BTreeMap<Revision, Taker> {
    let mut takers = BTreeMap::new();
    let mut add = |revision, number, findings: &mut Findings| {
        match takers.insert(revision, Taker::Operation(number)) {
            Some(Taker::Operation(other)) if other != number => {
                let both = [evidence.operation(other), evidence.operation(number)];
                findings.add(Kind::RevisionReused, format!("two transactions have revision {revision}"), &both);
            }
            _ => {}
        };
    };
    for (number, operation) in evidence.of_life(life) {
        let Some(Answer::Committed { revision, entries }) = &operation.answer else { continue };
        if entries.iter().all(Option::is_none) {
            continue;
        }
        if *revision > base {
            add(*revision, number, findings);
        } else {
            let what = format!("a commit has revision {revision}, but its life began at {base}");
            findings.add(Kind::RevisionReversed, what, &[operation]);
        }
    }
    // Commits without an answer are known by their values.
    let mut found: BTreeMap<usize, Revision> = BTreeMap::new();
    for seen in evidence.stored(life) {
        let Some(number) = evidence.author(seen) else {
            findings.add(Kind::WrongRead, format!("nobody wrote this: {seen:?}"), &[]);
            continue;
        };
        let operation = evidence.operation(number);
        if !is_unknown(operation) || seen.mod_revision <= base {
            continue;
        }
        match found.insert(number, seen.mod_revision) {
            None => add(seen.mod_revision, number, findings),
            Some(other) if other != seen.mod_revision => {
                let what = format!("one transaction is seen at revisions {other} and {}", seen.mod_revision);
                findings.add(Kind::RevisionReused, what, &[operation]);
            }
            Some(_) => {}
        }
    }
    for watch in evidence.history.watches.iter().filter(|watch| watch.life == life) {
        for (_, step) in &watch.steps {
            let Step::Batch(events) = step else { continue };
            for event in events.iter().filter(|event| event.kind == EventKind::Delete && event.revision > base) {
                let taker = takers.entry(event.revision).or_insert_with(|| Taker::Nobody(BTreeSet::new()));
                if let Taker::Nobody(keys) = taker {
                    keys.insert(Arc::clone(&event.entry.key));
                }
            }
        }
    }
    takers
}

/// Applies a known transaction: what it expects must hold, and its answer must be what it did.
fn take(
    timeline: &mut Timeline,
    evidence: &Evidence<'_>,
    (revision, number): (Revision, usize),
    findings: &mut Findings,
) {
    let operation = evidence.operation(number);
    let Asked::Commit { checks, changes, durability } = &operation.asked else { return };
    for (key, expect) in checks {
        let current = timeline.at(key, revision);
        if !holds(*expect, current) {
            let what = format!("applied at {revision}, though {key} was expected {expect:?} and was {current:?}");
            findings.add(Kind::CheckIgnored, what, &[operation]);
        }
    }
    let synced = *durability == Durability::Synced;
    let left = timeline.apply(revision, (Some(number), synced, operation.invoked), changes);
    if let Some(Answer::Committed { entries, .. }) = &operation.answer
        && *entries != left
    {
        let same = |one: &Option<Seen>, other: &Option<Seen>| {
            one.as_ref().map(|seen| &seen.value) == other.as_ref().map(|seen| &seen.value)
        };
        let values = entries.len() == left.len() && entries.iter().zip(&left).all(|(one, other)| same(one, other));
        let kind = if values { Kind::WrongVersion } else { Kind::WrongRead };
        findings.add(kind, format!("the commit should have answered {left:?}"), &[operation]);
    }
}

fn explain_delete(
    evidence: &Evidence<'_>,
    life: usize,
    (revision, key): (Revision, &str),
    victim: Option<&Seen>,
    findings: &mut Findings,
) {
    let Some(victim) = victim else {
        let what = format!("a watch says that {key} was deleted at {revision}, but there was no such key");
        findings.add(Kind::WatchWrongEvent, what, &[]);
        return;
    };
    let earlier = evidence.history.operations.iter().filter(|operation| operation.life <= life);
    if !earlier.into_iter().any(|operation| may_delete(operation, victim)) {
        let what = format!("{key} was deleted at {revision}, but nobody asked for it and it was not due: {victim:?}");
        findings.add(Kind::WrongExpiry, what, &[]);
    }
}

/// As many keys went without a client's delete as the calls of expire say.
fn count_expired(evidence: &Evidence<'_>, life: usize, gone: usize, findings: &mut Findings) {
    let mut answered = 0;
    let mut unknown = false;
    for (_, operation) in evidence.of_life(life) {
        match (&operation.asked, &operation.answer) {
            (Asked::Expire { .. }, Some(Answer::Expired(count))) => answered += count,
            (Asked::Expire { .. } | Asked::Commit { .. }, None | Some(Answer::Failed(_))) => unknown = true,
            _ => {}
        }
    }
    if gone < answered || (gone > answered && !unknown) {
        let what = format!("in life {life} calls of expire say {answered} keys went, and watches show {gone}");
        findings.add(Kind::WrongExpiry, what, &[]);
    }
}
