//! What happened: every operation with what was asked, what was answered, and when.
//!
//! Time is one counter that every client draws from, so two operations overlap exactly if neither
//! returned before the other was invoked, and a run on one thread gives the same times again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{CommitError, Committed, Durability, Entry, Event, EventKind, Expect, Op, Page, Range, ReadError};
use crate::{Revision, Splice, Txn};

/// A moment of a history.
pub type Tick = u64;

/// All that several clients did to one store, over several lives of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    pub seed: u64,
    pub operations: Vec<Operation>,
    pub watches: Vec<WatchLog>,
    pub lives: Vec<Life>,
}

/// The store from one opening to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The operation that read all keys before any client began.
    pub first_read: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub client: usize,
    pub life: usize,
    pub asked: Asked,
    /// `None` if the client was cut off before it heard: it may have happened or not.
    pub answer: Option<Answer>,
    pub invoked: Tick,
    /// The last of all times if there was no answer.
    pub returned: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Commit { checks: Vec<(Arc<str>, Expect)>, changes: Vec<Change>, durability: Durability },
    Get { key: Arc<str> },
    Range(Range),
    Revision,
    Expire { now_ms: i64 },
    Compact { keep_after: Revision },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The value names the operation that wrote it; one that begins with `rv=;` has a hole there.
    Put {
        key: Arc<str>,
        value: String,
        expires_at: Option<i64>,
    },
    Delete {
        key: Arc<str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Committed {
        revision: Revision,
        entries: Vec<Option<Seen>>,
    },
    Conflict {
        key: Arc<str>,
        current: Option<Seen>,
    },
    Got(Option<Seen>),
    Page {
        revision: Revision,
        entries: Vec<Seen>,
        remaining: usize,
    },
    Revision(Revision),
    Expired(usize),
    Done,
    Refused(ReadError),
    /// The store gave up; a write may have happened or not.
    Failed(String),
}

/// One version of one key as a client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub key: Arc<str>,
    pub value: String,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    pub version: u64,
    pub expires_at: Option<i64>,
}

/// One watch from its opening to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchLog {
    pub client: usize,
    pub life: usize,
    pub prefix: String,
    pub after: Revision,
    pub invoked: Tick,
    pub returned: Tick,
    pub refused: Option<ReadError>,
    pub steps: Vec<(Tick, Step)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Batch(Vec<SeenEvent>),
    Progress(Revision),
    /// The store was at this revision, and then nothing was ready any more.
    Drained(Revision),
    Ended(ReadError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenEvent {
    pub kind: EventKind,
    pub revision: Revision,
    pub entry: Seen,
    pub previous: Option<Seen>,
}

impl Change {
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    fn op(&self) -> Op {
        match self {
            Self::Delete { key } => Op::Delete { key: Arc::clone(key) },
            Self::Put { key, value, expires_at } => {
                let hole = value.starts_with(HOLE).then_some(HOLE.len() - 1);
                let value = Splice::new(value.as_str(), hole);
                Op::Put { key: Arc::clone(key), value, expires_at: *expires_at }
            }
        }
    }
}

/// How a value with a hole begins; the revision goes before the semicolon.
pub(super) const HOLE: &str = "rv=;";

/// The bytes of a value, written or read before, as a commit at `revision` leaves them.
pub(super) fn spliced(value: &str, revision: Revision) -> String {
    match value.strip_prefix("rv=").and_then(|rest| rest.split_once(';')) {
        Some((_, author)) => format!("rv={revision};{author}"),
        None => value.to_owned(),
    }
}

/// Which change wrote a value, as the value itself says.
pub(super) fn author(value: &str) -> &str {
    value.split_once(';').map_or(value, |(_, author)| author)
}

impl Asked {
    pub(super) fn txn(&self) -> Txn {
        let Self::Commit { checks, changes, durability } = self else { return Txn::new() };
        Txn { checks: checks.clone(), ops: changes.iter().map(Change::op).collect(), durability: *durability }
    }
}

impl From<&Entry> for Seen {
    fn from(entry: &Entry) -> Self {
        Self {
            key: Arc::clone(&entry.key),
            value: String::from_utf8_lossy(&entry.value).into_owned(),
            create_revision: entry.create_revision,
            mod_revision: entry.mod_revision,
            version: entry.version,
            expires_at: entry.expires_at,
        }
    }
}

impl From<&Event> for SeenEvent {
    fn from(event: &Event) -> Self {
        Self {
            kind: event.kind,
            revision: event.revision,
            entry: Seen::from(&*event.entry),
            previous: event.previous.as_deref().map(Seen::from),
        }
    }
}

impl From<Result<Committed, CommitError>> for Answer {
    fn from(result: Result<Committed, CommitError>) -> Self {
        match result {
            Ok(committed) => {
                let entries = committed.entries.iter().map(|entry| entry.as_deref().map(Seen::from)).collect();
                Self::Committed { revision: committed.revision, entries }
            }
            Err(CommitError::Conflict { key, current }) => {
                Self::Conflict { key, current: current.as_deref().map(Seen::from) }
            }
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

impl From<Result<Page, ReadError>> for Answer {
    fn from(result: Result<Page, ReadError>) -> Self {
        match result {
            Ok(page) => {
                let entries = page.entries.iter().map(|entry| Seen::from(&**entry)).collect();
                Self::Page { revision: page.revision, entries, remaining: page.remaining }
            }
            Err(error) => Self::Refused(error),
        }
    }
}

/// Where the clients of a run write down what they do.
#[derive(Debug, Default)]
pub(super) struct Log {
    tick: AtomicU64,
    life: AtomicUsize,
    /// Nothing else is locked while it is held.
    written: Mutex<History>,
}

impl Log {
    pub(super) fn tick(&self) -> Tick {
        self.tick.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn operations(&self) -> usize {
        self.written().operations.len()
    }

    /// Written before the store is asked, so that a client that is cut off leaves its question.
    pub(super) fn invoke(&self, client: usize, asked: Asked) -> usize {
        let life = self.life.load(Ordering::SeqCst);
        let invoked = self.tick();
        let operations = &mut self.written().operations;
        operations.push(Operation { client, life, asked, answer: None, invoked, returned: Tick::MAX });
        operations.len() - 1
    }

    pub(super) fn answer(&self, operation: usize, answer: Answer) {
        let returned = self.tick();
        if let Some(operation) = self.written().operations.get_mut(operation) {
            operation.answer = Some(answer);
            operation.returned = returned;
        }
    }

    /// Writes down a watch that was opened at `invoked`, and says under which number.
    pub(super) fn watch(
        &self,
        client: usize,
        (prefix, after): (&str, Revision),
        invoked: Tick,
        refused: Option<ReadError>,
    ) -> usize {
        let (life, returned) = (self.life.load(Ordering::SeqCst), self.tick());
        let watches = &mut self.written().watches;
        let (prefix, steps) = (prefix.to_owned(), Vec::new());
        watches.push(WatchLog { client, life, prefix, after, invoked, returned, refused, steps });
        watches.len() - 1
    }

    pub(super) fn step(&self, watch: usize, step: Step) {
        let tick = self.tick();
        if let Some(watch) = self.written().watches.get_mut(watch) {
            watch.steps.push((tick, step));
        }
    }

    /// A life begins whose number is that of the lives before it.
    pub(super) fn begin_life(&self) {
        let mut written = self.written();
        self.life.store(written.lives.len(), Ordering::SeqCst);
        let first_read = written.operations.len();
        written.lives.push(Life { first_read });
    }

    pub(super) fn finish(&self, seed: u64) -> History {
        let history = std::mem::take(&mut *self.written());
        History { seed, ..history }
    }

    fn written(&self) -> MutexGuard<'_, History> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
