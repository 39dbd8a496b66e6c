//! The checker: whether one correct store could have shown its clients this history.
//!
//! 1. `timeline` rebuilds, life by life, which transaction took which revision and what every key was
//!    at each of them. `recovery` finds what a crash may have taken, and whether it was allowed to.
//! 2. `order` walks all operations in the order of their times and compares each answer with the
//!    timeline and with what was known to somebody before it was asked.
//! 3. `delivery` compares what each watch delivered with what it should have.
//!
//! A violation is a value: the checker goes on after it, and reports the first ones.

mod delivery;
mod order;
mod recovery;
mod timeline;
mod violation;

use std::collections::BTreeMap;

use self::timeline::Timeline;
use self::violation::Findings;
pub use self::violation::{Kind, Violation};
use super::log::{Answer, Asked, Change, History, Operation, Seen, Step, author};
use crate::{EventKind, Expect, ReadError, Revision};

/// Everything that no correct store could have done, at most some twenty findings.
pub fn check(history: &History) -> Vec<Violation> {
    let mut findings = Findings::default();
    let evidence = Evidence::new(history);
    let mut timelines: Vec<Timeline> = Vec::new();
    for life in 0..history.lives.len() {
        let mut timeline = match timelines.last() {
            Some(before) => before.clone(),
            None => Timeline::default(),
        };
        recovery::begin(&mut timeline, &evidence, life, &mut findings);
        timeline::extend(&mut timeline, &evidence, life, &mut findings);
        timelines.push(timeline);
    }
    order::check(&evidence, &timelines, &mut findings);
    delivery::check(&evidence, &timelines, &mut findings);
    findings.into_violations()
}

/// A history and what is looked up in it again and again.
struct Evidence<'a> {
    history: &'a History,
    /// Which operation wrote a value, by what the value says.
    authors: BTreeMap<&'a str, usize>,
}

impl<'a> Evidence<'a> {
    fn new(history: &'a History) -> Self {
        let mut authors = BTreeMap::new();
        for (number, operation) in history.operations.iter().enumerate() {
            let Asked::Commit { changes, .. } = &operation.asked else { continue };
            for change in changes {
                if let Change::Put { value, .. } = change {
                    authors.insert(author(value), number);
                }
            }
        }
        Self { history, authors }
    }

    fn author(&self, seen: &Seen) -> Option<usize> {
        self.authors.get(author(&seen.value)).copied()
    }

    fn operation(&self, number: usize) -> &'a Operation {
        &self.history.operations[number]
    }

    fn of_life(&self, life: usize) -> impl Iterator<Item = (usize, &'a Operation)> {
        self.history.operations.iter().enumerate().filter(move |(_, operation)| operation.life == life)
    }

    /// The revision at which a life began, as its first read says.
    fn base(&self, life: usize) -> Revision {
        let first = self.history.lives.get(life).map(|life| &self.operation(life.first_read).answer);
        if let Some(Some(Answer::Page { revision, .. })) = first { *revision } else { 0 }
    }

    /// Every version that somebody saw stored in a life; what a delete returns is not stored.
    fn stored(&self, life: usize) -> Vec<&'a Seen> {
        let mut seen: Vec<&Seen> = Vec::new();
        for (_, operation) in self.of_life(life) {
            match &operation.answer {
                Some(Answer::Conflict { current, .. }) => seen.extend(current),
                Some(Answer::Got(current)) => seen.extend(current),
                Some(Answer::Page { entries, .. }) => seen.extend(entries),
                _ => {}
            }
        }
        for watch in self.history.watches.iter().filter(|watch| watch.life == life) {
            for (_, step) in &watch.steps {
                let Step::Batch(events) = step else { continue };
                for event in events {
                    seen.extend(&event.previous);
                    if event.kind == EventKind::Put {
                        seen.push(&event.entry);
                    }
                }
            }
        }
        seen
    }

    /// Whether a refusal of what was asked for at `asked` could be true for one who was told by
    /// `returned` and knew of `known` before.
    fn refusal(
        &self,
        error: &ReadError,
        asked: Revision,
        (life, returned): (usize, u64),
        known: Revision,
    ) -> Result<(), String> {
        match error {
            ReadError::Compacted { oldest } => {
                let asked_for = self.history.operations.iter().filter(|other| other.invoked < returned);
                let compacted = asked_for.filter_map(|other| match other.asked {
                    Asked::Compact { keep_after } => Some(keep_after),
                    _ => None,
                });
                let dropped = compacted.max().unwrap_or(0).max(self.base(life));
                if asked >= *oldest {
                    Err(format!("revision {asked} is said to be compacted, though {oldest} is the oldest"))
                } else if *oldest > dropped {
                    Err(format!("{oldest} is said to be the oldest, though nobody dropped more than {dropped}"))
                } else {
                    Ok(())
                }
            }
            ReadError::Future { current } if asked <= *current => {
                Err(format!("revision {asked} is said to be yet to come, though {current} is the newest"))
            }
            ReadError::Future { current } if *current < known => {
                Err(format!("{current} is said to be the newest, though {known} had been seen"))
            }
            ReadError::Future { .. } | ReadError::Stopped { .. } | ReadError::Unavailable { .. } => Ok(()),
        }
    }
}

/// Whether an operation has no answer that says if it happened.
fn is_unknown(operation: &Operation) -> bool {
    matches!(operation.answer, None | Some(Answer::Failed(_)))
}

fn holds(expect: Expect, current: Option<&Seen>) -> bool {
    match expect {
        Expect::Absent => current.is_none(),
        Expect::Present => current.is_some(),
        Expect::Revision(revision) => current.is_some_and(|seen| seen.mod_revision == revision),
    }
}

/// Whether an operation, if it happened, could have deleted a version of a key.
fn may_delete(operation: &Operation, seen: &Seen) -> bool {
    match &operation.asked {
        Asked::Commit { changes, .. } => {
            is_unknown(operation)
                && changes.iter().any(|change| matches!(change, Change::Delete { key } if *key == seen.key))
        }
        Asked::Expire { now_ms } => seen.expires_at.is_some_and(|at| at <= *now_ms),
        _ => false,
    }
}
