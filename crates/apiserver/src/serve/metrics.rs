//! `/metrics`: what the server did, in the notation that Prometheus reads.

use crate::ApiServer;
use crate::admission::webhooks;
use crate::body::Body;
use crate::catalogue::Resource;
use crate::flow::metrics::Families;
use crate::outbound::Counts;
use crate::response;
use crate::verb::Verb;
use http::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    resource: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabels {
    name: String,
}

pub struct Metrics {
    registry: Registry,
    pub flow: Families,
    pub webhooks: webhooks::Families,
    pub reviews: Counts,
    requests: Family<RequestLabels, Counter>,
    durations: Family<VerbLabels, Histogram>,
    revision: Gauge,
    causes: Gauge,
    cause_bytes: Gauge,
    dropped_causes: Gauge,
    watch: [Gauge; 4],
    /// Of API servers beside this one.
    unavailable: Family<ServiceLabels, Gauge>,
}

/// What the pumps of watches are counted by: see [`crate::watches::pump::Counts`].
const WATCH: [(&str, &str); 4] = [
    ("pintle_watch_pumps", "Topics and views that are watched"),
    ("pintle_watchers", "Watches that are open"),
    ("pintle_watch_rounds", "Times that events woke a pump of watchers"),
    ("pintle_watch_cut_off", "Watches that were cut off for being too slow"),
];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<RequestLabels, Counter>::default();
        let durations = Family::<VerbLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.0001, 2.0, 18))
        });
        let revision = Gauge::default();
        let (causes, cause_bytes, dropped_causes) = (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("apiserver_request", "Requests by verb, resource and code", requests.clone());
        registry.register("apiserver_request_duration_seconds", "Time until the answer began", durations.clone());
        registry.register("pintle_store_revision", "The store's newest revision", revision.clone());
        registry.register("pintle_causes", "Writes whose causes are kept", causes.clone());
        registry.register("pintle_causes_bytes", "Memory of the kept causes", cause_bytes.clone());
        registry.register("pintle_causes_dropped", "Cause headers that could not be read", dropped_causes.clone());
        let watch = WATCH.map(|(name, about)| {
            let gauge = Gauge::default();
            registry.register(name, about, gauge.clone());
            gauge
        });
        let unavailable = Family::<ServiceLabels, Gauge>::default();
        let about = "APIServices which are marked as unavailable, by name";
        registry.register("aggregator_unavailable_apiservice", about, unavailable.clone());
        let flow = Families::default();
        flow.register(&mut registry);
        let webhooks = webhooks::Families::default();
        webhooks.register(&mut registry);
        let reviews = Counts::default();
        reviews.register(&mut registry);
        Metrics {
            watch,
            unavailable,
            flow,
            webhooks,
            reviews,
            registry,
            requests,
            durations,
            revision,
            causes,
            cause_bytes,
            dropped_causes,
        }
    }
}

impl Metrics {
    pub fn request(&self, verb: &Verb, resource: Option<&Resource>, code: u16, took: Duration) {
        let verb = verb.as_str().to_owned();
        let resource = resource.map(|resource| resource.name.clone()).unwrap_or_default();
        self.requests.get_or_create(&RequestLabels { verb: verb.clone(), resource, code }).inc();
        self.durations.get_or_create(&VerbLabels { verb }).observe(took.as_secs_f64());
    }
}

pub fn render(server: &ApiServer) -> Response<Body> {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (metrics, causes) = (&server.metrics, &server.registry.causes);
    let (entries, bytes) = causes.size();
    metrics.revision.set(whole(server.registry.store.revision()));
    metrics.causes.set(whole(entries as u64));
    metrics.cause_bytes.set(whole(bytes as u64));
    metrics.dropped_causes.set(whole(causes.dropped()));
    let watches = server.watches.counts();
    let counts = [watches.pumps, watches.watchers, watches.rounds, watches.cut_off];
    for (gauge, count) in metrics.watch.iter().zip(counts) {
        gauge.set(whole(count));
    }
    // Names of those that are gone do not stay.
    metrics.unavailable.clear();
    for (name, registered) in server.registry.catalogue.latest().registrations().all() {
        let labels = ServiceLabels { name: name.clone() };
        metrics.unavailable.get_or_create(&labels).set(i64::from(!registered.is_available));
    }
    let mut text = String::new();
    match encode(&mut text, &server.metrics.registry) {
        Ok(()) => response::with_type(200, "application/openmetrics-text; version=1.0.0; charset=utf-8", text),
        Err(error) => response::failure(&pintle_meta::Status::internal(error.to_string())),
    }
}
