//! What the node does when it runs out of disk, and that the others do not suffer for it.

use serde_json::{Value, json};

use crate::disk::Small;
use crate::harness::program::Place;
use crate::node::{Real, can_run};

fn condition(node: &Value, kind: &str) -> String {
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    found["status"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_pod_that_fills_the_disk_is_evicted_and_its_neighbour_stays() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let _small = Small::mount(&place.path("data"), 200);
    let flags = ["--eviction-hard", "nodefs.available<80Mi", "--eviction-pressure-transition-period", "20s"];
    let cluster = Real::start_in(place, &flags).await;
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let neighbour =
        json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": "sleep 100000"}]});
    cluster.pod("neighbour", neighbour.clone()).await;
    cluster.ok("wait --for=condition=Ready pod/neighbour --timeout=60s").await;
    let fills = "head -c 130000000 /dev/zero > /data/file; sleep 100000";
    cluster
        .pod(
            "filler",
            json!({"volumes": volumes, "containers": [
                {"name": "c", "script": fills, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}),
        )
        .await;
    let evicted = cluster.phase("filler", "Failed").await;
    let status = &evicted["status"];
    assert_eq!(status["reason"], "Evicted", "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("The node was low on resource: ephemeral-storage. Threshold quantity: 80Mi, "),
        "{status}"
    );
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let disrupted = conditions.iter().any(|one| one["type"] == "DisruptionTarget" && one["status"] == "True");
    assert!(disrupted, "{status}");
    let name = evicted["spec"]["nodeName"].as_str().unwrap_or_default();
    let node = cluster.get(&format!("node {name}")).await;
    assert_eq!((condition(&node, "DiskPressure"), condition(&node, "Ready")), ("True".into(), "True".into()));
    cluster.until("get nodes -o jsonpath='{.items[0].spec.taints}'", |taints| taints.contains("disk-pressure")).await;

    // One that the scheduler did not send is not taken on while that lasts.
    let mut sent = neighbour;
    sent["nodeName"] = name.into();
    cluster.pod("late", sent).await;
    let late = cluster.phase("late", "Failed").await;
    assert_eq!(late["status"]["message"], "Pod was rejected: The node had condition: [DiskPressure]. ", "{late}");

    cluster.until("get nodes -o jsonpath='{.items[0].spec.taints}'", |taints| !taints.contains("disk-pressure")).await;
    let events = cluster.ok("get events").await;
    for reason in ["EvictionThresholdMet", "NodeHasDiskPressure", "NodeHasNoDiskPressure", "Evicted"] {
        assert!(events.contains(reason), "{reason} is missing:\n{events}");
    }
    let stayed = cluster.get("pod neighbour").await;
    let container = &stayed["status"]["containerStatuses"][0];
    assert_eq!((&container["ready"], &container["restartCount"]), (&json!(true), &json!(0)), "{container}");
}
