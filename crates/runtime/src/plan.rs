//! What a reconcile decided, as data: writes, the status, events, and when to look again; `execute` carries it out.
//!
//! A loop's `plan` is a pure function from what is there to a [`Plan`]. What every loop would otherwise repeat, and get wrong
//! somewhere, is known to the executor:
//!
//! - Writes run in order. Neighbours of the same [`Pace`] run together, or in rounds that double, so that a thousand Pods which a
//!   quota refuses cost one refused request.
//! - What fails ends the plan after the writes that run together with it. The error is the outcome: the key is tried again.
//! - 404 to a deletion or a patch is fine: it is gone. So is a patch that meets a successor of the same name (422 by its UID).
//! - A creation in a namespace that is going away is dropped: nothing will be created there again.
//! - The status is written last and once, at the version that was read: what somebody else wrote in between is a conflict.
//! - Events of a write tell what came of it; those of the plan are recorded when all writes went well. A conflict is no Event.
//! - What was written is awaited: the next attempt starts when the informers show it (see [`Controller`](crate::Controller)).

mod execute;
mod status;
#[cfg(test)]
mod tests;
mod write;

use std::time::Duration;

pub use execute::{Executor, Failed};
pub use status::StatusUpdate;
pub use write::{IfThere, Pace, Said, What, Write};

/// What is to be done about one object.
#[derive(Debug, Default)]
pub struct Plan {
    pub writes: Vec<Write>,
    pub status: Option<StatusUpdate>,
    pub events: Vec<Note>,
    /// When to look again, changed or not.
    pub again: Option<Duration>,
}

/// An Event about the object that is reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Note {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Note { is_warning: false, reason, message: message.into() }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Note { is_warning: true, reason, message: message.into() }
    }
}

impl Plan {
    /// Nothing but these writes.
    pub fn of(writes: Vec<Write>) -> Self {
        Plan { writes, ..Plan::default() }
    }

    /// Nothing but an Event.
    pub fn telling(note: Note) -> Self {
        Plan { events: vec![note], ..Plan::default() }
    }

    /// Looks again after this time, or earlier if the plan says so already.
    pub fn look_again(&mut self, delay: Option<Duration>) {
        self.again = [self.again, delay].into_iter().flatten().min();
    }
}
