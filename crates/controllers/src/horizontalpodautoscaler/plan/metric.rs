//! One metric of an autoscaler: the replicas that it proposes, and what the status says of it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricStatus, MetricIdentifier, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource;
use pintle_meta::quantity::Quantity;
use pintle_runtime::owner;

use super::requests::requests;
use super::usage::{Groups, Measure, Samples, Tolerance, Usage, replicas, whole};
use crate::pods;

/// What the metrics API said about one metric, in thousandths.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Reading {
    /// Of each Pod: resources, containers' resources, and custom metrics of Pods.
    OfPods(Samples),
    /// Of another object, or from outside the cluster, where it is the sum of several series.
    Total(i64),
}

/// The target of an autoscaler, as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) pods: &'a [Arc<Pod>],
    /// As asked for, and as observed.
    pub(super) wanted: i32,
    pub(super) observed: i32,
    pub(super) tolerance: Tolerance,
    pub(super) now: Timestamp,
}

#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// As Events call the metric.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// Why a metric proposes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unmeasured {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// The same as a part of the message about all metrics.
    pub(super) told: String,
}

type Computed = Result<(i32, MetricValueStatus), String>;

/// What the metric proposes.
pub(super) fn propose(
    spec: &MetricSpec,
    reading: &Result<Reading, String>,
    view: &View<'_>,
) -> Result<Proposal, Unmeasured> {
    let failed = |reason, what: &str, message: String| {
        let told = format!("failed to get {what} metric value: {message}");
        Unmeasured { reason, message, told }
    };
    if let Some(source) = &spec.resource {
        let (replicas, current) = resource(&source.name, &source.target, None, reading, view)
            .map_err(|error| failed("FailedGetResourceMetric", &format!("{} resource", source.name), error))?;
        let name = match source.target.average_value {
            Some(_) => format!("{} resource", source.name),
            None => format!("{} resource utilization (percentage of request)", source.name),
        };
        let status = ResourceMetricStatus { name: source.name.clone(), current };
        return Ok(Proposal { replicas, name, status: status_of(spec, |all| all.resource = Some(status)) });
    }
    if let Some(source) = &spec.container_resource {
        let container = Some(source.container.as_str());
        let (replicas, current) =
            resource(&source.name, &source.target, container, reading, view).map_err(|error| {
                failed("FailedGetContainerResourceMetric", &format!("{} container", source.container), error)
            })?;
        let name = match source.target.average_value {
            Some(_) => format!("{} resource", source.name),
            None => format!("{} container resource utilization (percentage of request)", source.name),
        };
        let (resource, container) = (source.name.clone(), source.container.clone());
        let status = ContainerResourceMetricStatus { name: resource, container, current };
        return Ok(Proposal { replicas, name, status: status_of(spec, |all| all.container_resource = Some(status)) });
    }
    if let Some(source) = &spec.pods {
        let target = source.target.average_value.as_ref().map_or(0, milli);
        let (replicas, current) = of_pods(|| Ok(Measure::Average { target }), None, reading, view)
            .map(|(replicas, usage)| (replicas, average(quantity(usage.average, ""))))
            .map_err(|error| failed("FailedGetPodsMetric", "pods", error))?;
        let status = PodsMetricStatus { metric: source.metric.clone(), current };
        let name = format!("pods metric {}", source.metric.name);
        return Ok(Proposal { replicas, name, status: status_of(spec, |all| all.pods = Some(status)) });
    }
    if let Some(source) = &spec.object {
        let (object, metric) = (&source.described_object, &source.metric);
        let (replicas, current) = total(&source.target, "object", reading, view)
            .map_err(|error| failed("FailedGetObjectMetric", "object", error))?;
        let (described_object, metric) = (object.clone(), metric.clone());
        let name = format!("{} metric {}", object.kind, metric.name);
        let status = ObjectMetricStatus { described_object, metric, current };
        return Ok(Proposal { replicas, name, status: status_of(spec, |all| all.object = Some(status)) });
    }
    if let Some(source) = &spec.external {
        let metric = &source.metric;
        let (replicas, current) = total(&source.target, "external", reading, view)
            .map_err(|error| failed("FailedGetExternalMetric", &format!("{} external", metric.name), error))?;
        let name = format!("external metric {}", described(metric));
        let status = ExternalMetricStatus { metric: metric.clone(), current };
        return Ok(Proposal { replicas, name, status: status_of(spec, |all| all.external = Some(status)) });
    }
    let message = format!("unknown metric source type {:?}", spec.type_);
    Err(Unmeasured { reason: "InvalidMetricSourceType", told: message.clone(), message })
}

/// The name of an external metric and its selector, if it has one.
pub(in super::super) fn described(metric: &MetricIdentifier) -> String {
    let selector = metric.selector.as_ref().and_then(|selector| owner::parse_selector(selector).ok());
    format!("{}({})", metric.name, selector.map_or_else(|| "nil".to_owned(), |selector| selector.to_string()))
}

fn resource(
    name: &str,
    target: &MetricTarget,
    container: Option<&str>,
    reading: &Result<Reading, String>,
    view: &View<'_>,
) -> Computed {
    if let Some(value) = &target.average_value {
        let measured = of_pods(|| Ok(Measure::Average { target: milli(value) }), Some(name), reading, view);
        let (replicas, usage) = measured.map_err(|error| format!("failed to get {name} usage: {error}"))?;
        return Ok((replicas, average(quantity(usage.average, name))));
    }
    let Some(percent) = target.average_utilization else {
        return Err(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) \
                    target was set"
                .to_owned(),
        );
    };
    let measure = || {
        let requests = requests(view.pods.iter().map(Arc::as_ref), name, container)?;
        Ok(Measure::Utilization { target: percent, requests })
    };
    let measured = of_pods(measure, Some(name), reading, view);
    let (replicas, usage) = measured.map_err(|error| format!("failed to get {name} utilization: {error}"))?;
    let value = average(quantity(usage.average, name));
    Ok((replicas, MetricValueStatus { average_utilization: usage.utilization, ..value }))
}

fn of_pods(
    measure: impl FnOnce() -> Result<Measure, String>,
    resource: Option<&str>,
    reading: &Result<Reading, String>,
    view: &View<'_>,
) -> Result<(i32, Usage), String> {
    let Reading::OfPods(samples) = reading.as_ref().map_err(String::clone)? else {
        return Err("the metrics API told one value where each Pod has one".to_owned());
    };
    if view.pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    let groups = Groups::of(view.pods.iter().map(Arc::as_ref), samples, resource, view.now);
    replicas(measure, (view.wanted, view.tolerance), samples, &groups)
}

/// A metric that is not a Pod's: shared by all of them, or to be divided among them.
fn total(target: &MetricTarget, kind: &str, reading: &Result<Reading, String>, view: &View<'_>) -> Computed {
    let Reading::Total(value) = reading.as_ref().map_err(String::clone)? else {
        return Err("the metrics API told values of Pods where there is one".to_owned());
    };
    let value = *value;
    if let Some(share) = &target.average_value {
        let share = milli(share) as f64;
        let ratio = value as f64 / (share * f64::from(view.observed));
        let replicas = match view.tolerance.allows(ratio) {
            true => view.observed,
            false => whole(value as f64 / share),
        };
        let each = i64::from(view.observed.max(1));
        let each = value / each + i64::from(value % each > 0);
        return Ok((replicas, average(quantity(each, ""))));
    }
    let Some(target) = &target.value else {
        return Err(format!(
            "invalid {kind} metric source: neither a value target nor an average value target was set"
        ));
    };
    let ratio = value as f64 / milli(target) as f64;
    let replicas = match view.wanted {
        // From nothing there is nothing to multiply.
        0 => whole(ratio),
        wanted if view.tolerance.allows(ratio) => wanted,
        _ if view.pods.is_empty() => {
            let none = "no pods returned by selector while calculating replica count";
            return Err(format!("unable to calculate ready pods: {none}"));
        }
        _ => {
            let is_ready = |pod: &&Arc<Pod>| pods::phase(pod) == "Running" && pods::is_ready(pod);
            whole(ratio * view.pods.iter().filter(is_ready).count() as f64)
        }
    };
    let value = MetricValueStatus { value: Some(quantity(value, "")), ..MetricValueStatus::default() };
    Ok((replicas, value))
}

fn status_of(spec: &MetricSpec, fill: impl FnOnce(&mut MetricStatus)) -> MetricStatus {
    let mut status = MetricStatus { type_: spec.type_.clone(), ..MetricStatus::default() };
    fill(&mut status);
    status
}

fn average(value: resource::Quantity) -> MetricValueStatus {
    MetricValueStatus { average_value: Some(value), ..MetricValueStatus::default() }
}

pub(super) fn milli(quantity: &resource::Quantity) -> i64 {
    Quantity::parse(&quantity.0).map_or(0, |quantity| quantity.milli())
}

/// Thousandths as the API writes them; memory in powers of 1024.
fn quantity(milli: i64, resource: &str) -> resource::Quantity {
    resource::Quantity(match resource {
        "memory" if milli % 1000 == 0 => Quantity::from_bytes(milli / 1000).to_string(),
        _ => Quantity::from_milli(milli).to_string(),
    })
}
