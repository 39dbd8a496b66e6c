//! What becomes of the number of replicas: from the target's Scale and its metrics to one write and the status.

mod limits;
mod metric;
mod requests;
mod status;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricSpec, MetricStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource;
use pintle_meta::quantity::Quantity;
use pintle_runtime::plan::{Pace, Said, What};
use pintle_runtime::{Plan, Write};
use serde_json::json;

use limits::Bounds;
pub(super) use limits::History;
use metric::{Proposal, Unmeasured, View, propose};
pub(super) use metric::{Reading, described};
use status::Report;
pub(super) use usage::{Sample, Samples, Tolerance};

/// How often each target is measured.
const PERIOD: Duration = Duration::from_secs(15);

/// Unless the autoscaler says otherwise.
const TOLERANCE: Tolerance = Tolerance { up: 0.1, down: 0.1 };

/// What is scaled, as its Scale says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) collection: String,
    pub(super) name: String,
    pub(super) uid: Option<String>,
    /// As asked for, and as observed.
    pub(super) wanted: i32,
    pub(super) observed: i32,
    pub(super) selector: String,
}

/// What has to be done for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Somebody scaled it to nothing: it is left alone.
    Disabled,
    /// Whatever is measured, it goes to this number.
    Bring {
        replicas: i32,
        why: &'static str,
    },
    Measure,
}

pub(super) fn step(autoscaler: &HorizontalPodAutoscaler, target: &Target) -> Step {
    let (minimum, maximum) = range(autoscaler);
    match target.wanted {
        0 => Step::Disabled,
        wanted if wanted > maximum => {
            Step::Bring { replicas: maximum, why: "Current number of replicas above Spec.MaxReplicas" }
        }
        wanted if wanted < minimum => {
            Step::Bring { replicas: minimum, why: "Current number of replicas below Spec.MinReplicas" }
        }
        _ => Step::Measure,
    }
}

/// Why a selector cannot be worked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BadSelector {
    Missing,
    Unreadable(String),
    /// Another autoscaler scales the same Pods.
    Ambiguous(String),
}

/// What the metrics say, and of which Pods.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) pods: Vec<Arc<Pod>>,
    /// One for each metric of the spec.
    pub(super) readings: Vec<Result<Reading, String>>,
}

/// Everything that was read about one autoscaler.
pub(super) struct Seen {
    pub(super) target: Result<Target, String>,
    /// Read only for [`Step::Measure`].
    pub(super) measured: Result<Measured, BadSelector>,
}

/// What is done, and by how much it scales: to be noted once it is done.
pub(super) struct Decision {
    pub(super) plan: Plan,
    pub(super) scales: Option<(i32, i32)>,
}

pub(super) fn plan(
    autoscaler: &HorizontalPodAutoscaler,
    seen: Seen,
    history: &mut History,
    now: Timestamp,
) -> Decision {
    let mut report = Report::of(autoscaler, now);
    let target = match seen.target {
        Ok(target) => target,
        Err(error) => {
            report.unreachable(&error);
            return Decision { plan: report.into_plan(autoscaler, Vec::new(), PERIOD), scales: None };
        }
    };
    report.reached();
    report.status.current_replicas = Some(target.wanted);
    history.begin(target.wanted, now);
    let (replicas, why) = match step(autoscaler, &target) {
        Step::Disabled => {
            report.disabled();
            (0, String::new())
        }
        Step::Bring { replicas, why } => (replicas, why.to_owned()),
        Step::Measure => match measure(autoscaler, &target, seen.measured, &mut report, now) {
            None => return Decision { plan: report.into_plan(autoscaler, Vec::new(), PERIOD), scales: None },
            Some((recommended, name)) => {
                let why = match recommended > target.wanted {
                    true => format!("{name} above target"),
                    false => "All metrics below target".to_owned(),
                };
                let (minimum, maximum) = range(autoscaler);
                let bounds = Bounds { minimum, maximum, current: target.wanted };
                let behavior = autoscaler.spec.behavior.as_ref();
                let limited = history.limit(recommended, bounds, behavior, now);
                report.limited(&limited);
                (limited.replicas, why)
            }
        },
    };
    report.status.desired_replicas = replicas;
    let scales = (replicas != target.wanted).then_some((target.wanted, replicas));
    let writes = match scales {
        Some(_) => {
            report.rescaled(replicas);
            vec![rescale(&target, replicas, &why)]
        }
        None => Vec::new(),
    };
    Decision { plan: report.into_plan(autoscaler, writes, PERIOD), scales }
}

/// The largest number that any metric proposes, and that metric's name; nothing if too few of them can be told.
fn measure(
    autoscaler: &HorizontalPodAutoscaler,
    target: &Target,
    measured: Result<Measured, BadSelector>,
    report: &mut Report,
    now: Timestamp,
) -> Option<(i32, String)> {
    report.status.current_metrics = None;
    let Measured { pods, readings } = match measured {
        Ok(measured) => measured,
        Err(error) => {
            report.bad_selector(&error);
            return None;
        }
    };
    let (wanted, observed) = (target.wanted, target.observed);
    let view = View { pods: &pods, wanted, observed, tolerance: tolerance(autoscaler), now };
    let specs = metrics(autoscaler);
    let proposals: Vec<Result<Proposal, Unmeasured>> =
        specs.iter().zip(&readings).map(|(spec, reading)| propose(spec, reading, &view)).collect();
    // One for each metric: clients find the status of a metric by its place.
    let statuses = proposals.iter().map(|proposal| match proposal {
        Ok(proposal) => proposal.status.clone(),
        Err(_) => MetricStatus::default(),
    });
    report.status.current_metrics = Some(statuses.collect());
    let (mut best, mut failures): (Option<(i32, String)>, Vec<Unmeasured>) = (None, Vec::new());
    for proposal in proposals {
        match proposal {
            Err(failure) => failures.push(failure),
            Ok(Proposal { replicas, name, .. }) if best.as_ref().is_none_or(|(most, _)| replicas > *most) => {
                best = Some((replicas, name));
            }
            Ok(_) => {}
        }
    }
    report.unmeasured(&failures);
    match (best, failures.first()) {
        // What is not known might keep the replicas that would go.
        (Some((replicas, _)), Some(failure)) if replicas < target.wanted => {
            report.inactive(failure, failures.len(), specs.len())
        }
        (None, Some(failure)) => report.inactive(failure, failures.len(), specs.len()),
        (Some(best), _) => {
            report.active(&best.1);
            return Some(best);
        }
        (None, None) => {}
    }
    None
}

fn rescale(target: &Target, replicas: i32, why: &str) -> Write {
    let patch = json!({"metadata": {"uid": target.uid}, "spec": {"replicas": replicas}});
    let write = Write {
        collection: target.collection.clone(),
        name: target.name.clone(),
        subresource: Some("scale"),
        what: What::Merge { patch },
        pace: Pace::InOrder,
        said: Said::default(),
    };
    let said = format!("New size: {replicas}; reason: {why}");
    write.warning("FailedRescale", format!("{said}; error: {{error}}")).saying("SuccessfulRescale", said)
}

pub(super) fn metrics(autoscaler: &HorizontalPodAutoscaler) -> &[MetricSpec] {
    autoscaler.spec.metrics.as_deref().unwrap_or_default()
}

/// The fewest and the most replicas.
fn range(autoscaler: &HorizontalPodAutoscaler) -> (i32, i32) {
    (autoscaler.spec.min_replicas.unwrap_or(1), autoscaler.spec.max_replicas)
}

fn tolerance(autoscaler: &HorizontalPodAutoscaler) -> Tolerance {
    let behavior = autoscaler.spec.behavior.as_ref();
    let own = |quantity: &Option<resource::Quantity>| {
        Quantity::parse(&quantity.as_ref()?.0).ok().map(|quantity| quantity.approximate())
    };
    let up = behavior.and_then(|behavior| own(&behavior.scale_up.as_ref()?.tolerance));
    let down = behavior.and_then(|behavior| own(&behavior.scale_down.as_ref()?.tolerance));
    Tolerance { up: up.unwrap_or(TOLERANCE.up), down: down.unwrap_or(TOLERANCE.down) }
}
