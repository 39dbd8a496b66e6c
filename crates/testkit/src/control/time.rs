//! Virtual time for clients that live in real time: it stands still while sockets wait, and moves only when it is told to.
//!
//! A paused runtime moves its clock as soon as every task waits, and a task that waits for a socket waits too: a day
//! would pass before the first byte of an answer. Tokio leaves the clock alone while a blocking task runs. So one runs,
//! and holds it. It is also the one thing here that lives in real time: it beats every few milliseconds, and whoever has
//! to wait for a client really waits for beats. To let time pass, the holder is let go, and everything due in this
//! process happens at its moment and in order, as in a test without sockets.
//!
//! By default time follows the machine's: with every beat it moves by what has really passed.

use crate::activity::Activity;
use futures::FutureExt;
use jiff::Timestamp;
use pintle_meta::Clock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

/// How often the holder beats, in real time.
pub(crate) const BEAT: Duration = Duration::from_millis(5);

/// The longest move at once when time follows: a machine that slept has hours to catch up with.
const STRIDE: Duration = Duration::from_secs(1);

/// Orders that may wait.
const ORDERS: usize = 16;

/// Someone in this process writes without end at one moment, so that time cannot move.
#[derive(Debug)]
pub(crate) struct Stuck;

/// The time of all clusters of a runtime. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(crate) struct Time(Arc<Shared>);

struct Shared {
    orders: mpsc::Sender<Order>,
    beat: Arc<Notify>,
    pace: Arc<Pace>,
}

/// What the keeper of time looks at.
struct Pace {
    real: Clock,
    follows: AtomicBool,
    /// What is written in each cluster, to know when time cannot move.
    clusters: Mutex<BTreeMap<u64, Activity>>,
}

struct Order {
    pass: Duration,
    done: oneshot::Sender<Result<(), Stuck>>,
}

impl Time {
    /// Holds time from here on. The runtime must be paused and have one thread.
    pub(crate) fn hold() -> Self {
        let (orders, taken) = mpsc::channel(ORDERS);
        let beat = Arc::new(Notify::new());
        let pace = Arc::new(Pace { real: Clock::system(), follows: AtomicBool::new(true), clusters: Mutex::default() });
        // Not in the task: time is held when this returns.
        let held = Held::begin(&beat);
        tokio::spawn(keep(held, taken, beat.clone(), pace.clone()));
        Time(Arc::new(Shared { orders, beat, pace }))
    }

    /// The machine's time.
    pub(crate) fn really_now(&self) -> Timestamp {
        self.0.pace.real.now()
    }

    /// How much time has really passed since then.
    pub(crate) fn really_since(&self, then: Timestamp) -> Duration {
        between(then, self.really_now())
    }

    /// Waits in real time; as a rule a beat longer than asked.
    pub(crate) async fn really_wait(&self, long: Duration) {
        let began = self.really_now();
        loop {
            self.0.beat.notified().await;
            if self.really_since(began) >= long {
                return;
            }
        }
    }

    /// Lets virtual time pass; everything due in this process happens in order.
    pub(crate) async fn pass(&self, long: Duration) -> Result<(), Stuck> {
        let (done, answer) = oneshot::channel();
        // The keeper lives as long as this; when the runtime ends, nobody waits for the answer.
        let _ = self.0.orders.send(Order { pass: long, done }).await;
        answer.await.unwrap_or(Ok(()))
    }

    pub(crate) fn follows(&self) -> bool {
        self.0.pace.follows.load(Ordering::SeqCst)
    }

    /// Whether time moves with the machine's, or stands until it is told to pass.
    pub(crate) fn follow(&self, follows: bool) {
        self.0.pace.follows.store(follows, Ordering::SeqCst);
    }

    /// Knows a cluster by a number.
    pub(crate) fn watch_over(&self, id: u64, activity: &Activity) {
        self.0.pace.clusters().insert(id, activity.clone());
    }

    pub(crate) fn forget(&self, id: u64) {
        self.0.pace.clusters().remove(&id);
    }
}

impl Pace {
    fn clusters(&self) -> MutexGuard<'_, BTreeMap<u64, Activity>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when someone writes so often at one moment that time would never move.
    async fn frenzy(&self) {
        let all: Vec<Activity> = self.clusters().values().cloned().collect();
        if all.is_empty() {
            return std::future::pending().await;
        }
        // What was noticed while time stood still was the work of clients, who may write as often as they like.
        for activity in &all {
            let _ = activity.frenzy().now_or_never();
        }
        futures::future::select_all(all.iter().map(|activity| activity.frenzy().boxed())).await;
    }
}

/// Carries out orders one after the other, and follows the machine in between. Ends when nobody can give orders.
async fn keep(mut held: Held, mut orders: mpsc::Receiver<Order>, beat: Arc<Notify>, pace: Arc<Pace>) {
    let mut last = pace.real.now();
    loop {
        let order = tokio::select! {
            biased;
            order = orders.recv() => order,
            () = beat.notified() => {
                let now = pace.real.now();
                let passed = between(std::mem::replace(&mut last, now), now);
                if pace.follows.load(Ordering::SeqCst) {
                    follow(passed).await;
                }
                continue;
            }
        };
        let Some(Order { pass, done }) = order else { return };
        held.end().await;
        let passed = tokio::select! {
            biased;
            () = pace.frenzy() => Err(Stuck),
            () = tokio::time::sleep(pass) => Ok(()),
        };
        held = Held::begin(&beat);
        // Who asked may have gone.
        let _ = done.send(passed);
    }
}

async fn follow(mut passed: Duration) {
    while !passed.is_zero() {
        let stride = passed.min(STRIDE);
        tokio::time::advance(stride).await;
        passed -= stride;
    }
}

/// The blocking task that holds time.
struct Held {
    let_go: SyncSender<()>,
    task: JoinHandle<()>,
}

impl Held {
    fn begin(beat: &Arc<Notify>) -> Self {
        let (let_go, told) = sync_channel(0);
        let beat = beat.clone();
        let task = tokio::task::spawn_blocking(move || {
            while told.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                beat.notify_waiters();
            }
        });
        Held { let_go, task }
    }

    async fn end(self) {
        drop(self.let_go);
        // It cannot fail: it does nothing that panics.
        let _ = self.task.await;
    }
}

fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    // The machine's clock may be set back.
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}
