//! What loops have done, under the names that controller-runtime gives it, so that existing dashboards work.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::board::Board;
use crate::informer::Watching;
use crate::serve::observed::Observed;

/// From 5 ms to a minute, as controller-runtime has them.
const BUCKETS: [f64; 15] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Error,
    /// Trying again would not help.
    Terminal,
    Requeue,
    RequeueAfter,
    Panic,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Error | Outcome::Terminal => "error",
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
struct ByRequest {
    code: String,
    method: String,
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
    terminal: Family<ByController, Counter>,
    active: Family<ByController, Gauge>,
    most: Family<ByController, Gauge>,
    requests: Family<ByRequest, Counter>,
    durations: Family<ByController, Histogram>,
    leading: Family<ByLease, Gauge>,
    events_dropped: Counter,
    observed: Arc<Observed>,
    /// What the process counts itself.
    own: Mutex<Registry>,
}

/// Counts as a worker at work until it is dropped.
pub(crate) struct Working(Gauge);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (reconciles, leading) = (Family::default(), Family::default());
        let (errors, panics, terminal) = (Family::default(), Family::default(), Family::default());
        let (active, most) = (Family::<ByController, Gauge>::default(), Family::<ByController, Gauge>::default());
        let requests = Family::<ByRequest, Counter>::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let durations = Family::<ByController, Histogram>::new_with_constructor(histogram);
        let observed = Arc::new(Observed::default());
        registry.register("controller_runtime_reconcile", "Reconciles by result", reconciles.clone());
        registry.register("controller_runtime_reconcile_errors", "Reconciles that failed", errors.clone());
        registry.register("controller_runtime_reconcile_panics", "Reconciles that panicked", panics.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "Time of a reconcile", durations.clone());
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that failed for good",
            terminal.clone(),
        );
        registry.register("controller_runtime_active_workers", "Workers that reconcile now", active.clone());
        registry.register("controller_runtime_max_concurrent_reconciles", "Workers of a controller", most.clone());
        registry.register("rest_client_requests", "Requests to the API server by method and answer", requests.clone());
        registry.register("leader_election_master_status", "1 while this process leads", leading.clone());
        let events_dropped = Counter::default();
        registry.register(
            "pintle_events_dropped",
            "Events that were not written: too many waited",
            events_dropped.clone(),
        );
        registry.register_collector(Box::new(observed.clone()));
        let own = Mutex::default();
        Metrics(Arc::new(Counts {
            registry,
            reconciles,
            errors,
            panics,
            terminal,
            active,
            most,
            requests,
            durations,
            leading,
            events_dropped,
            observed,
            own,
        }))
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
            Outcome::Terminal => {
                self.0.errors.get_or_create(&by_controller).inc();
                self.0.terminal.get_or_create(&by_controller).inc();
            }
            Outcome::Error => drop(self.0.errors.get_or_create(&by_controller).inc()),
            Outcome::Panic => drop(self.0.panics.get_or_create(&by_controller).inc()),
            _ => {}
        }
    }

    /// A metric of the process's own, shown with the others. A counter's name gets `_total`.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.own().register(name, help, metric);
    }

    /// So many workers a controller has.
    pub(crate) fn workers(&self, controller: &str, most: usize) {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.0.most.get_or_create(&ByController { controller: controller.to_owned() }).set(most);
    }

    /// A reconcile is running until this is dropped.
    pub(crate) fn working(&self, controller: &str) -> Working {
        let active = self.0.active.get_or_create_owned(&ByController { controller: controller.to_owned() });
        active.inc();
        Working(active)
    }

    /// Counts a request by its answer; no code is one that did not come.
    pub(crate) fn asked(&self, method: &http::Method, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.0.requests.get_or_create(&ByRequest { code, method: method.as_str().to_owned() }).inc();
    }

    /// Counts an event that was not written.
    pub(crate) fn event_dropped(&self) {
        self.0.events_dropped.inc();
    }

    /// Shows what of a context's informers cannot be decoded, for as long as there are any.
    pub(crate) fn observe_informers(&self, informers: Watching) {
        self.0.observed.watch(informers);
    }

    /// Shows the queues of a context's loops. Once for each context.
    pub fn observe_board(&self, board: &Board) {
        self.0.observed.board(board);
    }

    /// Shows how many objects an informer holds and their bytes, as the function tells at that moment.
    pub fn observe_informer(&self, kind: &str, size: impl Fn() -> (usize, usize) + Send + Sync + 'static) {
        self.0.observed.informer(kind, Box::new(size));
    }

    /// Whether this process holds a Lease.
    pub fn leads(&self, lease: &str, leading: bool) {
        self.0.leading.get_or_create(&ByLease { name: lease.to_owned() }).set(leading.into());
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page that Prometheus reads.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        encode_registry(&mut page, &self.0.registry)?;
        encode_registry(&mut page, &self.own())?;
        encode_eof(&mut page)?;
        Ok(page)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
