//! What a reconcile decided, as data: writes, the status, events, and when to look again; the [`executor`](crate::executor) carries it out.
//!
//! A loop's `plan` is a pure function from what is there to a [`Plan`]. What every loop would otherwise repeat, and get wrong
//! somewhere, is known to the executor:
//!
//! - Writes run in order. Neighbours of the same [`Pace`] in one collection run together, or in rounds that double, so that a
//!   thousand Pods which a quota refuses cost one refused request. What goes to another collection comes after them.
//! - What fails ends the plan after the writes that run together with it. The error is the outcome: the key is tried again.
//! - 404 to a deletion or a patch is fine: it is gone. So is a patch that meets a successor of the same name (422 by its UID).
//! - A creation in a namespace that is going away is dropped: nothing will be created there again.
//! - The status is written last and once, at the version that was read: what somebody else wrote in between is a conflict.
//! - Events of a write tell what came of it; those of the plan are recorded when all writes went well. A conflict is no Event.
//! - What was written is awaited: the next attempt starts when the informers show it (see [`Controller`](crate::Controller)).

pub(crate) mod status;
mod write;

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;

use crate::events::reference;

pub use status::StatusUpdate;
pub use write::{IfThere, Pace, Said, What, Write};

/// What is to be done about one object.
#[derive(Debug, Default)]
pub struct Plan {
    /// The object that Events are about, unless they say otherwise.
    pub about: ObjectReference,
    pub writes: Vec<Write>,
    pub status: Option<StatusUpdate>,
    pub events: Vec<Note>,
    /// When to look again, changed or not.
    pub again: Option<Duration>,
}

/// An Event about the object that is reconciled, or about another.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub about: Option<ObjectReference>,
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Note {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Note { about: None, is_warning: false, reason, message: message.into() }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Note { about: None, is_warning: true, reason, message: message.into() }
    }

    /// About another object than the one that is reconciled.
    pub fn about<K: Resource<DynamicType = ()>>(self, object: &K) -> Self {
        Note { about: Some(reference(object)), ..self }
    }
}

impl Plan {
    /// Says which object this is about.
    pub fn about<K: Resource<DynamicType = ()>>(self, object: &K) -> Self {
        Plan { about: reference(object), ..self }
    }

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

/// The writes, one after the other.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, write) in self.writes.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{write}")?;
        }
        Ok(())
    }
}
