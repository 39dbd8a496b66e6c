//! Every answer against the timeline, and against what somebody knew before it was asked for.
//!
//! `known` is the least revision that an operation must have seen: the greatest one that anybody had
//! heard of, by an answer or a watch, before it was invoked.

use std::collections::BTreeMap;

use super::super::log::{Answer, Asked, Change, Operation, Seen, Step, Tick};
use super::timeline::Timeline;
use super::violation::{Findings, Kind};
use super::{Evidence, holds};
use crate::{Range, Revision};

enum Moment {
    Invoked(usize),
    Returned(usize),
    WatchAsked(usize),
    WatchOpened(usize),
    /// A watcher saw a revision.
    Watched(Revision),
}

pub(super) fn check(evidence: &Evidence<'_>, timelines: &[Timeline], findings: &mut Findings) {
    let mut known = 0;
    let mut known_when_asked = BTreeMap::new();
    let mut known_when_watched = BTreeMap::new();
    for (_, moment) in moments(evidence) {
        match moment {
            Moment::Watched(revision) => known = known.max(revision),
            Moment::Invoked(number) => drop(known_when_asked.insert(number, known)),
            Moment::WatchAsked(number) => drop(known_when_watched.insert(number, known)),
            Moment::WatchOpened(number) => {
                let watch = &evidence.history.watches[number];
                let Some(error) = &watch.refused else { continue };
                let known = known_when_watched.get(&number).copied().unwrap_or(0);
                if let Err(why) = evidence.refusal(error, watch.after, (watch.life, watch.returned), known) {
                    let what = format!("a watch of {:?} after {} was refused: {why}", watch.prefix, watch.after);
                    findings.add(Kind::FalseRefusal, what, &[]);
                }
            }
            Moment::Returned(number) => {
                let operation = evidence.operation(number);
                let case = Case {
                    evidence,
                    timeline: &timelines[operation.life],
                    operation,
                    known: known_when_asked.get(&number).copied().unwrap_or(0),
                };
                match case.judge() {
                    Ok(seen) => known = known.max(seen),
                    Err((kind, what)) => findings.add(kind, what, &[operation]),
                }
            }
        }
    }
}

fn moments(evidence: &Evidence<'_>) -> Vec<(Tick, Moment)> {
    let mut moments = Vec::new();
    for (number, operation) in evidence.history.operations.iter().enumerate() {
        moments.push((operation.invoked, Moment::Invoked(number)));
        if operation.answer.is_some() {
            moments.push((operation.returned, Moment::Returned(number)));
        }
    }
    for (number, watch) in evidence.history.watches.iter().enumerate() {
        moments.push((watch.invoked, Moment::WatchAsked(number)));
        moments.push((watch.returned, Moment::WatchOpened(number)));
        for (tick, step) in &watch.steps {
            let seen = match step {
                Step::Batch(events) => events.iter().map(|event| event.revision).max(),
                Step::Progress(revision) | Step::Drained(revision) => Some(*revision),
                Step::Ended(_) => None,
            };
            moments.extend(seen.map(|revision| (*tick, Moment::Watched(revision))));
        }
    }
    moments.sort_by_key(|(tick, _)| *tick);
    moments
}

type Verdict = Result<Revision, (Kind, String)>;

/// One answered operation, with all that it is judged by.
struct Case<'a> {
    evidence: &'a Evidence<'a>,
    timeline: &'a Timeline,
    operation: &'a Operation,
    known: Revision,
}

impl Case<'_> {
    /// The least revision that the reader of the answer has seen, or what is wrong with it.
    fn judge(&self) -> Verdict {
        match (&self.operation.asked, &self.operation.answer) {
            (Asked::Commit { checks, changes, .. }, Some(Answer::Committed { revision, entries })) => {
                if entries.iter().any(Option::is_some) {
                    return self.not_reversed(*revision, self.known + 1);
                }
                self.not_reversed(*revision, self.known)?;
                for (key, expect) in checks {
                    if !holds(*expect, self.timeline.at(key, *revision)) {
                        return Err((Kind::CheckIgnored, format!("{key} was not {expect:?} at {revision}")));
                    }
                }
                self.changed_nothing(changes, *revision)
            }
            (Asked::Commit { checks, .. }, Some(Answer::Conflict { key, current })) => {
                let of_key = |(checked, _): &&(_, _)| checked == key;
                if checks.iter().filter(of_key).all(|(_, expect)| holds(*expect, current.as_ref())) {
                    return Err((Kind::FalseConflict, format!("what it expects of {key} holds for {current:?}")));
                }
                self.observed(key, current.as_ref())
            }
            (Asked::Get { key }, Some(Answer::Got(current))) => self.observed(key, current.as_ref()),
            (Asked::Range(range), Some(Answer::Page { revision, entries, remaining })) => {
                self.page(range, *revision, entries, *remaining)
            }
            (Asked::Range(range), Some(Answer::Refused(error))) => {
                let at = range.at.unwrap_or(Revision::MAX);
                let when = (self.operation.life, self.operation.returned);
                let refusal = self.evidence.refusal(error, at, when, self.known);
                refusal.map(|()| 0).map_err(|why| (Kind::FalseRefusal, why))
            }
            (_, Some(Answer::Revision(revision))) => self.not_reversed(*revision, self.known),
            (Asked::Expire { now_ms }, Some(Answer::Expired(_))) => self.expired(*now_ms),
            _ => Ok(0),
        }
    }

    fn not_reversed(&self, revision: Revision, least: Revision) -> Verdict {
        if revision >= least {
            return Ok(revision);
        }
        let what = format!("it has revision {revision}, though {} was seen before it was asked", self.known);
        Err((Kind::RevisionReversed, what))
    }

    fn changed_nothing(&self, changes: &[Change], revision: Revision) -> Verdict {
        for change in changes {
            let present = self.timeline.at(change.key(), revision);
            if matches!(change, Change::Put { .. }) || present.is_some() {
                let what = format!("it says it changed nothing at {revision}, where {present:?}");
                return Err((Kind::LostWrite, what));
            }
        }
        Ok(revision)
    }

    /// A key was seen like this at some moment between question and answer.
    fn observed(&self, key: &str, current: Option<&Seen>) -> Verdict {
        let Some(seen) = current else { return self.observed_absent(key) };
        let wanted = self.timeline.at(key, seen.mod_revision);
        if wanted != Some(seen) {
            return Err(wrong(seen, wanted));
        }
        let next = self.timeline.changes_after(key, seen.mod_revision).first();
        if let Some((replaced, _)) = next.filter(|(replaced, _)| *replaced <= self.known) {
            let what = format!(
                "{key} is seen as of {}, though {replaced} replaced it and {} was seen before it was asked",
                seen.mod_revision, self.known
            );
            return Err((Kind::StaleRead, what));
        }
        let made = self.timeline.made().get(&seen.mod_revision);
        if made.is_some_and(|made| made.invoked > self.operation.returned) {
            return Err((Kind::WrongRead, format!("{key} is seen as somebody made it only later: {seen:?}")));
        }
        Ok(seen.mod_revision.max(self.known))
    }

    fn observed_absent(&self, key: &str) -> Verdict {
        let Some(present) = self.timeline.at(key, self.known) else { return Ok(self.known) };
        for (revision, version) in self.timeline.changes_after(key, self.known) {
            let invoked = self.timeline.made().get(revision).map_or(0, |made| made.invoked);
            if version.is_none() && invoked < self.operation.returned {
                return Ok(*revision);
            }
        }
        Err((Kind::StaleRead, format!("{key} is not seen, though it was there: {present:?}")))
    }

    fn page(&self, range: &Range, revision: Revision, entries: &[Seen], remaining: usize) -> Verdict {
        match range.at {
            Some(at) if at != revision => {
                return Err((Kind::WrongRead, format!("asked at {at}, answered at {revision}")));
            }
            None if revision < self.known => {
                let what = format!("read at {revision}, though {} was seen before it was asked", self.known);
                return Err((Kind::StaleRead, what));
            }
            _ => {}
        }
        let state = self.timeline.state(revision);
        let wanted: Vec<&Seen> =
            state.into_iter().filter(|(key, _)| range.contains(key)).map(|(_, seen)| seen).collect();
        let count = if range.limit == 0 { wanted.len() } else { wanted.len().min(range.limit) };
        for (seen, wanted) in entries.iter().zip(&wanted[..count]) {
            if seen != *wanted {
                let (kind, what) = self.torn(entries).unwrap_or_else(|| wrong(seen, Some(wanted)));
                return Err((kind, format!("at revision {revision}: {what}")));
            }
        }
        if entries.len() != count || remaining != wanted.len() - count {
            let what = format!(
                "at revision {revision} there are {count} keys and {} more, not {} and {remaining}: {wanted:?}",
                wanted.len() - count,
                entries.len()
            );
            return Err(self.torn(entries).unwrap_or((Kind::WrongRead, what)));
        }
        Ok(revision)
    }

    /// A transaction of which a page shows one key and, of another, what was there before.
    fn torn(&self, entries: &[Seen]) -> Option<(Kind, String)> {
        for shown in entries {
            for event in &self.timeline.made().get(&shown.mod_revision)?.events {
                let other = entries.iter().find(|seen| seen.key == event.entry.key);
                if let Some(other) = other.filter(|other| other.mod_revision < shown.mod_revision) {
                    let what = format!("{} and {} changed together, and one shows it", shown.key, other.key);
                    return Some((Kind::HalfTransaction, what));
                }
            }
        }
        None
    }

    /// At some moment between question and answer no key was due any more.
    fn expired(&self, now_ms: i64) -> Verdict {
        let due = |seen: &&Seen| seen.expires_at.is_some_and(|at| at <= now_ms);
        let clean = |revision: Revision| !self.timeline.state(revision).values().any(due);
        if clean(self.known) {
            return Ok(self.known);
        }
        let later = self.timeline.made().range(self.known + 1..);
        // Those made later than the answer are many, and no help.
        let possible = later.take_while(|(_, made)| made.invoked < self.operation.returned);
        for (revision, _) in possible {
            if clean(*revision) {
                return Ok(*revision);
            }
        }
        let left: Vec<_> = self.timeline.state(self.known).into_values().filter(due).collect();
        Err((Kind::WrongExpiry, format!("keys that were due are left at every moment of it: {left:?}")))
    }
}

fn wrong(seen: &Seen, wanted: Option<&Seen>) -> (Kind, String) {
    let same = wanted.is_some_and(|wanted| wanted.value == seen.value);
    let kind = if same { Kind::WrongVersion } else { Kind::WrongRead };
    (kind, format!("it shows {seen:?}, which should be {wanted:?}"))
}
