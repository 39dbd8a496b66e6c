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

fn running_since(status: &ContainerStatus) -> Option<String> {
    let running = status.state.as_ref()?.running.as_ref()?;
    Some(format!("{:?}", running.started_at))
}

#[tokio::test(start_paused = true)]
async fn containers_of_a_dead_sandbox_are_killed_and_replaced_in_a_new_one() {
    let cluster = cluster().await;
    cluster.create(pod("Always", json!({}))).await.unwrap();
    cluster.settle().await;
    let before = read(&cluster).await;
    assert!(container(&before, "good").ready);
    let uid = before.metadata.uid.clone().unwrap();
    let node = before.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap();
    cluster.machine(&node).unwrap().lose_sandbox(&uid);
    cluster.settle().await;
    let after = read(&cluster).await;
    for name in ["good", "bad"] {
        let status = container(&after, name);
        assert!(status.ready && status.restart_count == 1, "{status:?}");
    }
    let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap();
    assert_ne!(address(&before), address(&after), "it has a sandbox of its own again");
    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    let told: Vec<_> = events.iter().filter(|event| event.reason.as_deref() == Some("SandboxChanged")).collect();
    let expected = "Pod sandbox changed, it will be killed and re-created.";
    assert_eq!(told.iter().map(|event| event.message.as_deref()).collect::<Vec<_>>(), [Some(expected)]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_image_restarts_that_container_and_no_other() {
    let cluster = cluster().await;
    cluster.create(pod("Always", json!({}))).await.unwrap();
    cluster.settle().await;
    let before = read(&cluster).await;
    let patch = json!({"spec": {"containers": [{"name": "bad", "image": "bad:2"}]}});
    let pods = cluster.api::<Pod>("default");
    pods.patch("p", &Default::default(), &kube::api::Patch::Strategic(patch)).await.unwrap();
    cluster.settle().await;
    let after = read(&cluster).await;
    let (changed, other) = (container(&after, "bad"), container(&after, "good"));
    assert_eq!((changed.image.as_str(), changed.restart_count, changed.ready), ("bad:2", 1, true));
    assert_eq!(running_since(other), running_since(container(&before, "good")));
    let (times, message) = told(&cluster, "Killing", "bad").await;
    assert_eq!((times, message.as_str()), (1, "Container bad definition changed, will be restarted"));
}

#[tokio::test(start_paused = true)]
async fn an_image_name_that_cannot_be_is_told_and_a_better_one_is_taken() {
    let cluster = cluster().await;
    let mut wanted = pod("Always", json!({}));
    wanted["spec"]["containers"][0]["image"] = json!("Bad:1");
    cluster.create(wanted).await.unwrap();
    cluster.settle().await;
    let pod = read(&cluster).await;
    let (reason, message) = waits_for(container(&pod, "bad"));
    let why = "couldn't parse image name \"Bad:1\": invalid reference format: repository name (Bad) must be lowercase";
    let expected = format!("Failed to apply default image tag \"Bad:1\": {why}");
    assert_eq!((reason.as_str(), message.as_str()), ("InvalidImageName", expected.as_str()));
    assert!(container(&pod, "good").ready, "the others run");
    assert_eq!(told(&cluster, "InspectFailed", "bad").await.1, expected);
    assert_eq!(told(&cluster, "Failed", "bad").await.1, "Error: InvalidImageName");

    let patch = json!({"spec": {"containers": [{"name": "bad", "image": "fine:1"}]}});
    let pods = cluster.api::<Pod>("default");
    pods.patch("p", &Default::default(), &kube::api::Patch::Strategic(patch)).await.unwrap();
    cluster.settle().await;
    assert!(container(&read(&cluster).await, "bad").ready);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_is_tried_less_and_less_often_for_all_of_the_pods_containers() {
    let cluster = cluster().await;
    let mut wanted = pod("Always", json!({"simulated.pintle.dev/pull-fails": "true"}));
    wanted["spec"]["containers"][1]["image"] = json!("bad:1");
    cluster.create(wanted).await.unwrap();
    cluster.advance(Duration::from_secs(5)).await;
    let pod = read(&cluster).await;
    for name in ["bad", "good"] {
        let (reason, message) = waits_for(container(&pod, name));
        assert_eq!(reason, "ImagePullBackOff", "{name}");
        assert!(message.starts_with("Back-off pulling image \"bad:1\": ErrImagePull: "), "{message}");
    }
    assert_eq!(told(&cluster, "BackOff", "bad").await.1, "Back-off pulling image \"bad:1\"");
    // At once, then after 10, 20 and 40 seconds; the next one is 80 seconds later.
    cluster.advance(Duration::from_secs(95)).await;
    let pulls = told(&cluster, "Pulling", "bad").await.0 + told(&cluster, "Pulling", "good").await.0;
    assert_eq!(pulls, 4);
    // Another image has failed at nothing yet.
    let patch = json!({"metadata": {"annotations": {"simulated.pintle.dev/pull-fails": null}},
        "spec": {"containers": [{"name": "bad", "image": "fine:1"}]}});
    let pods = cluster.api::<Pod>("default");
    pods.patch("p", &Default::default(), &kube::api::Patch::Strategic(patch)).await.unwrap();
    cluster.settle().await;
    let pod = read(&cluster).await;
    assert!(container(&pod, "bad").ready);
    assert_eq!(waits_for(container(&pod, "good")).0, "ImagePullBackOff", "this one still waits");
}

#[tokio::test(start_paused = true)]
async fn a_containers_own_restart_policy_comes_before_the_pods() {
    let cluster = cluster().await;
    let mut wanted = pod("Never", json!({"simulated.pintle.dev/fail-times.bad": "2"}));
    wanted["spec"]["containers"][0]["restartPolicy"] = json!("OnFailure");
    cluster.create(wanted).await.unwrap();
    cluster.advance(Duration::from_secs(30)).await;
    let pod = read(&cluster).await;
    assert!(container(&pod, "bad").ready && container(&pod, "bad").restart_count == 2, "{:?}", container(&pod, "bad"));
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_rule_says_so_restarts_all_of_its_pod() {
    let cluster = cluster().await;
    let annotations = json!({"simulated.pintle.dev/fail-times.bad": "1", "simulated.pintle.dev/exit-code.bad": "88"});
    let mut wanted = pod("Never", annotations);
    let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]);
    wanted["spec"]["containers"][0]["restartPolicy"] = json!("Never");
    wanted["spec"]["containers"][0]["restartPolicyRules"] = rule;
    cluster.create(wanted).await.unwrap();
    cluster.advance(Duration::from_secs(30)).await;
    let pod = read(&cluster).await;
    for name in ["bad", "good"] {
        let status = container(&pod, name);
        assert!(status.ready && status.restart_count == 1, "{status:?}");
    }
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let conditions = status.conditions.as_ref().unwrap();
    let told = conditions.iter().find(|condition| condition.type_ == "AllContainersRestarting").unwrap();
    assert_eq!(told.status, "False", "it is over");
}
