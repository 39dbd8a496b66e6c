//! One priority level: who sits, who waits, and who is refused.

use super::fair::{Fair, deal};
use super::metrics::LevelGauges;
use super::rules::Flow;
use super::share::{Demand, Wish};
use super::spec::Excess;
use crate::authn::User;
use crate::call::Call;
use crate::request::ResourcePath;
use crate::verb::Verb;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

/// Why a request is refused, as metrics name it.
pub const QUEUE_FULL: &str = "queue-full";
pub const CONCURRENCY: &str = "concurrency-limit";
pub const TIME_OUT: &str = "time-out";

/// The longest time after which a refused client is told to come again.
const MAX_RETRY_SECONDS: u32 = 32;

pub struct Level {
    pub name: String,
    exempt: AtomicBool,
    /// Its object is gone.
    quiescing: AtomicBool,
    widest: AtomicU32,
    gauges: LevelGauges,
    state: Mutex<State>,
}

struct State {
    excess: Excess,
    /// The nominal share, what is never lent, and what is never exceeded.
    limits: [u32; 3],
    /// The seats that there are now.
    current: u32,
    seats_taken: u32,
    fair: Fair<Waiter>,
    /// Who sits where; not kept for those who are exempt.
    seated: BTreeMap<u64, Asked>,
    next: u64,
    demand: Demand,
    demand_since: Instant,
    counts: Counts,
    retry: Retry,
}

/// What happened since the server began.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub seated: u64,
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

struct Waiter {
    asked: Asked,
    tell: oneshot::Sender<Seat>,
}

/// Who asks for a seat.
pub struct Asked {
    pub flow: Arc<Flow>,
    pub hash: u64,
    pub seats: u32,
    pub arrived: Instant,
    pub user: Arc<User>,
    pub verb: Verb,
    pub path: ResourcePath,
    pub url: String,
}

impl Asked {
    pub fn new(flow: &Arc<Flow>, call: &Call, seats: u32, arrived: Instant) -> Self {
        let exempt = flow.level.is_exempt();
        let distinct = flow.schema.flow(&call.user, &call.path.namespace);
        let hash = if exempt { 0 } else { xxh3_64(format!("{}\0{distinct}", flow.schema.name).as_bytes()) };
        Asked {
            flow: flow.clone(),
            hash,
            seats,
            arrived,
            user: call.user.clone(),
            verb: call.verb.clone(),
            path: if exempt { ResourcePath::default() } else { call.path.clone() },
            url: if exempt { String::new() } else { call.url.clone() },
        }
    }
}

pub struct Refusal {
    pub reason: &'static str,
    pub retry_after: u32,
}

/// What somebody who asks finds.
enum Place {
    Seat(Seat),
    Queue(oneshot::Receiver<Seat>),
    None(Refusal),
}

/// What a request holds while it is worked on.
pub struct Seat {
    flow: Arc<Flow>,
    /// In which queue it is accounted for, and under which number it is listed.
    queue: u32,
    number: u64,
    seats: u32,
    began: Instant,
}

impl Level {
    pub fn new(name: &str, gauges: LevelGauges) -> Self {
        let state = State {
            excess: Excess::Reject,
            limits: [0; 3],
            current: 0,
            seats_taken: 0,
            fair: Fair::default(),
            seated: BTreeMap::new(),
            next: 0,
            demand: Demand::default(),
            demand_since: Instant::now(),
            counts: Counts::default(),
            retry: Retry::default(),
        };
        Level {
            name: name.to_owned(),
            exempt: AtomicBool::new(false),
            quiescing: AtomicBool::new(false),
            widest: AtomicU32::new(1),
            gauges,
            state: Mutex::new(state),
        }
    }

    pub fn is_exempt(&self) -> bool {
        self.exempt.load(Ordering::Relaxed)
    }

    /// The most seats that one request takes.
    pub fn widest(&self) -> u32 {
        self.widest.load(Ordering::Relaxed)
    }

    pub fn quiesce(&self, quiescing: bool) {
        self.quiescing.store(quiescing, Ordering::Relaxed);
    }

    pub fn is_quiescing(&self) -> bool {
        self.quiescing.load(Ordering::Relaxed)
    }

    /// Is its object gone, and everybody who was there?
    pub fn is_over(&self) -> bool {
        self.is_quiescing() && self.dump(|dump| dump.is_idle())
    }

    pub fn set(&self, excess: Excess, limits: [u32; 3], widest: u32) {
        self.exempt.store(excess == Excess::Exempt, Ordering::Relaxed);
        self.widest.store(widest, Ordering::Relaxed);
        let mut state = self.state();
        let [nominal, least, most] = limits;
        if state.limits != limits {
            // Half of what may be lent is, until it is known what is needed.
            state.current = nominal - (nominal - least) / 2;
        }
        (state.excess, state.limits) = (excess, limits);
        self.gauges.limits(nominal, least, most);
        self.gauges.current.set(i64::from(state.current));
    }

    /// What it needs, by what was asked recently.
    pub fn wish(&self, now: Instant) -> Wish {
        let mut state = self.state();
        state.note_demand(now);
        let (peak, usual) = state.demand.settle();
        self.gauges.peak.set(i64::from(peak));
        let [nominal, least, most] = state.limits;
        Wish { nominal, least, most, peak, usual }
    }

    pub fn grant(self: &Arc<Self>, seats: u32, now: Instant) {
        let mut state = self.state();
        state.current = seats;
        self.gauges.current.set(i64::from(seats));
        let seated = self.seat_who_fits(&mut state, now);
        drop(state);
        tell(seated);
    }

    /// A seat, at once or within `patience`.
    pub async fn take(self: &Arc<Self>, asked: Asked, patience: Duration) -> Result<Seat, Refusal> {
        let (flow, arrived) = (asked.flow.clone(), asked.arrived);
        let waiting = match self.sit_or_queue(asked, true) {
            Place::Seat(seat) => {
                flow.counts.waited.observe(0.0);
                return Ok(seat);
            }
            Place::Queue(waiting) => waiting,
            Place::None(refusal) => return Err(refusal),
        };
        flow.counts.waiting.inc();
        let mut leaves = Leaves { flow: &flow, gave_up: true };
        let told = tokio::time::timeout(patience, waiting).await;
        leaves.gave_up = false;
        flow.counts.waited.observe(arrived.elapsed().as_secs_f64());
        if let Ok(Ok(seat)) = told {
            return Ok(seat);
        }
        let mut state = self.state();
        state.counts.timed_out += 1;
        Err(state.refuse(TIME_OUT))
    }

    /// A seat for more work of a request that was let in before: it waits its turn and is not refused.
    pub async fn again(self: &Arc<Self>, flow: &Arc<Flow>, hash: u64) -> Seat {
        let asked = || Asked {
            flow: flow.clone(),
            hash,
            seats: 1,
            arrived: Instant::now(),
            user: Arc::default(),
            verb: Verb::List,
            path: ResourcePath::default(),
            url: String::new(),
        };
        let told = match self.sit_or_queue(asked(), false) {
            Place::Seat(seat) => Some(seat),
            Place::Queue(waiting) => waiting.await.ok(),
            Place::None(_) => None,
        };
        told.unwrap_or_else(|| self.sit(&mut self.state(), asked(), 0, Instant::now()))
    }

    fn sit_or_queue(self: &Arc<Self>, asked: Asked, may_refuse: bool) -> Place {
        let now = asked.arrived;
        let mut state = self.state();
        let number = match state.excess {
            Excess::Exempt => return Place::Seat(self.sit(&mut state, asked, 0, now)),
            // There is no place to wait in: who may not be refused sits beside the others.
            Excess::Reject if !may_refuse || state.has_room(asked.seats) => {
                return Place::Seat(self.sit(&mut state, asked, 0, now));
            }
            Excess::Reject => {
                state.counts.rejected += 1;
                return Place::None(state.refuse(CONCURRENCY));
            }
            Excess::Queue { queues, hand, length } => {
                let number = state.fair.shortest(&deal(asked.hash, queues, hand));
                if state.fair.waiting() == 0 && state.has_room(asked.seats) {
                    return Place::Seat(self.sit(&mut state, asked, number, now));
                }
                if may_refuse && state.fair.length(number) >= length as usize {
                    state.fair.prune(number, |waiter| waiter.tell.is_closed());
                    if state.fair.length(number) >= length as usize {
                        state.counts.rejected += 1;
                        return Place::None(state.refuse(QUEUE_FULL));
                    }
                }
                number
            }
        };
        let (tell_it, waiting) = oneshot::channel();
        state.note_demand(now);
        state.fair.push(number, asked.seats, Waiter { asked, tell: tell_it });
        let seated = self.seat_who_fits(&mut state, now);
        drop(state);
        tell(seated);
        Place::Queue(waiting)
    }

    /// Takes seats for somebody whose turn it is.
    fn sit(self: &Arc<Self>, state: &mut State, asked: Asked, queue: u32, now: Instant) -> Seat {
        state.note_demand(now);
        let (flow, seats) = (asked.flow.clone(), asked.seats);
        state.seats_taken += seats;
        state.counts.seated += 1;
        state.counts.dispatched += 1;
        state.next += 1;
        let number = state.next;
        if state.excess != Excess::Exempt {
            state.fair.begin(queue, seats);
            state.seated.insert(number, asked);
        }
        flow.counts.dispatched.inc();
        flow.counts.executing.inc();
        flow.counts.executing_seats.inc_by(i64::from(seats));
        Seat { flow, queue, number, seats, began: now }
    }

    /// Those whose turn it is now, with their seats. They are told when nothing is locked.
    fn seat_who_fits(self: &Arc<Self>, state: &mut State, now: Instant) -> Vec<(oneshot::Sender<Seat>, Seat)> {
        let mut seated = Vec::new();
        while state.fair.next_seats().is_some_and(|seats| state.has_room(seats)) {
            let Some((queue, _, waiter)) = state.fair.pop() else { break };
            if waiter.tell.is_closed() {
                continue;
            }
            let seat = self.sit(state, waiter.asked, queue, now);
            seated.push((waiter.tell, seat));
        }
        seated
    }

    fn leave(self: &Arc<Self>, seat: &Seat) {
        let now = Instant::now();
        let took = now.duration_since(seat.began).as_secs_f64();
        seat.flow.counts.executing.dec();
        seat.flow.counts.executing_seats.dec_by(i64::from(seat.seats));
        seat.flow.counts.executed.observe(took);
        let mut state = self.state();
        state.note_demand(now);
        state.seats_taken -= seat.seats;
        state.counts.seated -= 1;
        if state.seated.remove(&seat.number).is_some() {
            state.fair.end(seat.queue, seat.seats, took);
        }
        let seated = self.seat_who_fits(&mut state, now);
        drop(state);
        tell(seated);
    }

    /// For those who look: counts, and each queue in which something is.
    pub fn dump<R>(&self, look: impl FnOnce(&Dump<'_>) -> R) -> R {
        let state = self.state();
        look(&Dump(&state))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who gave up while we told them gives the seat back at once.
fn tell(seated: Vec<(oneshot::Sender<Seat>, Seat)>) {
    for (tell, seat) in seated {
        let _ = tell.send(seat);
    }
}

impl State {
    /// A request that is wider than the whole level sits alone.
    fn has_room(&self, seats: u32) -> bool {
        self.seats_taken == 0 || self.seats_taken + seats <= self.current
    }

    /// Before anything changes: for how long it was as it is.
    fn note_demand(&mut self, now: Instant) {
        let wanted = self.seats_taken + self.fair.waiting_seats();
        let since = now.saturating_duration_since(self.demand_since).as_secs_f64();
        self.demand.set(wanted, since);
        self.demand_since = now;
    }

    fn refuse(&mut self, reason: &'static str) -> Refusal {
        Refusal { reason, retry_after: self.retry.after(Instant::now()) }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.flow.level.leave(self);
    }
}

/// One that waits is counted until it does not. Its client may give up meanwhile.
struct Leaves<'a> {
    flow: &'a Flow,
    gave_up: bool,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.flow.counts.waiting.dec();
        if self.gave_up {
            self.flow.level.state().counts.cancelled += 1;
        }
    }
}

/// What refused clients are told: longer while many are refused, shorter when few are.
struct Retry {
    seconds: u32,
    refused: u32,
    since: Option<Instant>,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { seconds: 1, refused: 0, since: None }
    }
}

impl Retry {
    fn after(&mut self, now: Instant) -> u32 {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= Duration::from_secs(u64::from(self.seconds)) {
            if self.refused >= 3 * self.seconds {
                self.seconds = (2 * self.seconds).min(MAX_RETRY_SECONDS);
            } else if self.refused < self.seconds {
                self.seconds = (self.seconds - 1).max(1);
            }
            (self.refused, self.since) = (0, Some(now));
        }
        self.refused += 1;
        self.seconds
    }
}

/// What is seen of a level at one moment.
pub struct Dump<'a>(&'a State);

/// One queue: its number, who waits, who sits, their seats, its clock.
pub struct QueueDump<'a> {
    pub number: u32,
    pub waiting: Vec<&'a Asked>,
    pub seated: u32,
    pub seats: u32,
    pub clock: f64,
}

impl Dump<'_> {
    pub fn counts(&self) -> Counts {
        self.0.counts
    }

    pub fn waiting(&self) -> usize {
        self.0.fair.waiting()
    }

    pub fn is_idle(&self) -> bool {
        self.0.counts.seated == 0 && self.waiting() == 0
    }

    pub fn queues(&self) -> impl Iterator<Item = QueueDump<'_>> {
        self.0.fair.queues().map(|(number, queue)| QueueDump {
            number,
            waiting: queue.waiting.iter().map(|(_, waiter)| &waiter.asked).collect(),
            seated: queue.seated,
            seats: queue.seats,
            clock: queue.clock,
        })
    }

    pub fn seated(&self) -> impl Iterator<Item = &Asked> {
        self.0.seated.values()
    }
}
