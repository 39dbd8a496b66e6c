//! What flow control counts, under the names that Kubernetes uses.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    priority_level: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FlowLabels {
    priority_level: String,
    flow_schema: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    priority_level: String,
    flow_schema: String,
    reason: &'static str,
}

type Histograms = Family<FlowLabels, Histogram, fn() -> Histogram>;

/// All of them. A copy counts into the same ones.
#[derive(Clone)]
pub struct Families {
    levels: [Family<LevelLabels, Gauge>; 5],
    refused: Family<RefusedLabels, Counter>,
    dispatched: Family<FlowLabels, Counter>,
    gauges: [Family<FlowLabels, Gauge>; 3],
    waited: Histograms,
    executed: Histograms,
    estimated: Histograms,
}

impl Default for Families {
    fn default() -> Self {
        let seconds: fn() -> Histogram =
            || Histogram::new([0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0]);
        let seats: fn() -> Histogram = || Histogram::new([1.0, 2.0, 4.0, 10.0]);
        Families {
            levels: Default::default(),
            refused: Family::default(),
            dispatched: Family::default(),
            gauges: Default::default(),
            waited: Family::new_with_constructor(seconds),
            executed: Family::new_with_constructor(seconds),
            estimated: Family::new_with_constructor(seats),
        }
    }
}

const LEVELS: [(&str, &str); 5] = [
    ("nominal_limit_seats", "Seats that the configuration of a priority level gives it"),
    ("lower_limit_seats", "Seats that a priority level always has"),
    ("upper_limit_seats", "Seats that a priority level has at most"),
    ("current_limit_seats", "Seats that a priority level has now"),
    ("demand_seats_high_watermark", "The most seats that were wanted at once in the last period"),
];

const GAUGES: [(&str, &str); 3] = [
    ("current_inqueue_requests", "Requests that wait for a seat"),
    ("current_executing_requests", "Requests that have a seat"),
    ("current_executing_seats", "Seats that are taken"),
];

impl Families {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("apiserver_flowcontrol");
        for ((name, about), family) in LEVELS.iter().zip(&self.levels) {
            registry.register(*name, *about, family.clone());
        }
        for ((name, about), family) in GAUGES.iter().zip(&self.gauges) {
            registry.register(*name, *about, family.clone());
        }
        registry.register("rejected_requests", "Requests that were refused, by reason", self.refused.clone());
        registry.register("dispatched_requests", "Requests that got a seat", self.dispatched.clone());
        registry.register("request_wait_duration_seconds", "Time that requests waited", self.waited.clone());
        registry.register("request_execution_seconds", "Time that requests had their seats", self.executed.clone());
        registry.register("work_estimated_seats", "Seats that requests were taken to need", self.estimated.clone());
    }

    pub fn level(&self, name: &str) -> LevelGauges {
        let labels = LevelLabels { priority_level: name.to_owned() };
        let [nominal, least, most, current, peak] =
            self.levels.each_ref().map(|family| family.get_or_create(&labels).clone());
        LevelGauges { nominal, least, most, current, peak }
    }

    pub fn flow(&self, level: &str, schema: &str) -> Counts {
        let labels = FlowLabels { priority_level: level.to_owned(), flow_schema: schema.to_owned() };
        let [waiting, executing, executing_seats] =
            self.gauges.each_ref().map(|family| family.get_or_create(&labels).clone());
        Counts {
            waiting,
            executing,
            executing_seats,
            dispatched: self.dispatched.get_or_create(&labels).clone(),
            waited: self.waited.get_or_create(&labels).clone(),
            executed: self.executed.get_or_create(&labels).clone(),
            estimated: self.estimated.get_or_create(&labels).clone(),
            refused: self.refused.clone(),
            labels,
        }
    }
}

pub struct LevelGauges {
    nominal: Gauge,
    least: Gauge,
    most: Gauge,
    pub current: Gauge,
    pub peak: Gauge,
}

impl LevelGauges {
    pub fn limits(&self, nominal: u32, least: u32, most: u32) {
        self.nominal.set(i64::from(nominal));
        self.least.set(i64::from(least));
        self.most.set(i64::from(most));
    }
}

/// Those of one schema, looked up once.
pub struct Counts {
    pub waiting: Gauge,
    pub executing: Gauge,
    pub executing_seats: Gauge,
    pub dispatched: Counter,
    pub waited: Histogram,
    pub executed: Histogram,
    pub estimated: Histogram,
    refused: Family<RefusedLabels, Counter>,
    labels: FlowLabels,
}

impl Counts {
    pub fn refused(&self, reason: &'static str) {
        let FlowLabels { priority_level, flow_schema } = self.labels.clone();
        self.refused.get_or_create(&RefusedLabels { priority_level, flow_schema, reason }).inc();
    }
}
