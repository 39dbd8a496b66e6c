//! The queue under a model checker: thousands of schedules of the real books and the real waking.
//!
//! Only lock, bell and clock are the model's. The checker may switch tasks whenever the lock is taken or given back; a
//! ring is one step, as in tokio. Time moves when a worker waits for it. A worker that would wait for ever is a deadlock,
//! which the checker reports as a failure, together with the schedule that led there.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::Runner;
use shuttle::future::{block_on, spawn, yield_now};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::{Arc, Mutex};
use tokio::time::Instant;

use super::state::State;
use super::sync::{Bell, Lock};
use super::waking::Core;
use super::{Class, Config};

/// Enough for each planted mistake to be found in well under a second; all together take a few.
const SCHEDULES: usize = 300;

/// The smallest models are quick, and need many schedules for the one in a thousand that shows a lost ring.
const TINY: usize = 2_000;

/// Drawn by chance, but by the same chance every time.
fn schedules(count: usize, model: impl Fn() + Send + Sync + 'static) {
    let scheduler = RandomScheduler::new_from_seed(1, count);
    Runner::new(scheduler, shuttle::Config::default()).run(model);
}

impl<V> Lock<V> for Mutex<V> {
    fn new(value: V) -> Self {
        Mutex::new(value)
    }

    fn with<R>(&self, touch: impl FnOnce(&mut V) -> R) -> R {
        touch(&mut self.lock().unwrap())
    }
}

/// What `tokio::sync::Notify` promises for `notify_one`, in the checker's world.
struct ModelBell {
    rings: std::sync::Mutex<Rings>,
    milliseconds: AtomicU64,
    start: Instant,
}

#[derive(Default)]
struct Rings {
    kept: bool,
    next: u64,
    waiting: VecDeque<(u64, Waker)>,
    rung: Vec<u64>,
}

impl Default for ModelBell {
    fn default() -> Self {
        ModelBell { rings: std::sync::Mutex::default(), milliseconds: AtomicU64::new(0), start: Instant::now() }
    }
}

impl Bell for ModelBell {
    fn ring(&self) {
        let woken = {
            let mut rings = self.rings.lock().unwrap();
            let first = rings.waiting.pop_front();
            match &first {
                Some((listener, _)) => rings.rung.push(*listener),
                None => rings.kept = true,
            }
            first
        };
        if let Some((_, waker)) = woken {
            waker.wake();
        }
    }

    fn heard(&self) -> impl Future<Output = ()> + Send {
        Heard { bell: self, listener: None }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.milliseconds.load(Ordering::SeqCst))
    }

    async fn until(&self, due: Instant) {
        yield_now().await;
        let due = u64::try_from((due - self.start).as_millis()).unwrap();
        self.milliseconds.fetch_max(due, Ordering::SeqCst);
    }
}

struct Heard<'a> {
    bell: &'a ModelBell,
    listener: Option<u64>,
}

impl Future for Heard<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let bell = self.bell;
        if self.listener.is_none() {
            // Between the look into the books and this, anything may happen.
            shuttle::thread::yield_now();
        }
        let mut rings = bell.rings.lock().unwrap();
        if let Some(listener) = self.listener {
            if let Some(at) = rings.rung.iter().position(|rung| *rung == listener) {
                rings.rung.remove(at);
                self.listener = None;
                return Poll::Ready(());
            }
            rings.waiting.iter_mut().filter(|(waiting, _)| *waiting == listener).for_each(|(_, waker)| {
                waker.clone_from(context.waker());
            });
            return Poll::Pending;
        }
        if std::mem::take(&mut rings.kept) {
            return Poll::Ready(());
        }
        rings.next += 1;
        let listener = rings.next;
        rings.waiting.push_back((listener, context.waker().clone()));
        self.listener = Some(listener);
        Poll::Pending
    }
}

impl Drop for Heard<'_> {
    /// A ring for someone who has left is the next one's.
    fn drop(&mut self) {
        let Some(listener) = self.listener else { return };
        let rung = {
            let mut rings = self.bell.rings.lock().unwrap();
            rings.waiting.retain(|(waiting, _)| *waiting != listener);
            let before = rings.rung.len();
            rings.rung.retain(|rung| *rung != listener);
            rings.rung.len() < before
        };
        if rung {
            self.bell.ring();
        }
    }
}

type Modelled = Core<u32, Mutex<State<u32>>, ModelBell>;

/// What the workers did to each key: how often it was handed out, and to how many at this moment.
#[derive(Default)]
struct Seen {
    times: BTreeMap<u32, u32>,
    now: BTreeMap<u32, u32>,
}

async fn work(queue: Arc<Modelled>, seen: Arc<Mutex<Seen>>) {
    while let Some(key) = queue.get().await {
        {
            let mut seen = seen.lock().unwrap();
            *seen.times.entry(key).or_default() += 1;
            let holders = seen.now.entry(key).or_default();
            *holders += 1;
            assert_eq!(*holders, 1, "two workers have key {key}");
        }
        yield_now().await;
        seen.lock().unwrap().now.insert(key, 0);
        queue.done(&key);
    }
}

/// Runs three workers beside what `adds` does; when all is worked off, everyone must hear of the end.
fn check(adds: fn(Arc<Modelled>) -> Vec<shuttle::future::JoinHandle<()>>, least: &'static [(u32, u32)]) {
    schedules(SCHEDULES, move || {
        let queue = Arc::new(Modelled::new(Config::default()));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let workers: Vec<_> = (0..3).map(|_| spawn(work(queue.clone(), seen.clone()))).collect();
        let adders = adds(queue.clone());
        block_on(async {
            for adder in adders {
                adder.await.unwrap();
            }
            loop {
                let now = queue.now();
                let metrics = queue.read(|state| state.metrics(now));
                if metrics.depth + metrics.delayed + metrics.working == 0 {
                    break;
                }
                yield_now().await;
            }
            queue.shut_down();
            for worker in workers {
                worker.await.unwrap();
            }
        });
        let seen = seen.lock().unwrap();
        for (key, times) in least {
            assert!(seen.times.get(key).is_some_and(|seen| seen >= times), "key {key} was lost");
        }
    });
}

#[test]
fn no_schedule_loses_a_key_or_gives_it_to_two_workers() {
    check(
        |queue| {
            (0..2u32)
                .map(|adder| {
                    let queue = queue.clone();
                    spawn(async move {
                        for key in [0, 1 + adder, 0] {
                            queue.add(key, if adder == 0 { Class::Low } else { Class::Urgent });
                            yield_now().await;
                        }
                    })
                })
                .collect()
        },
        &[(0, 1), (1, 1), (2, 1)],
    );
}

#[test]
fn no_schedule_misses_a_delay() {
    check(
        |queue| {
            (0..2u32)
                .map(|adder| {
                    let queue = queue.clone();
                    spawn(async move {
                        queue.add_after(10 + adder, Duration::from_millis(20 - u64::from(adder)));
                        yield_now().await;
                        queue.add_rate_limited(5);
                        queue.add(adder, Class::Normal);
                    })
                })
                .collect()
        },
        &[(0, 1), (1, 1), (5, 1), (10, 1), (11, 1)],
    );
}

/// Two workers that take one key each, beside a task that adds two. Nobody polls here: a worker that is not woken is a
/// deadlock.
fn check_waking(add: fn(&Modelled, u32)) {
    schedules(TINY, move || {
        let queue = Arc::new(Modelled::new(Config::default()));
        let getters: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                spawn(async move { queue.get().await })
            })
            .collect();
        add(&queue, 0);
        add(&queue, 1);
        block_on(async {
            let mut got = Vec::new();
            for getter in getters {
                got.extend(getter.await.unwrap());
            }
            got.sort_unstable();
            assert_eq!(got, [0, 1], "no key is done, and none may be given out twice");
        });
    });
}

#[test]
fn no_schedule_leaves_a_worker_asleep_beside_a_ready_key() {
    check_waking(|queue, key| queue.add(key, Class::Normal));
}

#[test]
fn no_schedule_leaves_a_delay_without_a_worker_that_watches_it() {
    check_waking(|queue, key| queue.add_after(key, Duration::from_millis(u64::from(2 - key))));
}

#[test]
fn every_worker_hears_the_shutdown_whatever_else_goes_on() {
    schedules(SCHEDULES, || {
        let queue = Arc::new(Modelled::new(Config::default()));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let workers: Vec<_> = (0..3).map(|_| spawn(work(queue.clone(), seen.clone()))).collect();
        let adder = spawn({
            let queue = queue.clone();
            async move {
                for key in 0..3 {
                    queue.add(key, Class::Normal);
                    queue.add_after(key, Duration::from_millis(1));
                    yield_now().await;
                }
            }
        });
        let stopper = spawn({
            let queue = queue.clone();
            async move {
                yield_now().await;
                queue.shut_down();
            }
        });
        block_on(async {
            for task in workers.into_iter().chain([adder, stopper]) {
                task.await.unwrap();
            }
        });
    });
}
