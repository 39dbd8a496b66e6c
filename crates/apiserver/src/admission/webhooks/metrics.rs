//! What is counted about webhooks, under the names that dashboards know.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rejected {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailedOpen {
    name: String,
    r#type: &'static str,
}

/// Labels are names of webhooks, which only administrators can make up.
#[derive(Clone)]
pub struct Families {
    durations: Family<Called, Histogram>,
    rejections: Family<Rejected, Counter>,
    failed_open: Family<FailedOpen, Counter>,
}

impl Default for Families {
    fn default() -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        Families {
            durations: Family::new_with_constructor(histogram),
            rejections: Family::default(),
            failed_open: Family::default(),
        }
    }
}

/// How a call ended.
pub(super) enum Outcome {
    Passed,
    FailedOpen,
    /// Of what kind, and with which code.
    Rejected(&'static str, u16),
}

/// Which webhook was called, for what.
pub(super) struct What<'a> {
    pub(super) hook: &'a str,
    pub(super) kind: &'static str,
    pub(super) operation: &'static str,
}

impl Families {
    pub fn register(&self, registry: &mut Registry) {
        const PREFIX: &str = "apiserver_admission_webhook";
        let name = |rest: &str| format!("{PREFIX}_{rest}");
        registry.register(name("admission_duration_seconds"), "Time that webhooks took", self.durations.clone());
        registry.register(name("rejection_count"), "Requests that webhooks rejected", self.rejections.clone());
        registry.register(name("fail_open_count"), "Calls that failed and were ignored", self.failed_open.clone());
    }

    pub(super) fn note(&self, what: &What<'_>, outcome: &Outcome, took: Duration) {
        let (name, kind, operation) = (what.hook.to_owned(), what.kind, what.operation);
        let rejected = if matches!(outcome, Outcome::Rejected(..)) { "true" } else { "false" };
        let called = Called { name: name.clone(), r#type: kind, operation, rejected };
        self.durations.get_or_create(&called).observe(took.as_secs_f64());
        match *outcome {
            Outcome::Passed => {}
            Outcome::FailedOpen => _ = self.failed_open.get_or_create(&FailedOpen { name, r#type: kind }).inc(),
            Outcome::Rejected(error_type, rejection_code) => {
                let rejected = Rejected { name, r#type: kind, operation, error_type, rejection_code };
                self.rejections.get_or_create(&rejected).inc();
            }
        }
    }
}
