//! Pods that others bind to a node: it takes on those that fit, and says why it refuses the others.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};

async fn cluster() -> Cluster {
    let loops = ["serviceaccount", "nodelifecycle"];
    let cluster = Cluster::builder().loops(&loops).scheduler(false).start().await;
    cluster.settle().await;
    cluster
}

fn bound(name: &str, spec: Value) -> Value {
    let mut whole = json!({"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": whole})
}

fn asking(cpu: &str) -> Value {
    json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}])
}

/// Phase, reason and message.
async fn told(cluster: &Cluster, name: &str) -> (String, String, String) {
    let pod = cluster.api::<Pod>("default").get(name).await.unwrap();
    let status = pod.status.unwrap_or_default();
    (status.phase.unwrap_or_default(), status.reason.unwrap_or_default(), status.message.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_node_refuses_whoever_does_not_fit_and_says_why() {
    let cluster = cluster().await;
    let nodes = kube::Api::<Node>::all(cluster.client());
    let cordoned = json!({"spec": {"taints": [{"key": "away", "effect": "NoExecute"}]}});
    cluster.create(bound("first", json!({"containers": asking("20")}))).await.unwrap();
    cluster.settle().await;
    assert_eq!(told(&cluster, "first").await.0, "Running");
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
    cluster.create(bound("web", json!({"containers": port}))).await.unwrap();
    cluster.settle().await;
    for (name, spec, reason, message) in [
        (
            "large",
            json!({"containers": asking("20")}),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 20000, used: 20000, capacity: 32000",
        ),
        (
            "port",
            json!({"containers": port}),
            "NodePorts",
            "node(s) didn't have free ports for the requested pod ports",
        ),
        (
            "picky",
            json!({"nodeSelector": {"disk": "ssd"}}),
            "NodeAffinity",
            "node(s) didn't match Pod's node affinity/selector",
        ),
        ("other", json!({"os": {"name": "windows"}}), "PodOSNotSupported", "OS field doesn't match node OS"),
    ] {
        cluster.create(bound(name, spec)).await.unwrap();
        cluster.settle().await;
        let (phase, why, said) = told(&cluster, name).await;
        assert_eq!((phase.as_str(), why.as_str()), ("Failed", reason), "{name}: {said}");
        assert!(said.starts_with("Pod was rejected: ") && said.contains(message), "{name}: {said}");
    }
    // What a Pod held is free when it is gone.
    cluster.api::<Pod>("default").delete("first", &Default::default()).await.unwrap();
    cluster.advance(Duration::from_secs(40)).await;
    cluster.create(bound("again", json!({"containers": asking("20")}))).await.unwrap();
    cluster.settle().await;
    assert_eq!(told(&cluster, "again").await.0, "Running");

    nodes.patch("node-0", &PatchParams::default(), &Patch::Merge(cordoned)).await.unwrap();
    cluster.create(bound("late", json!({"tolerations": []}))).await.unwrap();
    cluster.settle().await;
    // Nothing of it ran before the loop that evicts sent it away.
    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    let of_late = events.iter().filter(|event| event.involved_object.name.as_deref() == Some("late"));
    let reasons: Vec<&str> = of_late.filter_map(|event| event.reason.as_deref()).collect();
    assert!(reasons.contains(&"TaintToleration") && !reasons.contains(&"Started"), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_takes_the_place_of_others() {
    let cluster = cluster().await;
    for (name, cpu) in [("large", "20"), ("small", "5")] {
        cluster.create(bound(name, json!({"containers": asking(cpu)}))).await.unwrap();
    }
    cluster.settle().await;
    let critical = json!({"containers": asking("10"), "priorityClassName": "system-node-critical"});
    let mut critical = bound("critical", critical);
    critical["metadata"]["namespace"] = json!("kube-system");
    cluster.create(critical).await.unwrap();
    cluster.advance(Duration::from_secs(60)).await;
    let pod = cluster.api::<Pod>("kube-system").get("critical").await.unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(told(&cluster, "large").await.0, "Running", "the smaller one is enough");
    let (phase, reason, message) = told(&cluster, "small").await;
    assert_eq!((phase.as_str(), reason.as_str()), ("Failed", "Preempting"));
    assert_eq!(message, "Preempted in order to admit critical pod");
    let gone = cluster.api::<Pod>("default").get("small").await.unwrap().status.unwrap();
    let told = gone.conditions.unwrap().into_iter().find(|condition| condition.type_ == "DisruptionTarget").unwrap();
    assert_eq!(told.message.as_deref(), Some("Pod was preempted by Kubelet to accommodate a critical pod."));
    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("Preempting")));
}
