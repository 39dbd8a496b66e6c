//! What loops have done, under the names that controller-runtime gives it, so that existing dashboards work.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::board::Board;
use crate::informer::Watching;
use crate::queue;

/// From 5 ms to a minute, as controller-runtime has them.
const BUCKETS: [f64; 15] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Error,
    Requeue,
    RequeueAfter,
    Panic,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Error => "error",
            Outcome::Requeue => "requeue",
            Outcome::RequeueAfter => "requeue_after",
            Outcome::Panic => "panic",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLease {
    name: String,
}

/// The counts of a process. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Counts>);

struct Counts {
    registry: Registry,
    reconciles: Family<ByResult, Counter>,
    errors: Family<ByController, Counter>,
    panics: Family<ByController, Counter>,
    durations: Family<ByController, Histogram>,
    leading: Family<ByLease, Gauge>,
    events_dropped: Counter,
    observed: Arc<Observed>,
}

/// What is looked at when somebody asks.
#[derive(Default)]
struct Observed {
    boards: Mutex<Vec<Board>>,
    informers: Mutex<BTreeMap<String, Size>>,
    watching: Mutex<Vec<Watching>>,
}

type Size = Box<dyn Fn() -> (usize, usize) + Send + Sync>;

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (reconciles, leading) = (Family::default(), Family::default());
        let (errors, panics) = (Family::default(), Family::default());
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let durations = Family::<ByController, Histogram>::new_with_constructor(histogram);
        let observed = Arc::new(Observed::default());
        registry.register("controller_runtime_reconcile", "Reconciles by result", reconciles.clone());
        registry.register("controller_runtime_reconcile_errors", "Reconciles that failed", errors.clone());
        registry.register("controller_runtime_reconcile_panics", "Reconciles that panicked", panics.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "Time of a reconcile", durations.clone());
        registry.register("leader_election_master_status", "1 while this process leads", leading.clone());
        let events_dropped = Counter::default();
        registry.register(
            "pintle_events_dropped",
            "Events that were not written: too many waited",
            events_dropped.clone(),
        );
        registry.register_collector(Box::new(observed.clone()));
        Metrics(Arc::new(Counts { registry, reconciles, errors, panics, durations, leading, events_dropped, observed }))
    }
}

impl Metrics {
    /// Counts a reconcile that has ended.
    pub fn reconciled(&self, controller: &str, outcome: Outcome, took: Duration) {
        let by_controller = ByController { controller: controller.to_owned() };
        let by_result = ByResult { controller: controller.to_owned(), result: outcome.label() };
        self.0.reconciles.get_or_create(&by_result).inc();
        self.0.durations.get_or_create(&by_controller).observe(took.as_secs_f64());
        match outcome {
            Outcome::Error => drop(self.0.errors.get_or_create(&by_controller).inc()),
            Outcome::Panic => drop(self.0.panics.get_or_create(&by_controller).inc()),
            _ => {}
        }
    }

    /// Counts an event that was not written.
    pub(crate) fn event_dropped(&self) {
        self.0.events_dropped.inc();
    }

    /// Shows what of a context's informers cannot be decoded, for as long as there are any.
    pub(crate) fn observe_informers(&self, informers: Watching) {
        lock(&self.0.observed.watching).push(informers);
    }

    /// Shows the queues of a context's loops. Once for each context.
    pub fn observe_board(&self, board: &Board) {
        lock(&self.0.observed.boards).push(board.clone());
    }

    /// Shows how many objects an informer holds and their bytes, as the function tells at that moment.
    pub fn observe_informer(&self, kind: &str, size: impl Fn() -> (usize, usize) + Send + Sync + 'static) {
        lock(&self.0.observed.informers).insert(kind.to_owned(), Box::new(size));
    }

    /// Whether this process holds a Lease.
    pub fn leads(&self, lease: &str, leading: bool) {
        self.0.leading.get_or_create(&ByLease { name: lease.to_owned() }).set(leading.into());
    }

    /// The page that Prometheus reads.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        encode(&mut page, &self.0.registry)?;
        Ok(page)
    }
}

impl Observed {
    /// What the loops of each name have to do; a name may stand on several boards.
    fn queues(&self) -> BTreeMap<String, queue::Metrics> {
        let mut queues: BTreeMap<String, queue::Metrics> = BTreeMap::new();
        for (name, counted) in lock(&self.boards).iter().flat_map(Board::loops) {
            let all = queues.entry(name).or_default();
            all.depth += counted.depth;
            all.delayed += counted.delayed;
            all.working += counted.working;
            all.adds += counted.adds;
            all.retries += counted.retries;
            all.oldest_wait = all.oldest_wait.max(counted.oldest_wait);
            all.longest_work = all.longest_work.max(counted.longest_work);
        }
        queues
    }
}

impl Collector for Observed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let queues = self.queues();
        type Read = fn(&queue::Metrics) -> usize;
        let gauges: [(&str, &str, Read); 3] = [
            ("workqueue_depth", "Keys ready to be worked on", |queue| queue.depth),
            ("workqueue_delayed", "Keys that wait for their time", |queue| queue.delayed),
            ("workqueue_active", "Keys being worked on", |queue| queue.working),
        ];
        for (name, help, read) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (queue, counted) in &queues {
                let value = i64::try_from(read(counted)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&of_queue(queue))?)?;
            }
        }
        type Count = fn(&queue::Metrics) -> u64;
        let counters: [(&str, &str, Count); 2] = [
            ("workqueue_adds", "Keys that were added", |queue| queue.adds),
            ("workqueue_retries", "Keys that were tried again", |queue| queue.retries),
        ];
        for (name, help, read) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (queue, counted) in &queues {
                ConstCounter::new(read(counted)).encode(family.encode_family(&of_queue(queue))?)?;
            }
        }
        type Wait = fn(&queue::Metrics) -> Duration;
        let waits: [(&str, &str, Wait); 2] = [
            ("workqueue_oldest_wait_seconds", "How long the first key has waited for a worker", |queue| {
                queue.oldest_wait
            }),
            (
                "workqueue_longest_running_processor_seconds",
                "How long the longest reconcile has been running",
                |queue| queue.longest_work,
            ),
        ];
        for (name, help, read) in waits {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (queue, counted) in &queues {
                let seconds = read(counted).as_secs_f64();
                ConstGauge::new(seconds).encode(family.encode_family(&of_queue(queue))?)?;
            }
        }
        let mut unreadable: BTreeMap<String, usize> = BTreeMap::new();
        lock(&self.watching).retain(|informers| {
            let Some(all) = informers.all() else { return false };
            all.into_iter().for_each(|view| *unreadable.entry(view.path).or_default() += view.unreadable);
            true
        });
        let mut family = encoder.encode_descriptor(
            "pintle_informer_unreadable_objects",
            "Objects that cannot be decoded and are skipped",
            None,
            MetricType::Gauge,
        )?;
        for (path, count) in &unreadable {
            let value = i64::try_from(*count).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&[("path", path.as_str())])?)?;
        }
        let sizes: Vec<(String, (usize, usize))> =
            lock(&self.informers).iter().map(|(kind, size)| (kind.clone(), size())).collect();
        for (name, help, bytes) in [
            ("pintle_informer_objects", "Objects that an informer holds", false),
            ("pintle_informer_bytes", "Bytes of the objects that an informer holds", true),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (kind, size) in &sizes {
                let value = i64::try_from(if bytes { size.1 } else { size.0 }).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&[("kind", kind.as_str())])?)?;
            }
        }
        Ok(())
    }
}

/// Both labels, as client-go and controller-runtime write them.
fn of_queue(name: &str) -> [(&'static str, &str); 2] {
    [("name", name), ("controller", name)]
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observed")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
