//! The task that takes a topic's events, renders them once for one view, and wakes the watchers.

use super::ring::{Batch, Cursor, Ring, Taken};
use super::view::{Columns, View};
use crate::ApiServer;
use bytes::Bytes;
use pintle_meta::Status;
use pintle_store::{Interest, ReadError, Revision, Watch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What one watcher costs to wake and write to, about. A pump begins its next round no sooner than the last one can be
/// done: what is written meanwhile is delivered together. So a single event reaches a thousand watchers at once, and a
/// burst of them in few writes each.
const COST_OF_A_WATCHER: Duration = Duration::from_micros(20);
/// Rounds are never further apart than this.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// Timers are no finer than this: a shorter pause is not made.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// How long a burst waits for watchers that are all too far behind, before they are cut off.
const PATIENCE: Duration = Duration::from_secs(5);

/// Every pump that has watchers.
#[derive(Default)]
pub struct Pumps {
    /// By topic and view. Lock order: this, then a pump's state.
    by_view: Mutex<BTreeMap<String, Arc<Pump>>>,
    pumps: AtomicU64,
    watchers: AtomicU64,
    rounds: AtomicU64,
    cut_off: AtomicU64,
}

/// What the pumps do, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub pumps: u64,
    pub watchers: u64,
    /// Times that events of the store woke a pump.
    pub rounds: u64,
    /// Watchers that were too slow.
    pub cut_off: u64,
}

/// How one watcher wants to be served.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub bookmarks: bool,
    pub deadline: Instant,
}

/// The part of a pump that its task and its watchers share.
pub struct Pump {
    /// The place in [`Pumps`]; none for a view that is not shared.
    key: Option<String>,
    state: Mutex<State>,
    /// The last watcher has left, one has come whose deadline may be the next, or a burst may go on.
    changed: Notify,
}

struct State {
    ring: Ring,
    /// In the order in which they came, which is the order in which they are woken.
    watchers: BTreeMap<u64, Watcher>,
    deadlines: BTreeSet<(Instant, u64)>,
    next_id: u64,
    /// Batches wait until a watcher has taken some.
    congested: bool,
    end: Option<End>,
}

struct Watcher {
    terms: Terms,
    /// None while it is busy with what happened before.
    cursor: Option<Cursor>,
    waker: Option<Waker>,
    over: bool,
}

/// Why there is nothing more to come.
#[derive(Clone)]
enum End {
    Stopped,
    Failed(Bytes),
}

impl Pumps {
    /// Adds a watcher to the pump of a topic and view, which starts with its first.
    pub fn join(
        &self,
        server: &ApiServer,
        (topic, interest): (&str, &Interest),
        view: &Arc<View>,
        terms: Terms,
    ) -> Result<(Arc<Pump>, u64), ReadError> {
        let key = view.key().map(|key| format!("{topic} {key}"));
        let mut by_view = self.by_view();
        let running = key.as_ref().and_then(|key| by_view.get(key)).filter(|pump| pump.state().end.is_none());
        self.watchers.fetch_add(1, Ordering::Relaxed);
        if let Some(pump) = running {
            return Ok((pump.clone(), pump.add(terms)));
        }
        let (watch, revision) = follow(server, interest).inspect_err(|_| {
            self.watchers.fetch_sub(1, Ordering::Relaxed);
        })?;
        let pump = Arc::new(Pump::new(key.clone(), revision));
        let id = pump.add(terms);
        if let Some(key) = key {
            by_view.insert(key, pump.clone());
        }
        self.pumps.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(pump.clone().run(server.clone(), view.clone(), watch));
        Ok((pump, id))
    }

    /// Takes a watcher away, and the pump with its last.
    pub fn leave(&self, pump: &Arc<Pump>, id: u64) {
        let mut by_view = self.by_view();
        self.watchers.fetch_sub(1, Ordering::Relaxed);
        if !pump.remove(id) {
            return;
        }
        self.pumps.fetch_sub(1, Ordering::Relaxed);
        if let Some(key) = &pump.key
            && by_view.get(key).is_some_and(|found| Arc::ptr_eq(found, pump))
        {
            by_view.remove(key);
        }
    }

    pub fn counts(&self) -> Counts {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counts {
            pumps: count(&self.pumps),
            watchers: count(&self.watchers),
            rounds: count(&self.rounds),
            cut_off: count(&self.cut_off),
        }
    }

    pub(super) fn count_cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    fn by_view(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Pump>>> {
        self.by_view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a topic from now on.
fn follow(server: &ApiServer, interest: &Interest) -> Result<(Watch, Revision), ReadError> {
    let store = &server.registry.store;
    loop {
        let now = store.revision();
        match store.subscribe(interest, now) {
            // Written and compacted in between.
            Err(ReadError::Compacted { .. }) if store.revision() > now => {}
            watch => return Ok((watch?, now)),
        }
    }
}

impl Pump {
    fn new(key: Option<String>, revision: Revision) -> Self {
        let state = State {
            ring: Ring::new(revision),
            watchers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_id: 0,
            congested: false,
            end: None,
        };
        Pump { key, state: Mutex::new(state), changed: Notify::new() }
    }

    async fn run(self: Arc<Self>, server: ApiServer, view: Arc<View>, mut watch: Watch) {
        let mut stopping = pin!(server.stopping());
        let mut columns = Columns::default();
        let mut schedule = Schedule::new(server.pace.bookmarks);
        let mut timer = pin!(sleep_until(schedule.bookmark));
        // Rendered, and not with the watchers yet.
        let mut waiting = VecDeque::new();
        loop {
            let now = Instant::now();
            let woken = self.publish(&mut waiting, schedule.is_impatient(now));
            schedule.published(now, woken, !waiting.is_empty());
            let Some(due) = self.due(&schedule) else { return };
            let ready = waiting.is_empty() && now >= schedule.round;
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            tokio::select! {
                biased;
                () = &mut stopping => return self.end(End::Stopped),
                () = self.changed.notified() => {}
                () = &mut timer => {
                    let now = Instant::now();
                    self.expire(now);
                    if schedule.is_bookmark_due(now) && self.wants_bookmarks() {
                        waiting.push_back(bookmark(&view, &watch));
                    }
                    // One that fired is polled again only after it was reset.
                    timer.as_mut().reset(now + schedule.bookmarks);
                }
                events = watch.next(), if ready => match events {
                    Ok(events) => {
                        server.watches.rounds.fetch_add(1, Ordering::Relaxed);
                        match view.converted(events).await {
                            Ok(events) => waiting.extend(view.batches(&events, &mut columns)),
                            Err(status) => return self.end(End::Failed(view.failure(&status))),
                        }
                    }
                    Err(error) => return self.end(End::Failed(view.failure(&expired(&error, watch.progress())))),
                },
            }
        }
    }

    fn add(&self, terms: Terms) -> u64 {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.deadlines.insert((terms.deadline, id));
        state.watchers.insert(id, Watcher { terms, cursor: None, waker: None, over: false });
        self.changed.notify_one();
        id
    }

    /// True if it was the last.
    fn remove(&self, id: u64) -> bool {
        let mut state = self.state();
        if let Some(watcher) = state.watchers.remove(&id) {
            state.deadlines.remove(&(watcher.terms.deadline, id));
        }
        state.trim();
        let last = state.watchers.is_empty();
        if last || state.congested {
            self.changed.notify_one();
        }
        last
    }

    /// Whether a watcher has nothing more to expect, however far it has come.
    pub(super) fn is_over(&self, id: u64) -> bool {
        let state = self.state();
        matches!(state.end, Some(End::Stopped)) || state.watchers.get(&id).is_none_or(|watcher| watcher.over)
    }

    /// Lets a watcher go on here that has seen everything up to a revision; false if what follows is gone.
    pub(super) fn attach(&self, id: u64, after: Revision) -> bool {
        let mut state = self.state();
        let cursor = state.ring.cursor(after);
        match state.watchers.get_mut(&id) {
            Some(watcher) => watcher.cursor = cursor,
            None => return false,
        }
        cursor.is_some()
    }

    /// What is next for a watcher that was attached.
    pub(super) fn poll(&self, id: u64, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, TooSlow>>> {
        let mut state = self.state();
        let State { ring, watchers, end, congested, .. } = &mut *state;
        let Some(watcher) = watchers.get_mut(&id).filter(|watcher| !watcher.over) else { return Poll::Ready(None) };
        let Some(cursor) = &mut watcher.cursor else { return Poll::Ready(None) };
        match (ring.take(cursor, watcher.terms.bookmarks), end) {
            (_, Some(End::Stopped)) => {
                watcher.over = true;
                Poll::Ready(None)
            }
            (Taken::Bytes(bytes), _) => {
                if *congested {
                    self.changed.notify_one();
                }
                Poll::Ready(Some(Ok(bytes)))
            }
            (Taken::TooSlow, _) => {
                watcher.over = true;
                Poll::Ready(Some(Err(TooSlow)))
            }
            (Taken::Nothing, Some(End::Failed(last))) => {
                watcher.over = true;
                Poll::Ready(Some(Ok(last.clone())))
            }
            (Taken::Nothing, None) => {
                if !watcher.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    watcher.waker = Some(context.waker().clone());
                }
                // With many watchers the next round does it.
                if watchers.len() == 1 {
                    state.trim();
                }
                Poll::Pending
            }
        }
    }

    /// When there is something to do that no event brings; none when the last watcher has left.
    fn due(&self, schedule: &Schedule) -> Option<Instant> {
        let state = self.state();
        if state.watchers.is_empty() {
            return None;
        }
        // One that has ended and not left yet has no deadline any more.
        let deadline = state.deadlines.first().map_or(schedule.bookmark, |(deadline, _)| *deadline);
        let bookmark = state.wants_bookmarks().then_some(schedule.bookmark);
        let dues = [Some(deadline), bookmark, schedule.pause, schedule.impatient];
        dues.into_iter().flatten().min()
    }

    fn wants_bookmarks(&self) -> bool {
        self.state().wants_bookmarks()
    }

    /// Ends the watches whose time is over.
    fn expire(&self, now: Instant) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state();
            let State { watchers, deadlines, .. } = &mut *state;
            while let Some((_, id)) = deadlines.first().filter(|(deadline, _)| *deadline <= now).copied() {
                deadlines.pop_first();
                if let Some(watcher) = watchers.get_mut(&id) {
                    watcher.over = true;
                    wakers.extend(watcher.waker.take());
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Hands batches to the watchers they concern while there is room, or all of them by force; returns how many watchers
    /// were woken.
    fn publish(&self, waiting: &mut VecDeque<Batch>, by_force: bool) -> u32 {
        if waiting.is_empty() {
            return 0;
        }
        let mut state = self.state();
        state.trim();
        let (mut events, mut bookmarks) = (false, false);
        while let Some(batch) = waiting.front() {
            if !by_force && !state.ring.has_room(batch.bytes.len(), state.attached()) {
                break;
            }
            *(if batch.is_bookmark() { &mut bookmarks } else { &mut events }) = true;
            waiting.pop_front().into_iter().for_each(|batch| state.ring.push(batch));
        }
        state.congested = !waiting.is_empty();
        let concerned = |watcher: &&mut Watcher| events || (bookmarks && watcher.terms.bookmarks);
        let wakers = state.watchers.values_mut().filter(concerned).filter_map(|watcher| watcher.waker.take());
        let wakers: Vec<Waker> = wakers.collect();
        drop(state);
        // Outside the lock, which those who wake will want.
        let woken = u32::try_from(wakers.len()).unwrap_or(u32::MAX);
        wakers.into_iter().for_each(Waker::wake);
        woken
    }

    fn end(&self, end: End) {
        let mut state = self.state();
        state.end = Some(end);
        let wakers: Vec<Waker> = state.watchers.values_mut().filter_map(|watcher| watcher.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wants_bookmarks(&self) -> bool {
        self.watchers.values().any(|watcher| watcher.terms.bookmarks)
    }

    fn attached(&self) -> impl Iterator<Item = Cursor> {
        self.watchers.values().filter(|watcher| !watcher.over).filter_map(|watcher| watcher.cursor)
    }

    fn trim(&mut self) {
        let attached = self.watchers.values().filter(|watcher| !watcher.over);
        self.ring.trim(attached.filter_map(|watcher| watcher.cursor));
    }
}

/// When a pump does what no event asks for.
struct Schedule {
    bookmarks: Duration,
    bookmark: Instant,
    /// No sooner are the next events taken.
    round: Instant,
    /// The same while it is ahead.
    pause: Option<Instant>,
    /// When a burst has waited long enough for watchers that are behind.
    impatient: Option<Instant>,
}

impl Schedule {
    fn new(bookmarks: Duration) -> Self {
        let now = Instant::now();
        Schedule { bookmarks, bookmark: now + bookmarks, round: now, pause: None, impatient: None }
    }

    fn published(&mut self, now: Instant, woken: u32, more_waits: bool) {
        let pause = COST_OF_A_WATCHER.saturating_mul(woken).min(LONGEST_PAUSE);
        if pause >= SHORTEST_PAUSE {
            self.round = now + pause;
        }
        self.pause = Some(self.round).filter(|round| *round > now);
        self.impatient = more_waits.then(|| self.impatient.filter(|at| *at > now).unwrap_or(now + PATIENCE));
    }

    fn is_impatient(&self, now: Instant) -> bool {
        self.impatient.is_some_and(|at| now >= at)
    }

    /// Whether it is time for one; then the next is due as much later.
    fn is_bookmark_due(&mut self, now: Instant) -> bool {
        let due = now >= self.bookmark;
        if due {
            self.bookmark = now + self.bookmarks;
        }
        due
    }
}

fn bookmark(view: &View, watch: &Watch) -> Batch {
    let revision = watch.progress();
    Batch { bytes: view.bookmark(revision, false), marks: Vec::new(), revision }
}

/// A watcher was too far behind.
pub(super) struct TooSlow;

/// Why a watch that saw everything up to a revision cannot go on.
pub(super) fn expired(error: &ReadError, seen: Revision) -> Status {
    match error {
        ReadError::Compacted { oldest } => Status::gone(format!("too old resource version: {seen} ({oldest})")),
        other => Status::unavailable(other.to_string()),
    }
}
