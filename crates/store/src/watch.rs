//! Events, and the watcher's end of a topic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::state::State;
use crate::topics::Topic;
use crate::{Entry, ReadError, Revision};

/// At this many events a batch is full; the transaction that fills it is still delivered whole.
const BATCH: usize = 1024;

/// One change of one key, made once and shared by every watcher.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    /// The new version, or for a delete the last one with the deletion's revision spliced in.
    pub entry: Arc<Entry>,
    /// The version before the change.
    pub previous: Option<Arc<Entry>>,
    pub revision: Revision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

/// The changes that concern one [`Interest`](crate::Interest), in order, each once.
#[derive(Debug)]
pub struct Watch {
    state: Arc<State>,
    topic: Arc<Topic>,
    /// Everything up to here was delivered. Only the watch's owner moves it, forward.
    cursor: AtomicU64,
}

impl Watch {
    pub(crate) fn new(state: Arc<State>, topic: Arc<Topic>, after: Revision) -> Self {
        Self { state, topic, cursor: AtomicU64::new(after) }
    }

    /// Waits for changes and returns those pending, at most about a thousand at a time.
    ///
    /// Cancel safe: what was not returned is returned by the next call. After an error there is
    /// nothing more to come.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, ReadError> {
        let topic = Arc::clone(&self.topic);
        loop {
            // Made before looking, so that a change published after the look still wakes it.
            let changed = topic.changed();
            let closed = self.state.closed();
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if let Some(reason) = closed {
                return Err(ReadError::Stopped { reason });
            }
            changed.await;
        }
    }

    /// The revision up to which everything was delivered. It moves on when other keys change too,
    /// so that a bookmark can tell a client from where to resume, and never back.
    pub fn progress(&self) -> Revision {
        // Read before the topic is: events are in their topics before they become visible.
        let visible = self.state.revision();
        let cursor = self.cursor.load(Ordering::Relaxed);
        if self.topic.last_revision() > cursor {
            return cursor;
        }
        // Kept, or the next event would take back what was said now.
        self.cursor.fetch_max(visible, Ordering::Relaxed).max(visible)
    }

    fn take(&mut self) -> Result<Vec<Arc<Event>>, ReadError> {
        let snapshot = self.state.snapshot();
        let visible = snapshot.revision();
        let cursor = *self.cursor.get_mut();
        let batch = match self.topic.batch(cursor, visible, BATCH) {
            Some(batch) => batch,
            // The topic keeps less than the history does.
            None => snapshot.batch(self.topic.interest(), cursor, BATCH)?,
        };
        *self.cursor.get_mut() = match batch.events.last() {
            Some(last) if !batch.complete => last.revision,
            _ => visible.max(cursor),
        };
        Ok(batch.events)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.state.leave(&self.topic);
    }
}

/// Events in order, cut only between transactions.
pub(crate) struct Batch {
    pub(crate) events: Vec<Arc<Event>>,
    /// No event was left behind for want of room.
    pub(crate) complete: bool,
}

impl Batch {
    pub(crate) fn collect<'a>(pending: impl Iterator<Item = &'a Arc<Event>>, room: usize) -> Self {
        let mut events: Vec<Arc<Event>> = Vec::new();
        for event in pending {
            // A cursor is a revision, so a batch that ended within one would lose the rest of it.
            let full = events.len() >= room;
            if full && events.last().is_some_and(|last| last.revision != event.revision) {
                return Self { events, complete: false };
            }
            events.push(Arc::clone(event));
        }
        Self { events, complete: true }
    }
}
