//! Transactions applied to a copy of the newest snapshot, not yet visible to anyone.

use std::sync::Arc;

use crate::snapshot::Snapshot;
use crate::txn::{MAX_KEY, MAX_VALUE};
use crate::watch::{Event, EventKind};
use crate::{CommitError, Committed, Entry, Expect, Op, Options, Revision, Txn};

/// A group of transactions on its way to be published; each sees the ones before it.
#[derive(Debug)]
pub(crate) struct Stage {
    snapshot: Snapshot,
    events: Vec<Arc<Event>>,
    options: Options,
}

impl Stage {
    pub(crate) fn new(snapshot: Snapshot, options: Options) -> Self {
        Self { snapshot, events: Vec::new(), options }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.snapshot.revision()
    }

    /// What the group has changed so far, in order.
    pub(crate) fn events(&self) -> &[Arc<Event>] {
        &self.events
    }

    /// What watchers will be told, for tests that let it go wrong.
    #[cfg(test)]
    pub(crate) fn events_mut(&mut self) -> &mut Vec<Arc<Event>> {
        &mut self.events
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn into_parts(self) -> (Snapshot, Vec<Arc<Event>>) {
        (self.snapshot, self.events)
    }

    /// Applies a transaction, or leaves the stage as it was.
    pub(crate) fn apply(&mut self, txn: Txn) -> Result<Committed, CommitError> {
        // Everything that can refuse comes first, so that nothing has to be taken back.
        check_sizes(&txn)?;
        for (key, expect) in &txn.checks {
            let current = self.snapshot.get(key);
            let holds = match expect {
                Expect::Absent => current.is_none(),
                Expect::Present => current.is_some(),
                Expect::Revision(revision) => current.is_some_and(|entry| entry.mod_revision == *revision),
            };
            if !holds {
                let current = current.cloned();
                return Err(CommitError::Conflict { key: Arc::clone(key), current });
            }
        }
        let revision = self.snapshot.revision() + 1;
        let entries = txn.ops.into_iter().map(|op| self.change(op, revision)).collect();
        Ok(Committed { revision: self.snapshot.revision(), entries })
    }

    /// Records what was decided elsewhere, at this stage's revision or a later one.
    pub(crate) fn record(&mut self, event: Event) {
        let event = Arc::new(event);
        self.snapshot.apply(&event, &self.options);
        self.events.push(event);
    }

    /// Moves to a revision that changed nothing here.
    pub(crate) fn advance(&mut self, revision: Revision) {
        self.snapshot.advance(revision);
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.snapshot.get(key)
    }

    /// Deletes the keys that are due, each at its own revision: a client that resumes between two of
    /// them must not miss the second.
    pub(crate) fn expire(&mut self, now_ms: i64, at_most: usize) -> usize {
        let mut expired = 0;
        while expired < at_most
            && let Some(key) = self.snapshot.due(now_ms)
        {
            self.change(Op::Delete { key }, self.snapshot.revision() + 1);
            expired += 1;
        }
        expired
    }

    fn change(&mut self, op: Op, revision: Revision) -> Option<Arc<Entry>> {
        let (kind, previous, entry) = match op {
            Op::Put { key, value, expires_at } => {
                let previous = self.snapshot.get(&key).cloned();
                let entry = Entry::next(previous.as_deref(), key, value, expires_at, revision);
                (EventKind::Put, previous, entry)
            }
            Op::Delete { key } => {
                let previous = self.snapshot.get(&key).cloned()?;
                let entry = previous.deleted(revision);
                (EventKind::Delete, Some(previous), entry)
            }
        };
        let entry = Arc::new(entry);
        let event = Arc::new(Event { kind, entry: Arc::clone(&entry), previous, revision });
        self.snapshot.apply(&event, &self.options);
        self.events.push(event);
        Some(entry)
    }
}

/// Refuses names and values that no engine stores.
pub(crate) fn check_sizes(txn: &Txn) -> Result<(), CommitError> {
    txn.ops.iter().try_for_each(check_size)
}

fn check_size(op: &Op) -> Result<(), CommitError> {
    let refuse =
        |key: &Arc<str>, what, size, limit| Err(CommitError::TooLarge { key: Arc::clone(key), what, size, limit });
    match op {
        Op::Put { key, .. } | Op::Delete { key } if key.is_empty() || key.len() > MAX_KEY => {
            refuse(key, "name", key.len(), MAX_KEY)
        }
        Op::Put { key, value, .. } if value.len() > MAX_VALUE => refuse(key, "value", value.len(), MAX_VALUE),
        _ => Ok(()),
    }
}
