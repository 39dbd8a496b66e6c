//! As many replicas as the load needs: a Deployment, its Pods on simulated nodes, what they use, and the metrics APIs.

use futures::future::BoxFuture;
use http::Response;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use pintle_apiserver::ApiServer;
use pintle_apiserver::backend::{Backend, Listed, Offered};
use pintle_apiserver::body::Body;
use pintle_apiserver::call::Call;
use pintle_apiserver::notes::Notes;
use pintle_apiserver::request::Sent;
use pintle_meta::Status;
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn deployment(replicas: u32) -> Value {
    let requests = json!({"cpu": "1", "memory": "64Mi"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": {"simulated.pintle.dev/memory": "64Mi"}},
            "spec": {"terminationGracePeriodSeconds": 1,
                "containers": [{"name": "web", "image": "web:1", "resources": {"requests": requests}}]}}}})
}

fn autoscaler(name: &str, change: Value) -> Value {
    let mut spec = json!({"minReplicas": 1, "maxReplicas": 10,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}}]});
    for (key, value) in change.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec})
}

async fn replicas(cluster: &Cluster) -> i32 {
    cluster.api::<Deployment>("default").get("web").await.unwrap().spec.unwrap().replicas.unwrap()
}

/// So much CPU is shared by all Pods, for so long; a new Pod takes its share after a few seconds.
async fn load(cluster: &Cluster, cpu_milli: u64, seconds: u64) {
    for _ in 0..seconds / 5 {
        let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items;
        for pod in &pods {
            let machine = pod.spec.as_ref().and_then(|spec| cluster.machine(spec.node_name.as_deref()?));
            if let Some(machine) = machine {
                machine.use_cpu(&pod.uid().unwrap(), cpu_milli / pods.len() as u64);
            }
        }
        cluster.advance(5 * SECOND).await;
    }
}

async fn condition(cluster: &Cluster, name: &str, kind: &str) -> (String, String) {
    let autoscaler = cluster.api::<HorizontalPodAutoscaler>("default").get(name).await.unwrap();
    let conditions = autoscaler.status.unwrap_or_default().conditions.unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.type_ == kind);
    found.map(|found| (found.reason.unwrap(), found.message.unwrap())).unwrap_or_default()
}

async fn told(cluster: &Cluster, reason: &str) -> Vec<String> {
    let mut events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
    events.into_iter().map(|event| event.message.unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_the_load_up_and_five_minutes_later_down() {
    let cluster = Cluster::builder().nodes(2).usage().start().await;
    cluster.create(deployment(1)).await.unwrap();
    load(&cluster, 500, 600).await;
    cluster.create(autoscaler("web", json!({}))).await.unwrap();
    load(&cluster, 500, 60).await;
    assert_eq!(replicas(&cluster).await, 1, "at its target nothing is done");
    load(&cluster, 3000, 300).await;
    assert_eq!(replicas(&cluster).await, 6, "six Pods at half a CPU each");
    let status = cluster.api::<HorizontalPodAutoscaler>("default").get("web").await.unwrap().status.unwrap();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(6), 6));
    let metric = status.current_metrics.unwrap()[0].resource.clone().unwrap();
    assert_eq!(
        (metric.current.average_utilization, metric.current.average_value.unwrap().0),
        (Some(50), "500m".into())
    );
    let message = "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)";
    assert_eq!(condition(&cluster, "web", "ScalingActive").await, ("ValidMetricFound".into(), message.into()));

    load(&cluster, 600, 270).await;
    assert_eq!(replicas(&cluster).await, 6, "a dip of less than five minutes changes nothing");
    assert_eq!(condition(&cluster, "web", "AbleToScale").await.0, "ScaleDownStabilized");
    load(&cluster, 600, 120).await;
    assert_eq!(replicas(&cluster).await, 2);
    let up = "reason: cpu resource utilization (percentage of request) above target";
    let told = told(&cluster, "SuccessfulRescale").await;
    assert!(told[0].starts_with("New size: 4") && told[0].ends_with(up), "{told:?}");
    assert_eq!(told.last().unwrap(), "New size: 2; reason: All metrics below target");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_scaled_that_cannot_be_measured() {
    let cluster = Cluster::builder().usage().start().await;
    cluster.create(deployment(3)).await.unwrap();
    cluster.create(autoscaler("web", json!({}))).await.unwrap();
    cluster.settle().await;
    // Nobody is asked for what is not there.
    cluster
        .create(autoscaler(
            "lost",
            json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"}}),
        ))
        .await
        .unwrap();
    cluster
        .create(autoscaler("odd", json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Dream", "name": "web"}})))
        .await
        .unwrap();
    cluster
        .create(autoscaler("none", json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}})))
        .await
        .unwrap();
    cluster.advance(20 * SECOND).await;
    let able = async |name: &str| condition(&cluster, name, "AbleToScale").await;
    assert_eq!(able("lost").await.0, "FailedGetScale");
    assert!(able("odd").await.1.ends_with("no matches for kind \"Dream\" in group \"apps\""));
    assert!(able("none").await.1.contains("configmaps"));
    // Two of one Deployment: which of them is to be believed?
    cluster.create(autoscaler("second", json!({}))).await.unwrap();
    cluster.advance(40 * SECOND).await;
    for name in ["web", "second"] {
        assert_eq!(condition(&cluster, name, "ScalingActive").await.0, "AmbiguousSelector");
    }
    assert!(!told(&cluster, "AmbiguousSelector").await.is_empty());
    // Somebody scales to nothing by hand: that is respected.
    let nothing = Patch::Merge(json!({"spec": {"replicas": 0}}));
    cluster.api::<Deployment>("default").patch("web", &PatchParams::default(), &nothing).await.unwrap();
    cluster.advance(60 * SECOND).await;
    assert_eq!(
        (replicas(&cluster).await, condition(&cluster, "web", "ScalingActive").await.0),
        (0, "ScalingDisabled".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_scaled_within_its_range_like_any_other() {
    let cluster = Cluster::builder().usage().start().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}}}}});
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector"});
    cluster
        .create(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crews.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "crews", "kind": "Crew"}, "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": schema, "subresources": {"status": {}, "scale": scale}}]}}))
        .await
        .unwrap();
    cluster.settle().await;
    let crew = json!({"apiVersion": "example.com/v1", "kind": "Crew",
        "metadata": {"name": "blue", "namespace": "default"}, "spec": {"size": 12}});
    cluster.create(crew).await.unwrap();
    let target = json!({"scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Crew", "name": "blue"}});
    cluster.create(autoscaler("crew", target)).await.unwrap();
    cluster.settle().await;
    let path = "/apis/example.com/v1/namespaces/default/crews/blue/scale";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let scale: Value = cluster.client().request(request).await.unwrap();
    assert_eq!(scale["spec"]["replicas"], 10);
    assert_eq!(
        told(&cluster, "SuccessfulRescale").await,
        ["New size: 10; reason: Current number of replicas above Spec.MaxReplicas"]
    );
    cluster.advance(20 * SECOND).await;
    assert_eq!(condition(&cluster, "crew", "ScalingActive").await.0, "InvalidSelector", "it does not tell its Pods");
}

/// An adapter of custom or external metrics: one value for everything, in thousandths.
struct Adapter {
    group: &'static str,
    version: &'static str,
    value: Arc<AtomicI64>,
}

impl Backend for Adapter {
    fn group(&self) -> &str {
        self.group
    }

    fn version(&self) -> &str {
        self.version
    }

    fn resources(&self) -> Vec<Offered> {
        ["pods", "queue", "services"]
            .map(|name| {
                let verbs = vec!["get".to_owned(), "list".to_owned()];
                let (name, kind) = (name.to_owned(), "MetricValueList".to_owned());
                Offered::Listed(Listed { name, kind, namespaced: true, verbs, schema: json!({"type": "object"}) })
            })
            .into()
    }

    fn answer<'a>(
        &'a self,
        server: &'a ApiServer,
        call: &'a Call,
        _: Sent,
        _: &'a Notes,
    ) -> BoxFuture<'a, Result<Response<Body>, Status>> {
        Box::pin(async move {
            let value = format!("{}m", self.value.load(Ordering::Relaxed));
            let time = server.registry.clock.now_rfc3339();
            let item = |name: &str| {
                json!({"describedObject": {"name": name}, "metric": {"name": "m"},
                "timestamp": time, "value": value, "metricName": "m", "metricLabels": {}})
            };
            let items: Vec<Value> = match call.path.resource.as_str() {
                "pods" => {
                    assert_eq!((call.path.name.as_str(), call.path.subresource.as_str()), ("*", "requests"));
                    assert_eq!(call.query.get("labelSelector"), "app=web");
                    let prefix = pintle_apiserver::keys::namespace(pintle_apiserver::keys::PODS, "default");
                    let page = server.registry.store.range(pintle_store::Range::prefix(prefix)).await.unwrap();
                    let pods = page.entries.iter().map(|entry| serde_json::from_slice::<Value>(&entry.value).unwrap());
                    pods.map(|pod| item(pod["metadata"]["name"].as_str().unwrap())).collect()
                }
                "queue" => {
                    assert_eq!(call.query.get("labelSelector"), "of=mail");
                    vec![item(""), item("")]
                }
                _ => vec![item("web")],
            };
            let body = json!({"kind": "MetricValueList", "metadata": {}, "items": items}).to_string();
            Ok(Response::builder()
                .header("content-type", "application/json")
                .body(Body::from(bytes::Bytes::from(body)))
                .unwrap())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_what_an_adapter_tells_of_pods_objects_and_the_world_outside() {
    let value = |value: &str| json!({"type": "Value", "value": value});
    let average = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let metric = json!({"name": "requests"});
    let service = json!({"apiVersion": "v1", "kind": "Service", "name": "web"});
    let queue = json!({"name": "queue", "selector": {"matchLabels": {"of": "mail"}}});
    // The API, the metric, and how many replicas 20 units make of two.
    let cases = [
        (
            "custom.metrics.k8s.io",
            "v1beta1",
            json!({"type": "Pods", "pods": {"metric": metric, "target": average("10")}}),
            4,
        ),
        (
            "custom.metrics.k8s.io",
            "v1beta2",
            json!({"type": "Pods", "pods": {"metric": metric, "target": average("8")}}),
            5,
        ),
        (
            "custom.metrics.k8s.io",
            "v1beta2",
            json!({"type": "Object", "object": {"describedObject": service, "metric": metric, "target": value("7")}}),
            6,
        ),
        // Two series.
        (
            "external.metrics.k8s.io",
            "v1beta1",
            json!({"type": "External", "external": {"metric": queue, "target": average("5")}}),
            8,
        ),
    ];
    for (group, version, metric, after) in cases {
        let cluster = Cluster::builder().start().await;
        let told = Arc::new(AtomicI64::new(20_000));
        let adapter: Arc<dyn Backend> = Arc::new(Adapter { group, version, value: told.clone() });
        cluster.server.registry.catalogue.amend(|catalogue| catalogue.add(&adapter)).await;
        cluster.create(deployment(2)).await.unwrap();
        cluster.settle().await;
        let free = json!({"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]});
        let change =
            json!({"metrics": [metric], "behavior": {"scaleUp": free, "scaleDown": {"stabilizationWindowSeconds": 0}}});
        cluster.create(autoscaler("web", change)).await.unwrap();
        cluster.settle().await;
        assert_eq!(
            replicas(&cluster).await,
            after,
            "{metric}: {:?}",
            condition(&cluster, "web", "ScalingActive").await
        );
        told.store(0, Ordering::Relaxed);
        cluster.advance(30 * SECOND).await;
        assert_eq!(replicas(&cluster).await, 1, "{metric}");
    }
}
