//! API priority and fairness: who waits when more is asked than the server can do at once.
//!
//! - A FlowSchema says which requests belong together; it names a priority level. Within a schema, requests of one user or
//!   of one namespace are a flow.
//! - A PriorityLevelConfiguration has seats. A request takes one, a long list more; who finds none waits in a queue of its
//!   flow, and is refused with 429 when the queue is full or the wait too long.
//! - Seats go to the flow that had the least of them: one that asks ten times as much as it gets does not slow the others.
//! - A long list gives its seat back after each piece, so that a slow reader holds none.
//!
//! ```text
//! call → [rules]: schema, level, flow → [estimate]: seats → [level]: now, later, or 429
//!                                                             ├─ [fair]: whose turn it is
//!                                                             └─ [share]: how many seats the level has now
//! ```
//!
//! [`defaults`] are the objects that every cluster has, and [`keep`] keeps them. [`debug`] shows who waits.

pub mod debug;
pub mod defaults;
pub mod estimate;
pub mod fair;
pub mod keep;
pub mod level;
pub mod metrics;
pub mod rules;
pub mod share;
pub mod spec;

use crate::call::Call;
use crate::follow::Follower;
use crate::keys;
use crate::notes::Notes;
use crate::verb::Verb;
use estimate::Sizes;
use http::HeaderValue;
use level::{Asked, Level, Refusal, Seat};
use metrics::Families;
use pintle_meta::Status;
use pintle_store::Store;
use rules::{Flow, Rules};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How many seats levels lend each other is found out anew after this.
const ADJUSTMENT: Duration = Duration::from_secs(10);

/// How long a request may wait for a seat: a quarter of what it may take in all.
const PATIENCE: Duration = Duration::from_secs(15);

pub struct FlowControl {
    rules: Follower<Rules>,
    levels: Arc<Levels>,
    sizes: Sizes,
}

/// All levels. They outlive the rules that made them: who holds a seat gives it back to the same level.
pub struct Levels {
    /// The seats of the whole server.
    seats: u32,
    families: Families,
    all: Mutex<BTreeMap<String, Arc<Level>>>,
    adjusted: Mutex<Instant>,
}

impl Levels {
    fn new(seats: u32, families: Families) -> Self {
        Levels { seats, families, all: Mutex::default(), adjusted: Mutex::new(Instant::now()) }
    }

    /// The level of this name; it is made if it is missing.
    fn get(&self, name: &str) -> Arc<Level> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name.to_owned()).or_insert_with(|| Arc::new(Level::new(name, self.families.level(name)))).clone()
    }

    /// Marks the levels whose objects are gone. They go when nobody sits or waits there.
    fn retire(&self, is_wanted: impl Fn(&str) -> bool) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|(name, level)| level.quiesce(!is_wanted(name)));
        all.retain(|_, level| !level.is_over());
    }

    pub fn list(&self) -> Vec<Arc<Level>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// From time to time, levels that need less lend seats to those that need more.
    fn adjust_if_due(&self, now: Instant) {
        let Ok(mut adjusted) = self.adjusted.try_lock() else { return };
        if now.duration_since(*adjusted) >= ADJUSTMENT {
            *adjusted = now;
            self.adjust(now);
        }
    }

    fn adjust(&self, now: Instant) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, level| !level.is_over());
        let levels = self.list();
        let wishes: Vec<_> = levels.iter().map(|level| level.wish(now)).collect();
        let grants = share::grant(&wishes);
        for (level, seats) in levels.iter().zip(grants) {
            level.grant(seats, now);
        }
    }
}

impl FlowControl {
    pub fn new(store: Arc<dyn Store>, seats: u32, families: Families) -> Self {
        let levels = Arc::new(Levels::new(seats, families));
        let rules = Rules::new(levels.clone());
        FlowControl {
            rules: Follower::starting_with(store, &[keys::FLOW_SCHEMAS, keys::PRIORITY_LEVELS], rules),
            levels,
            sizes: Sizes::default(),
        }
    }

    /// A seat for a call, at once or after a wait. None for what lasts until somebody ends it.
    pub async fn seat(&self, call: &Call, notes: &Notes) -> Result<Option<Seat>, Status> {
        if call.is_long_running && call.verb != Verb::Watch {
            return Ok(None);
        }
        let rules = self.rules.current().await;
        let flow = rules.classify(call);
        let now = Instant::now();
        if !flow.level.is_exempt() {
            self.levels.adjust_if_due(now);
        }
        let seats = self.sizes.seats(call, flow.level.widest());
        flow.counts.estimated.observe(f64::from(seats));
        let asked = Asked::new(flow, call, seats, now);
        notes.flows(Line { flow: flow.clone(), hash: asked.hash });
        let seat = flow.level.take(asked, PATIENCE).await.map_err(|refusal| refused(flow, &refusal))?;
        Ok(Some(seat))
    }

    /// Lists of this collection will be as long as this one.
    pub fn listed(&self, scope: &str, objects: usize, bytes: usize) {
        self.sizes.note(scope, objects, bytes);
    }

    pub fn levels(&self) -> &Levels {
        &self.levels
    }
}

/// The place of a request that goes on after it was answered: each piece of a long list takes a seat of its own.
#[derive(Clone)]
pub struct Line {
    flow: Arc<Flow>,
    hash: u64,
}

impl Line {
    /// The UIDs of the flow schema and the priority level.
    pub fn uids(&self) -> &[HeaderValue; 2] {
        &self.flow.uids
    }

    /// A seat for the next piece. Nobody is refused half-way.
    pub async fn again(&self) -> Seat {
        self.flow.level.again(&self.flow, self.hash).await
    }
}

fn refused(flow: &Flow, refusal: &Refusal) -> Status {
    flow.counts.refused(refusal.reason);
    let why = match refusal.reason {
        level::QUEUE_FULL => "the queue of its flow is full",
        level::TIME_OUT => "it waited too long for its turn",
        _ => "there is no room",
    };
    let message = format!(
        "Too many requests, please try again later: priority level {:?}, flow schema {:?}: {why}",
        flow.level.name, flow.schema.name
    );
    Status { retry_after: Some(refusal.retry_after), ..Status::new(429, "TooManyRequests", message) }
}
