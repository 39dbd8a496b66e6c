//! What every engine shares: the published snapshot, and those who are told when it changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};

use crate::failpoint::{Failpoint, Failpoints, Undisturbed};
use crate::interest::Interest;
use crate::pins::Pins;
use crate::snapshot::Snapshot;
use crate::stage::Stage;
use crate::topics::{Topic, Topics};
use crate::watch::Watch;
use crate::{CommitError, Entry, Options, Page, Range, ReadError, Revision};

/// Quiet topics are rid of dropped events each time this many revisions were dropped; to visit all
/// of them at every commit would cost more than it frees.
const SWEEP: Revision = 1024;

#[derive(Debug)]
pub(crate) struct State {
    options: Options,
    published: ArcSwap<Snapshot>,
    /// Held while `published` is replaced. Lock order: an engine's own lock, then this, then a
    /// topic's ring or the pins.
    publishing: Mutex<Publishing>,
    pins: Pins,
    stopped: OnceLock<String>,
    closed: AtomicBool,
    failpoints: Arc<dyn Failpoints>,
}

#[derive(Debug, Default)]
struct Publishing {
    topics: Topics,
    /// What `compact` asked for; a stage begun before it must honour it too.
    keep_after: Revision,
    swept: Revision,
}

impl State {
    pub(crate) fn new(snapshot: Snapshot, options: Options) -> Self {
        Self {
            options,
            published: ArcSwap::from_pointee(snapshot),
            publishing: Mutex::default(),
            pins: Pins::new(options.pinned_bytes),
            stopped: OnceLock::new(),
            closed: AtomicBool::new(false),
            failpoints: Arc::new(Undisturbed),
        }
    }

    pub(crate) fn with_failpoints(self, failpoints: Arc<dyn Failpoints>) -> Self {
        Self { failpoints, ..self }
    }

    /// The same keys and history, without the watchers. Costs the same for any size.
    pub(crate) fn fork(&self) -> Self {
        Self::new(Snapshot::clone(&self.snapshot()), self.options)
    }

    pub(crate) fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.published.load()
    }

    pub(crate) fn revision(&self) -> Revision {
        self.snapshot().revision()
    }

    /// Whether a revision is visible, for engines where none is on its way from elsewhere.
    pub(crate) fn check_reached(&self, revision: Revision) -> Result<(), ReadError> {
        let current = self.revision();
        if revision > current { Err(ReadError::Future { current }) } else { Ok(()) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.snapshot().get(key).cloned()
    }

    pub(crate) fn range(&self, range: &Range) -> Result<Page, ReadError> {
        if let Some(pinned) = range.at.and_then(|at| self.pins.get(at)) {
            return pinned.page(range);
        }
        // A full load: a long list would otherwise hold one of the thread's few cheap guards.
        let snapshot = self.published.load_full();
        let page = snapshot.page(range)?;
        if page.remaining > 0 && page.revision == snapshot.revision() {
            // For the pages that follow.
            self.pins.add(&snapshot);
        }
        Ok(page)
    }

    /// Begins a group of transactions on the newest snapshot. An engine has one stage at a time.
    pub(crate) fn stage(&self) -> Stage {
        Stage::new(Snapshot::clone(&self.snapshot()), self.options)
    }

    /// Begins a group on top of one that is not visible yet.
    pub(crate) fn stage_on(&self, mut tip: Snapshot) -> Stage {
        tip.compact(self.snapshot().oldest());
        Stage::new(tip, self.options)
    }

    /// Makes a stage visible. Its watchers are woken when the result is dropped: an engine answers its writers first,
    /// so that they do not wait while a thousand watchers are woken.
    pub(crate) fn publish(&self, stage: Stage) -> Published {
        let (mut snapshot, events) = stage.into_parts();
        if snapshot.revision() == self.revision() {
            return Published::default();
        }
        let mut publishing = self.publishing();
        snapshot.compact(publishing.keep_after);
        // Into the topics first: a reader that sees the new revision then finds its events there.
        let touched = publishing.topics.deliver(&events);
        let _ = self.failpoints.reached(Failpoint::WatchDelivered);
        publishing.sweep(snapshot.oldest(), SWEEP);
        self.pins.trim(&snapshot);
        let before = self.published.swap(Arc::new(snapshot));
        drop(publishing);
        let _ = self.failpoints.reached(Failpoint::WatchVisible);
        Published { touched, before: Some(before) }
    }

    /// Starts over from a state whose history is not known: watchers that have not seen all of it are
    /// cut off.
    pub(crate) fn replace(&self, snapshot: Snapshot) {
        let publishing = self.publishing();
        publishing.topics.restart(snapshot.revision());
        self.pins.forget(snapshot.revision());
        self.published.store(Arc::new(snapshot));
        publishing.topics.wake_all();
    }

    pub(crate) fn watch(self: &Arc<Self>, interest: &Interest, after: Revision) -> Result<Watch, ReadError> {
        let mut publishing = self.publishing();
        // Looked at under the lock: a topic made here misses nothing that is published next.
        let snapshot = self.snapshot();
        snapshot.check(after)?;
        if let Some(reason) = self.closed() {
            return Err(ReadError::Stopped { reason });
        }
        let topic = publishing.topics.join(interest, snapshot.revision());
        Ok(Watch::new(Arc::clone(self), topic, after))
    }

    pub(crate) fn leave(&self, topic: &Topic) {
        self.publishing().topics.leave(topic);
    }

    pub(crate) fn compact(&self, keep_after: Revision) {
        let mut publishing = self.publishing();
        let mut snapshot = Snapshot::clone(&self.snapshot());
        snapshot.compact(keep_after);
        publishing.keep_after = publishing.keep_after.max(snapshot.oldest());
        publishing.sweep(snapshot.oldest(), 0);
        self.pins.forget(keep_after.min(snapshot.revision()));
        let before = self.published.swap(Arc::new(snapshot));
        drop(publishing);
        // What only the old one held is freed here, where no writer waits for it.
        drop(before);
    }

    /// Refuses every later commit; the first reason stands.
    pub(crate) fn stop(&self, reason: impl Into<String>) {
        if self.stopped.set(reason.into()).is_ok() {
            tracing::debug!(reason = self.stopped.get(), "the store takes no more writes");
        }
    }

    /// Refuses every later commit and ends every watch.
    pub(crate) fn close(&self) {
        self.stop("it was closed");
        self.closed.store(true, Ordering::SeqCst);
        self.publishing().topics.wake_all();
    }

    pub(crate) fn closed(&self) -> Option<String> {
        let closed = self.closed.load(Ordering::SeqCst);
        closed.then(|| self.stopped.get().cloned().unwrap_or_default())
    }

    pub(crate) fn health(&self) -> Result<(), String> {
        self.stopped.get().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// `health` as a commit reports it.
    pub(crate) fn check_running(&self) -> Result<(), CommitError> {
        self.health().map_err(|reason| CommitError::Stopped { reason })
    }

    #[cfg(test)]
    pub(crate) fn pin_count(&self) -> usize {
        self.pins.len()
    }

    #[cfg(test)]
    pub(crate) fn topic_count(&self) -> usize {
        self.publishing().topics.len()
    }

    fn publishing(&self) -> MutexGuard<'_, Publishing> {
        self.publishing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left to do for a stage that readers see: its watchers are woken when this is dropped.
#[derive(Debug, Default)]
#[must_use = "watchers are woken when it is dropped; answer the writers first"]
pub(crate) struct Published {
    touched: Vec<Arc<Topic>>,
    /// What only the snapshot before held is freed last, when nobody waits for it.
    before: Option<Arc<Snapshot>>,
}

impl Drop for Published {
    fn drop(&mut self) {
        self.touched.iter().for_each(|topic| topic.wake());
        self.before = None;
    }
}

impl Publishing {
    fn sweep(&mut self, oldest: Revision, at_least: Revision) {
        if oldest > self.swept + at_least {
            self.topics.forget(oldest);
            self.swept = oldest;
        }
    }
}
