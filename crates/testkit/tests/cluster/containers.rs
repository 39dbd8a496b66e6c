//! Containers that cannot be made or started: what their status says, how often they are tried, who else runs.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::api::ListParams;
use pintle_testkit::Cluster;
use serde_json::{Value, json};

fn pod(policy: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"restartPolicy": policy, "containers": [
            {"name": "bad", "image": "bad:1"}, {"name": "good", "image": "good:1"}]}})
}

async fn cluster() -> Cluster {
    let cluster = Cluster::builder().loops(&["serviceaccount", "nodelifecycle"]).start().await;
    cluster.settle().await;
    cluster
}

async fn read(cluster: &Cluster) -> Pod {
    cluster.api::<Pod>("default").get("p").await.unwrap()
}

fn container<'a>(pod: &'a Pod, name: &str) -> &'a ContainerStatus {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()).unwrap();
    statuses.iter().find(|status| status.name == name).unwrap()
}

fn waits_for(status: &ContainerStatus) -> (String, String) {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.clone()).unwrap_or_default();
    (waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default())
}

/// How often an event was seen, and one of its messages.
async fn told(cluster: &Cluster, reason: &str, container: &str) -> (i32, String) {
    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap();
    let field = format!("spec.containers{{{container}}}");
    let found = events.items.into_iter().filter(|event| {
        event.reason.as_deref() == Some(reason) && event.involved_object.field_path.as_deref() == Some(field.as_str())
    });
    let found: Vec<Event> = found.collect();
    let times = found.iter().map(|event| event.count.unwrap_or(1)).sum();
    (times, found.last().and_then(|event| event.message.clone()).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_started_says_why_and_waits_longer_each_time_while_the_others_run() {
    let cluster = cluster().await;
    cluster.create(pod("Always", json!({"simulated.pintle.dev/start-fails.bad": "true"}))).await.unwrap();
    cluster
        .eventually("the failed start to be shown", async || {
            let pod = cluster.api::<Pod>("default").get("p").await.ok()?;
            pod.status.as_ref()?.container_statuses.as_ref()?;
            (waits_for(container(&pod, "bad")).0 == "RunContainerError").then_some(())
        })
        .await;
    let shown = read(&cluster).await;
    assert!(waits_for(container(&shown, "bad")).1.contains("cannot be started"));
    cluster.settle().await;
    let pod = read(&cluster).await;
    let bad = container(&pod, "bad");
    let (reason, message) = waits_for(bad);
    assert_eq!((reason.as_str(), bad.restart_count), ("CrashLoopBackOff", 1));
    assert!(message.starts_with("back-off 10s restarting failed container=bad pod=p_default("), "{message}");
    let end = bad.last_state.as_ref().and_then(|state| state.terminated.as_ref()).unwrap();
    assert_eq!((end.reason.as_deref(), end.exit_code), (Some("StartError"), 128));
    let good = container(&pod, "good");
    assert!(good.ready && good.restart_count == 0, "the others run: {good:?}");
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    // At once, then after 10, 20, 40, 80 and 160 seconds; the next one is 300 seconds later.
    cluster.advance(Duration::from_secs(330)).await;
    let later = read(&cluster).await;
    assert_eq!(container(&later, "bad").restart_count, 6);
    assert!(waits_for(container(&later, "bad")).1.starts_with("back-off 5m0s"));
    let (failures, message) = told(&cluster, "Failed", "bad").await;
    assert_eq!((failures, message.as_str()), (7, "Error: the script says that it cannot be started"));
    assert!(told(&cluster, "BackOff", "bad").await.0 >= 6, "each wait is told");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_created_says_why_and_is_tried_again_until_it_can() {
    let cluster = cluster().await;
    cluster.create(pod("Always", json!({"simulated.pintle.dev/create-fails.bad": "3"}))).await.unwrap();
    cluster.settle().await;
    let pod = read(&cluster).await;
    let expected = ("CreateContainerError".to_owned(), "the script says that it cannot be created".to_owned());
    assert_eq!(waits_for(container(&pod, "bad")), expected);
    assert!(container(&pod, "good").ready, "the others run");
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    cluster.advance(Duration::from_secs(12)).await;
    assert_eq!(told(&cluster, "Failed", "bad").await.0, 2, "one try in ten seconds");
    cluster.advance(Duration::from_secs(30)).await;
    let pod = read(&cluster).await;
    assert!(container(&pod, "bad").ready && container(&pod, "bad").restart_count == 0);
    assert_eq!(told(&cluster, "Failed", "bad").await.0, 3);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_restarted_fails_if_it_cannot_be_started() {
    let cluster = cluster().await;
    let annotations =
        json!({"simulated.pintle.dev/start-fails.bad": "true", "simulated.pintle.dev/run-for.good": "1s"});
    cluster.create(pod("Never", annotations)).await.unwrap();
    cluster.settle().await;
    let pod = read(&cluster).await;
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Failed"));
    let state = container(&pod, "bad").state.clone().unwrap();
    let end = state.terminated.unwrap();
    assert_eq!((end.reason.as_deref(), end.exit_code), (Some("StartError"), 128));
    assert_eq!(told(&cluster, "Failed", "bad").await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_for_isolation_that_the_node_does_not_have_fails_with_the_reason() {
    let cluster = cluster().await;
    for (field, value, reason) in [
        ("hostUsers", json!(false), "PodFeatureUnsupported"),
        ("securityContext", json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "SysctlForbidden"),
        ("securityContext", json!({"supplementalGroupsPolicy": "Strict"}), "SupplementalGroupsPolicyNotSupported"),
        ("securityContext", json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}}), "AppArmor"),
    ] {
        let mut wanted = pod("Always", json!({}));
        wanted["spec"][field] = value;
        cluster.create(wanted).await.unwrap();
        cluster.settle().await;
        let refused = read(&cluster).await;
        let status = refused.status.unwrap();
        assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some(reason)), "{field}");
        assert!(status.message.unwrap_or_default().starts_with("Pod was rejected: "));
        assert!(status.container_statuses.is_none(), "nothing of it was started");
        let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
        assert!(events.iter().any(|event| event.reason.as_deref() == Some(reason)), "{reason} is told in an event");
        cluster.api::<Pod>("default").delete("p", &Default::default()).await.unwrap();
        cluster.settle().await;
    }
}
