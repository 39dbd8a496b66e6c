//! Asks the resource, custom and external metrics APIs.

use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::{MetricIdentifier, MetricSpec, ObjectMetricSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use pintle_meta::quantity::Quantity;
use pintle_runtime::discovery::{Found, discover};
use pintle_runtime::{ApiError, owner};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::plan::{Reading, Sample, Samples, described};

const RESOURCES: &str = "/apis/metrics.k8s.io/v1beta1";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";
const CUSTOM: &str = "custom.metrics.k8s.io";

/// Of a custom metric that does not say over which time it was measured.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

pub(super) struct Metrics {
    client: Client,
    /// The kinds that metrics described, as discovery last told them.
    kinds: Mutex<Vec<Found>>,
}

/// A list of any of the three APIs.
#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Clone, Deserialize)]
struct PodMetrics {
    metadata: Named,
    timestamp: Time,
    #[serde(default)]
    window: String,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Clone, Deserialize)]
struct Named {
    name: String,
}

#[derive(Clone, Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CustomMetric {
    described_object: Named,
    timestamp: Time,
    window_seconds: Option<i64>,
    value: String,
}

#[derive(Deserialize)]
struct ExternalMetric {
    value: String,
}

impl Metrics {
    pub(super) fn new(client: Client) -> Self {
        Metrics { client, kinds: Mutex::default() }
    }

    /// One reading for each metric, of the Pods that the selector selects.
    pub(super) async fn read(
        &self,
        namespace: &str,
        specs: &[MetricSpec],
        selector: &str,
    ) -> Vec<Result<Reading, String>> {
        // One answer tells all resources.
        let of_pods = match specs.iter().any(|spec| spec.resource.is_some() || spec.container_resource.is_some()) {
            true => self.pod_metrics(namespace, selector).await,
            false => Ok(Vec::new()),
        };
        let of_resource = |resource: &str, container: Option<&str>| match &of_pods {
            Ok(metrics) => Ok(Reading::OfPods(samples(metrics, resource, container))),
            Err(error) => Err(format!("unable to get metrics for resource {resource}: {error}")),
        };
        let mut readings = Vec::new();
        for spec in specs {
            readings.push(if let Some(source) = &spec.resource {
                of_resource(&source.name, None)
            } else if let Some(source) = &spec.container_resource {
                of_resource(&source.name, Some(&source.container))
            } else if let Some(source) = &spec.pods {
                let read = self.custom_of_pods(namespace, selector, &source.metric).await;
                read.map_err(|error| format!("unable to get metric {}: {error}", source.metric.name))
            } else if let Some(source) = &spec.object {
                let ObjectMetricSource { described_object: object, metric, .. } = source;
                let what = format!("{} on {} {namespace}/{}", metric.name, object.kind, object.name);
                let read = self.custom_of_object(namespace, source).await;
                read.map_err(|error| format!("unable to get metric {what}: {error}"))
            } else if let Some(source) = &spec.external {
                let read = self.external(namespace, &source.metric).await;
                let what = format!("{namespace}/{}", described(&source.metric));
                read.map_err(|error| format!("unable to get external metric {what}: {error}"))
            } else {
                // The plan says what is wrong with it.
                Err(String::new())
            });
        }
        readings
    }

    async fn pod_metrics(&self, namespace: &str, selector: &str) -> Result<Vec<PodMetrics>, String> {
        let path = format!("{RESOURCES}/namespaces/{namespace}/pods");
        let list: List<PodMetrics> = self.get("resource", &path, &[("labelSelector", selector)]).await?;
        some(list.items, "resource")
    }

    async fn custom_of_pods(
        &self,
        namespace: &str,
        selector: &str,
        metric: &MetricIdentifier,
    ) -> Result<Reading, String> {
        let path = format!("namespaces/{namespace}/pods/*/{}", metric.name);
        let items = self.custom(&path, &[("labelSelector", selector)], metric).await?;
        let samples = items.into_iter().map(|item| {
            let window = item.window_seconds.map_or(WINDOW, SignedDuration::from_secs);
            let value = milli(&item.value)?;
            Ok((item.described_object.name, Sample { value, at: item.timestamp.0, window }))
        });
        Ok(Reading::OfPods(samples.collect::<Result<_, String>>()?))
    }

    async fn custom_of_object(&self, namespace: &str, source: &ObjectMetricSource) -> Result<Reading, String> {
        let (object, metric) = (&source.described_object, &source.metric);
        let group = object.api_version.as_deref().and_then(|version| version.rsplit_once('/'));
        let group = group.map_or("", |(group, _)| group);
        let path = match (group, object.kind.as_str()) {
            // Its own one: a reference does not lead out of the namespace.
            ("", "Namespace") => format!("namespaces/{namespace}/metrics/{}", metric.name),
            (group, kind) => {
                let resource = self.plural(group, kind).await?;
                let separator = if group.is_empty() { "" } else { "." };
                format!("namespaces/{namespace}/{resource}{separator}{group}/{}/{}", object.name, metric.name)
            }
        };
        let mut items = self.custom(&path, &[], metric).await?;
        match (items.len(), items.pop()) {
            (1, Some(item)) => Ok(Reading::Total(milli(&item.value)?)),
            (number, _) => Err(format!("the custom metrics API returned {number} values where there is one")),
        }
    }

    /// Of the newest version of the API that there is.
    async fn custom(
        &self,
        path: &str,
        query: &[(&str, &str)],
        metric: &MetricIdentifier,
    ) -> Result<Vec<CustomMetric>, String> {
        let selector = selector_of(metric)?;
        let selector = selector.as_deref().map(|selector| ("metricLabelSelector", selector));
        let query: Vec<(&str, &str)> = query.iter().copied().chain(selector).collect();
        let newest: Result<serde_json::Value, _> = self.get("custom", &format!("/apis/{CUSTOM}/v1beta2"), &[]).await;
        let version = if newest.is_ok() { "v1beta2" } else { "v1beta1" };
        let list: List<CustomMetric> = self.get("custom", &format!("/apis/{CUSTOM}/{version}/{path}"), &query).await?;
        some(list.items, "custom")
    }

    /// The sum of all series.
    async fn external(&self, namespace: &str, metric: &MetricIdentifier) -> Result<Reading, String> {
        let selector = selector_of(metric)?;
        let query: Vec<(&str, &str)> =
            selector.as_deref().map(|selector| ("labelSelector", selector)).into_iter().collect();
        let path = format!("{EXTERNAL}/namespaces/{namespace}/{}", metric.name);
        let list: List<ExternalMetric> = self.get("external", &path, &query).await?;
        let values = some(list.items, "external")?;
        let total =
            values.iter().try_fold(0_i64, |sum, one| Ok::<_, String>(sum.saturating_add(milli(&one.value)?)))?;
        Ok(Reading::Total(total))
    }

    async fn plural(&self, group: &str, kind: &str) -> Result<String, String> {
        let find = |known: &[Found]| {
            let found = known.iter().find(|found| found.resource.group == group && found.resource.kind == kind)?;
            Some(found.resource.plural.clone())
        };
        let known = find(&self.kinds.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(known) = known {
            return Ok(known);
        }
        let fresh = discover(&self.client).await.map_err(|error| error.server_message())?;
        let found = find(&fresh);
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        found.ok_or_else(|| format!("unable to map kind {kind:?} in group {group:?} to resource"))
    }

    async fn get<T: DeserializeOwned>(&self, api: &str, path: &str, query: &[(&str, &str)]) -> Result<T, String> {
        let mut uri = path.to_owned();
        for (index, (name, value)) in query.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            uri.push_str(&format!("{separator}{name}={}", escaped(value)));
        }
        let failed = |error: String| format!("unable to fetch metrics from {api} metrics API: {error}");
        let request = http::Request::get(uri).header(http::header::ACCEPT, "application/json").body(Vec::new());
        let request = request.map_err(|error| failed(error.to_string()))?;
        self.client.request::<T>(request).await.map_err(|error| failed(error.server_message()))
    }
}

fn some<T>(items: Vec<T>, api: &str) -> Result<Vec<T>, String> {
    match items.is_empty() {
        true => Err(format!("no metrics returned from {api} metrics API")),
        false => Ok(items),
    }
}

/// The sum over a Pod's containers, all of which must be known, or what one container uses.
fn samples(metrics: &[PodMetrics], resource: &str, container: Option<&str>) -> Samples {
    let usage = |one: &ContainerMetrics| milli(one.usage.get(resource)?).ok();
    let sample = |pod: &PodMetrics| {
        let chosen = pod.containers.iter().filter(|one| container.is_none_or(|name| one.name == name));
        let values: Option<Vec<i64>> = chosen.map(usage).collect();
        let values = values.filter(|values| !values.is_empty())?;
        let value = values.into_iter().fold(0, i64::saturating_add);
        Some((pod.metadata.name.clone(), Sample { value, at: pod.timestamp.0, window: window(&pod.window) }))
    };
    metrics.iter().filter_map(sample).collect()
}

/// A duration as Go writes it, `10s` or `1m30s`.
fn window(text: &str) -> SignedDuration {
    text.parse().unwrap_or(WINDOW)
}

fn milli(text: &str) -> Result<i64, String> {
    Quantity::parse(text).map(|quantity| quantity.milli()).map_err(|error| format!("{text:?}: {error}"))
}

fn selector_of(metric: &MetricIdentifier) -> Result<Option<String>, String> {
    let parsed = metric.selector.as_ref().map(owner::parse_selector).transpose().map_err(|error| error.to_string())?;
    Ok(parsed.filter(|selector| !selector.selects_all()).map(|selector| selector.to_string()))
}

/// As a value in a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
