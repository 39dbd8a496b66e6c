//! What a test may do to the requests and watches of a loop.
//!
//! One place sees every request and every line of every watch: [`Faults::through`]. It knows only `http`, so that it can
//! stand in front of a client in this process as well as behind a listener. Which fault meets which request follows from
//! counts and from the seed, never from time outside the test's.
//!
//! - `asked`: what a request is about; `plans`: which fault meets it; [`on`]: how a test says so
//! - `crash`, `refuse`, `watches`: the faults; losing an answer and being slow are one line each, below
//! - [`planned`]: what is planned, and how often each plan was met
//! - `client`: the same around a `kube::Client`

pub mod asked;
mod client;
mod crash;
pub mod on;
pub mod planned;
mod plans;
mod refuse;
#[cfg(test)]
mod tests;
mod watches;

use asked::Asked;
use bytes::Bytes;
pub use crash::Crash;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
pub use on::{Held, On};
use pintle_meta::Random;
pub use planned::Planned;
use plans::{Fault, Plan, Which};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use watches::Blind;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body as it leaves the faults.
pub type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// Writes that are kept to say who wrote what.
const REMEMBERED: usize = 4096;

/// Crashes that may wait to be carried out: there can be one per loop.
const CRASHES: usize = 64;

/// The faults of one cluster. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Faults(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    random: Random,
    watches_cut: AtomicBool,
    /// Something that watches must look at has changed.
    changed: Notify,
    in_flight: AtomicUsize,
    /// Lines and requests that will go on by themselves, later.
    late: AtomicUsize,
    /// Requests that a fault keeps waiting.
    slow: AtomicUsize,
    crashes: mpsc::Sender<Crash>,
    orders: Mutex<Option<mpsc::Receiver<Crash>>>,
}

#[derive(Default)]
struct State {
    plans: Vec<Plan>,
    blinds: Vec<Blind>,
    lags: Vec<(String, String, Duration)>,
    issued: u64,
    writes: VecDeque<Asked>,
    /// How many writes were seen in all.
    written: u64,
    /// Reads of collections that were refused and not asked again since.
    refused: Vec<Refused>,
}

/// A loop that could not list or watch: what it sees is behind until it asks again.
struct Refused {
    life: Life,
    asked: Asked,
    at: Instant,
}

/// Whoever lists and watches asks again within this time, also after many refusals.
const ASKS_AGAIN: Duration = Duration::from_secs(60);

/// Why there is no answer.
pub enum Broken<E> {
    /// The connection broke: over a socket, close it.
    Lost,
    /// Over sockets, close all that the one who asks has open.
    Severed,
    Inner(E),
}

/// Whether the process that asks is still there. A request of one that is not is never answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life(Arc<AtomicBool>);

impl Life {
    pub(crate) fn end(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    async fn goes_on(&self) {
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Faults::seeded(1)
    }
}

impl Faults {
    pub fn seeded(seed: u64) -> Self {
        let (crashes, orders) = mpsc::channel(CRASHES);
        Faults(Arc::new(Shared {
            state: Mutex::default(),
            random: Random::seeded(seed ^ 0xFA17),
            watches_cut: AtomicBool::new(false),
            changed: Notify::new(),
            in_flight: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
            slow: AtomicUsize::new(0),
            crashes,
            orders: Mutex::new(Some(orders)),
        }))
    }

    /// Plans faults for the loop that signs its requests with this name.
    #[must_use]
    pub fn on(&self, agent: &str) -> On {
        On {
            faults: self.clone(),
            agent: agent.to_owned(),
            which: Which::Writes,
            resource: String::new(),
            restart_after: Some(Duration::from_secs(1)),
            begin_after: Duration::ZERO,
        }
    }

    /// Running watches end and new ones fail, until this is lifted.
    pub fn cut_watches(&self, cut: bool) {
        self.0.watches_cut.store(cut, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Forgets every plan; watches that are held are released.
    pub fn lift(&self) {
        let now = Instant::now();
        let mut state = lock(&self.0.state);
        state.plans.clear();
        state.lags.clear();
        state.blinds.iter_mut().for_each(|blind| blind.ends = Some(now));
        drop(state);
        self.cut_watches(false);
    }

    /// The writes seen so far, oldest first; very old ones are forgotten.
    pub fn writes(&self) -> Vec<Asked> {
        lock(&self.0.state).writes.iter().cloned().collect()
    }

    /// How many writes were seen in all.
    pub fn written(&self) -> u64 {
        lock(&self.0.state).written
    }

    /// Sends a request on its way, unless a plan has something else in mind for it.
    ///
    /// # Errors
    ///
    /// When the answer is lost on its way, or when what lies behind fails by itself.
    pub async fn request<B, R, E, F>(
        &self,
        request: Request<B>,
        next: impl FnOnce(Request<B>) -> F,
    ) -> Result<Response<Answer>, Broken<E>>
    where
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
        F: Future<Output = Result<Response<R>, E>>,
    {
        self.through(&Life::default(), request, next).await
    }

    async fn through<B, R, E, F>(
        &self,
        life: &Life,
        request: Request<B>,
        next: impl FnOnce(Request<B>) -> F,
    ) -> Result<Response<Answer>, Broken<E>>
    where
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
        F: Future<Output = Result<Response<R>, E>>,
    {
        life.goes_on().await;
        let (head, body) = request.into_parts();
        let asked = Asked::of(&head);
        let met = self.meet(&asked);
        for fault in &met {
            if let Fault::Slow(wait) = fault {
                let _slow = UnderWay::one(&self.0.slow);
                tokio::time::sleep(*wait).await;
            }
        }
        let _under_way = (!asked.watches).then(|| UnderWay::one(&self.0.in_flight));
        for fault in &met {
            match fault {
                Fault::Refuse(code) => {
                    self.note_read(life, &asked, true);
                    return Ok(refuse::refuse(*code));
                }
                Fault::CrashBefore(crash) => {
                    drop(_under_way);
                    match crash::crash(self, life, crash).await {}
                }
                Fault::CrashAfter(_) | Fault::Lose | Fault::TimeOut | Fault::Sever | Fault::Slow(_) => {}
            }
        }
        if asked.watches && self.0.watches_cut.load(Ordering::SeqCst) {
            return Ok(refuse::refuse(503));
        }
        self.note_read(life, &asked, false);
        if asked.writes() {
            self.remember(&asked);
        }
        let response = next(Request::from_parts(head, body)).await.map_err(Broken::Inner)?;
        life.goes_on().await;
        for fault in &met {
            match fault {
                Fault::CrashAfter(crash) => {
                    drop(_under_way);
                    match crash::crash(self, life, crash).await {}
                }
                Fault::Lose => return Err(Broken::Lost),
                Fault::Sever => return Err(Broken::Severed),
                Fault::TimeOut => return Ok(refuse::refuse(504)),
                Fault::Slow(_) | Fault::Refuse(_) | Fault::CrashBefore(_) => {}
            }
        }
        let boxed = response.map(|body| body.map_err(Into::into).boxed_unsync());
        Ok(if asked.watches { boxed.map(|body| watches::shape(self, asked, body)) } else { boxed })
    }

    fn meet(&self, asked: &Asked) -> Vec<Fault> {
        let mut state = lock(&self.0.state);
        state.plans.iter_mut().filter_map(|plan| plan.meets(asked).then(|| plan.fault.clone())).collect()
    }

    /// Notes whether a read of a collection was refused. One that is let through ends that.
    fn note_read(&self, life: &Life, asked: &Asked, refused: bool) {
        if asked.method != "GET" || asked.resource.is_empty() || !asked.name.is_empty() {
            return;
        }
        let parts = [&asked.agent, &asked.namespace, &asked.resource];
        let mut state = lock(&self.0.state);
        state.refused.retain(|Refused { asked, .. }| [&asked.agent, &asked.namespace, &asked.resource] != parts);
        if refused {
            state.refused.push(Refused { life: life.clone(), asked: asked.clone(), at: Instant::now() });
        }
    }

    fn remember(&self, asked: &Asked) {
        let mut state = lock(&self.0.state);
        state.written += 1;
        state.writes.push_back(asked.clone());
        if state.writes.len() > REMEMBERED {
            state.writes.pop_front();
        }
    }

    fn order(&self, crash: Crash) {
        // Without anyone who carries out crashes (a client of its own process), the caller just never gets an answer.
        let _ = self.0.crashes.try_send(crash);
    }

    /// The crashes that plans order, for the one who can carry them out.
    pub(crate) fn take_orders(&self) -> Option<mpsc::Receiver<Crash>> {
        lock(&self.0.orders).take()
    }

    /// Whether a request is being answered; one that a fault keeps waiting is not.
    pub(crate) fn has_requests(&self) -> bool {
        self.0.in_flight.load(Ordering::SeqCst) > 0
    }

    /// Whether a fault keeps a request waiting.
    pub(crate) fn has_slow_requests(&self) -> bool {
        self.0.slow.load(Ordering::SeqCst) > 0
    }

    /// Whether events are held back that will come by themselves.
    pub(crate) fn has_late_events(&self) -> bool {
        self.0.late.load(Ordering::SeqCst) > 0
    }

    /// Whether a loop was refused a list or a watch that it will ask for again.
    pub(crate) fn has_refused_reads(&self) -> bool {
        let mut state = lock(&self.0.state);
        state.refused.retain(|refused| !refused.life.is_over() && refused.at.elapsed() < ASKS_AGAIN);
        !state.refused.is_empty()
    }

    /// Requests and lines of watches that faults keep waiting for virtual time to pass.
    pub(crate) fn late(&self) -> usize {
        self.0.late.load(Ordering::SeqCst) + self.0.slow.load(Ordering::SeqCst)
    }
}

/// Counts one thing for as long as it is held.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn one(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn whole(bytes: Bytes) -> Answer {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
