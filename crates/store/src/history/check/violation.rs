//! What the checker finds, for a person to read.

use std::fmt;

use super::super::log::Operation;

/// More findings than this are echoes of the first.
const MOST: usize = 20;

/// Something that no correct store could have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub kind: Kind,
    /// What was seen and what should have been.
    pub what: String,
    /// The operations it follows from, in words.
    pub operations: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One revision for two transactions, or two for one.
    RevisionReused,
    /// A later operation has an earlier revision.
    RevisionReversed,
    /// A transaction was applied though what it expects did not hold.
    CheckIgnored,
    /// A transaction was refused though what it expects held all the time.
    FalseConflict,
    /// A read shows what had been replaced before it was asked.
    StaleRead,
    /// A read or an answer shows what never was.
    WrongRead,
    /// The right value under the wrong numbers.
    WrongVersion,
    /// Part of a transaction is there without the rest.
    HalfTransaction,
    /// What a crash must not take is gone.
    LostWrite,
    /// What was deleted or replaced is back.
    Resurrected,
    /// A watch did not deliver a change.
    WatchMissed,
    /// A watch delivered a change twice.
    WatchRepeated,
    /// A watch delivered changes in another order.
    WatchDisordered,
    /// A watch delivered a change that was another.
    WatchWrongEvent,
    /// A transaction in two batches.
    WatchTorn,
    /// A bookmark is ahead of what was delivered.
    BookmarkAhead,
    /// A read or watch was refused for no true reason.
    FalseRefusal,
    /// A key was expired before its time, or was not when it was due.
    WrongExpiry,
    /// A store that came back cannot be read.
    Unreadable,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)?;
        self.operations.iter().try_for_each(|operation| write!(f, "\n    {operation}"))
    }
}

#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Violation>);

impl Findings {
    pub(super) fn add(&mut self, kind: Kind, what: impl Into<String>, operations: &[&Operation]) {
        if self.0.len() < MOST {
            let operations = operations.iter().map(|operation| describe(operation)).collect();
            self.0.push(Violation { kind, what: what.into(), operations });
        }
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.0
    }
}

fn describe(operation: &Operation) -> String {
    let client = match operation.client {
        usize::MAX => "the auditor".to_owned(),
        number => format!("client {number}"),
    };
    let answer = match &operation.answer {
        Some(answer) => format!("heard at {}: {answer:?}", operation.returned),
        None => "never heard".to_owned(),
    };
    format!("{client} in life {} asked at {}: {:?}; {answer}", operation.life, operation.invoked, operation.asked)
}
