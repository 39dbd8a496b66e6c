//! What a crash left: all that was synced, the relaxed up to some revision, and of the unanswered any.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::log::{Answer, Asked, Change, Operation, Seen, Step};
use super::timeline::{self, Timeline};
use super::violation::{Findings, Kind};
use super::{Evidence, holds, is_unknown};
use crate::{Durability, EventKind, Revision};

/// Brings the timeline of the life before to what the first read of this one shows.
pub(super) fn begin(timeline: &mut Timeline, evidence: &Evidence<'_>, life: usize, findings: &mut Findings) {
    let first = evidence.operation(evidence.history.lives[life].first_read);
    let Some(Answer::Page { revision, entries, .. }) = &first.answer else {
        findings.add(Kind::Unreadable, format!("the store cannot be read at the beginning of life {life}"), &[first]);
        return;
    };
    let found: BTreeMap<&str, &Seen> = entries.iter().map(|seen| (&*seen.key, seen)).collect();
    if life > 0 {
        let since = evidence.base(life - 1);
        // A store that remembers its history over a restart tells of what nobody had seen before.
        let told = told_later(evidence, life, timeline.end(), *revision);
        if told.is_empty() && survived(timeline, evidence, since, &found, findings, first) {
            return;
        }
        if let Some(extended) = with_unanswered(timeline, evidence, life, &found, *revision, told) {
            *timeline = extended;
            return;
        }
        blame(timeline, &found, findings, first);
    }
    // What follows is judged by what is there, or one fault would be reported again and again.
    let keys: Vec<Arc<str>> = timeline.state(Revision::MAX).keys().map(|key| Arc::from(*key)).collect();
    for key in keys.iter().filter(|key| !found.contains_key(&***key)) {
        timeline.set(key, *revision, None);
    }
    for seen in entries {
        timeline.set(&seen.key, *revision, Some(seen.clone()));
    }
}

/// Whether what was found is the state at some revision of the last life; the latest such counts.
/// Revisions after it are cut, which only relaxed transactions may be.
fn survived(
    timeline: &mut Timeline,
    evidence: &Evidence<'_>,
    since: Revision,
    found: &BTreeMap<&str, &Seen>,
    findings: &mut Findings,
    first: &Operation,
) -> bool {
    let earlier = timeline.made().range(since + 1..).rev().map(|(revision, _)| *revision);
    let candidates: Vec<Revision> = std::iter::once(timeline.end()).chain(earlier).chain([since]).collect();
    let Some(cut) = candidates.into_iter().find(|cut| timeline.state(*cut) == *found) else { return false };
    let synced = timeline.made().range(cut + 1..).find(|(_, made)| made.synced);
    if let Some((revision, made)) = synced {
        let what = format!("the crash took all after {cut}, though {revision} was synced: {:?}", made.events);
        let writer = made.by.map(|number| evidence.operation(number));
        let operations: Vec<_> = writer.into_iter().chain([first]).collect();
        findings.add(Kind::LostWrite, what, &operations);
    }
    timeline.cut(cut);
    true
}

/// What watches of later lives were told of the end of this one, by revision: keys that were deleted, and keys that were
/// put with the operation that did so.
type ToldLater<'a> = BTreeMap<Revision, Vec<(&'a str, Option<usize>)>>;

fn told_later<'a>(evidence: &Evidence<'a>, life: usize, after: Revision, base: Revision) -> ToldLater<'a> {
    let mut told = ToldLater::new();
    let later = evidence.history.watches.iter().filter(|watch| watch.life >= life);
    for (_, step) in later.flat_map(|watch| &watch.steps) {
        let Step::Batch(events) = step else { continue };
        for event in events.iter().filter(|event| event.revision > after && event.revision <= base) {
            let author = if event.kind == EventKind::Put { evidence.author(&event.entry) } else { None };
            let about = (&*event.entry.key, author);
            let known = told.entry(event.revision).or_default();
            if !known.contains(&about) {
                known.push(about);
            }
        }
    }
    told
}

/// The timeline with those unanswered transactions that explain what was found, if any do.
fn with_unanswered(
    timeline: &Timeline,
    evidence: &Evidence<'_>,
    life: usize,
    found: &BTreeMap<&str, &Seen>,
    base: Revision,
    told: ToldLater<'_>,
) -> Option<Timeline> {
    let mut unanswered = Unanswered { evidence, found, base, shown: BTreeMap::new(), told, taken: Vec::new() };
    for seen in found.values().filter(|seen| seen.mod_revision > timeline.end()) {
        let number = evidence.author(seen)?;
        let other = unanswered.shown.insert(seen.mod_revision, number);
        if !is_unknown(evidence.operation(number)) || other.is_some_and(|other| other != number) {
            return None;
        }
    }
    let waiting: Vec<usize> =
        evidence.of_life(life - 1).filter(|(_, operation)| is_unknown(operation)).map(|(number, _)| number).collect();
    let waiting: Vec<usize> = waiting.into_iter().filter(|number| !is_in(timeline, *number)).collect();
    let state = timeline.state(Revision::MAX).into_values().map(|seen| (Arc::clone(&seen.key), seen.clone())).collect();
    if !unanswered.explain(&state, timeline.end(), &waiting) {
        return None;
    }
    let mut timeline = timeline.clone();
    for (revision, number, changes) in unanswered.taken {
        let operation = evidence.operation(number);
        let synced = matches!(operation.asked, Asked::Commit { durability: Durability::Synced, .. });
        timeline.apply(revision, (Some(number), synced, operation.invoked), &changes);
    }
    Some(timeline)
}

fn is_in(timeline: &Timeline, number: usize) -> bool {
    timeline.made().values().any(|made| made.by == Some(number))
}

type State = BTreeMap<Arc<str>, Seen>;

/// The search for an order in which some of the unanswered operations lead to what was found. There
/// are no more of them than clients, and what they expect and show leaves little choice.
struct Unanswered<'a> {
    evidence: &'a Evidence<'a>,
    found: &'a BTreeMap<&'a str, &'a Seen>,
    base: Revision,
    /// Those whose values were found, by their revisions.
    shown: BTreeMap<Revision, usize>,
    told: ToldLater<'a>,
    taken: Vec<(Revision, usize, Vec<Change>)>,
}

impl Unanswered<'_> {
    fn explain(&mut self, state: &State, at: Revision, waiting: &[usize]) -> bool {
        let next = self.shown.range(at + 1..).next().map(|(revision, number)| (*revision, *number));
        if next.is_none()
            && self.told.range(at + 1..).next().is_none()
            && state.len() == self.found.len()
            && state.values().all(|seen| self.found.get(&*seen.key) == Some(&seen))
        {
            return true;
        }
        for number in waiting {
            let shown = next.filter(|(_, shown)| shown == number).map(|(revision, _)| revision);
            let revision = shown.unwrap_or(at + 1);
            // Another one was seen to have this revision, or nobody can have it.
            if revision > self.base || (shown.is_none() && self.shown.contains_key(&revision)) {
                continue;
            }
            // One that was told of is left out.
            if self.told.range(at + 1..revision).next().is_some() {
                continue;
            }
            let mut after = state.clone();
            let before = self.taken.len();
            let Some(end) = self.take(*number, revision, &mut after) else { continue };
            let rest: Vec<usize> = waiting.iter().copied().filter(|other| other != number).collect();
            if self.agrees(before) && self.explain(&after, end, &rest) {
                return true;
            }
            self.taken.truncate(before);
        }
        false
    }

    /// Whether what was taken last is what was told of its revisions.
    fn agrees(&self, since: usize) -> bool {
        self.taken[since..].iter().all(|(revision, number, changes)| {
            let told = self.told.get(revision).map_or(&[][..], Vec::as_slice);
            told.iter().all(|(key, author)| {
                changes.iter().any(|change| {
                    let by = if matches!(change, Change::Put { .. }) { Some(*number) } else { None };
                    &**change.key() == *key && by == *author
                })
            })
        })
    }

    /// Applies an operation to a state; the last revision it took, or `None` if it changes nothing.
    fn take(&mut self, number: usize, first: Revision, state: &mut State) -> Option<Revision> {
        match &self.evidence.operation(number).asked {
            Asked::Commit { checks, changes, .. } => {
                let refused = checks.iter().any(|(key, expect)| !holds(*expect, state.get(key)));
                let effective = changes.iter().any(|change| match change {
                    Change::Put { .. } => true,
                    Change::Delete { key } => state.contains_key(key),
                });
                if refused || !effective {
                    return None;
                }
                changes.iter().for_each(|change| drop(timeline::change(change, first, state)));
                self.taken.push((first, number, changes.clone()));
                Some(first)
            }
            Asked::Expire { now_ms } => {
                let due = state.values().filter_map(|seen| Some((seen.expires_at?, Arc::clone(&seen.key))));
                let mut due: Vec<_> = due.filter(|(at, _)| at <= now_ms).collect();
                due.sort();
                let mut revision = first;
                for (_, key) in due {
                    state.remove(&key);
                    self.taken.push((revision, number, vec![Change::Delete { key }]));
                    revision += 1;
                }
                (revision > first).then(|| revision - 1)
            }
            _ => None,
        }
    }
}

/// Says for each key what is wrong with it.
fn blame(timeline: &Timeline, found: &BTreeMap<&str, &Seen>, findings: &mut Findings, first: &Operation) {
    let expected = timeline.state(Revision::MAX);
    for (key, wanted) in &expected {
        let whole = || {
            let together = timeline.made().get(&wanted.mod_revision).map_or(&[][..], |made| &made.events);
            !together.iter().any(|event| {
                event.entry.key != wanted.key
                    && found.get(&*event.entry.key).is_some_and(|seen| seen.mod_revision == wanted.mod_revision)
            })
        };
        match found.get(key) {
            Some(seen) if seen == wanted => {}
            Some(seen) if seen.value == wanted.value => {
                let what = format!("after the crash there is {seen:?}, which should be {wanted:?}");
                findings.add(Kind::WrongVersion, what, &[first]);
            }
            other if other.is_none_or(|seen| timeline.ever(seen)) => {
                let kind = if whole() { Kind::LostWrite } else { Kind::HalfTransaction };
                findings.add(kind, format!("the crash took {wanted:?} and left {other:?}"), &[first]);
            }
            other => {
                let what = format!("after the crash there is {other:?}, which should be {wanted:?}");
                findings.add(Kind::WrongRead, what, &[first]);
            }
        }
    }
    for (key, seen) in found.iter().filter(|(key, _)| !expected.contains_key(*key)) {
        let kind = if timeline.ever(seen) { Kind::Resurrected } else { Kind::WrongRead };
        findings.add(kind, format!("{key} was deleted before the crash, and is back: {seen:?}"), &[first]);
    }
}
