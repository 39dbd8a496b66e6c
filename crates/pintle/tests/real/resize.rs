//! Pods that are given other amounts of processors and memory while they run.

use serde_json::{Value, json};

use crate::harness::eventually;
use crate::node::{Real, can_run};

/// What the kernel holds a container to, as it sees it itself: microseconds in each tenth of a second, and bytes.
async fn bounds(cluster: &Real, pod: &str, container: &str) -> (String, String) {
    let script = "cd /sys/fs/cgroup; cat cpu/cpu.cfs_quota_us 2>/dev/null || cat cpu.max; \
        cat memory/memory.limit_in_bytes 2>/dev/null || cat memory.max";
    let said = cluster.ok(&format!("exec {pod} -c {container} -- sh -c '{script}'")).await;
    let mut lines = said.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned());
    (lines.next().unwrap_or_default(), lines.next().unwrap_or_default())
}

async fn resize(cluster: &Real, pod: &str, container: &str, resources: Value) {
    let patch = json!({"spec": {"containers": [{"name": container, "resources": resources}]}}).to_string();
    cluster.ok(&format!("patch pod {pod} --subresource resize --patch '{patch}'")).await;
}

fn both(cpu: &str, memory: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": memory});
    json!({"requests": amounts, "limits": amounts})
}

fn of<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let all = pod["status"]["containerStatuses"].as_array().expect("containers");
    all.iter().find(|one| one["name"] == container).expect("the container")
}

#[tokio::test]
async fn a_pod_grows_and_shrinks_without_a_restart_unless_it_asked_for_one() {
    if !can_run() {
        return;
    }
    let mut cluster = Real::start(&[]).await;
    let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let restart = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let containers = json!([
        {"name": "a", "script": script, "resources": both("200m", "64Mi")},
        {"name": "b", "script": script, "resources": both("100m", "32Mi"), "resizePolicy": restart}]);
    cluster.pod("grows", json!({"terminationGracePeriodSeconds": 5, "containers": containers})).await;
    let before = cluster.phase("grows", "Running").await;
    assert_eq!(bounds(&cluster, "grows", "a").await, ("20000".to_owned(), (64 << 20).to_string()));

    resize(&cluster, "grows", "a", both("600m", "128Mi")).await;
    let held = |container: &'static str, wanted: Value| move |pod: &Value| of(pod, container)["resources"] == wanted;
    let grown = cluster.pod_until("grows", "a has grown", held("a", both("600m", "128Mi"))).await;
    assert_eq!(bounds(&cluster, "grows", "a").await, ("60000".to_owned(), (128 << 20).to_string()));
    assert_eq!(of(&grown, "a")["containerID"], of(&before, "a")["containerID"]);
    assert_eq!(of(&grown, "a")["allocatedResources"], both("600m", "128Mi")["requests"]);

    resize(&cluster, "grows", "a", both("300m", "80Mi")).await;
    let shrunk = cluster.pod_until("grows", "a has shrunk", held("a", both("300m", "80Mi"))).await;
    assert_eq!(bounds(&cluster, "grows", "a").await, ("30000".to_owned(), (80 << 20).to_string()));
    assert_eq!(of(&shrunk, "a")["restartCount"], 0);

    resize(&cluster, "grows", "b", both("100m", "48Mi")).await;
    let restarted = |pod: &Value| of(pod, "b")["restartCount"] == 1 && of(pod, "b")["state"]["running"].is_object();
    let restarted = cluster.pod_until("grows", "b is started anew", restarted).await;
    assert_eq!(of(&restarted, "b")["resources"], both("100m", "48Mi"));
    assert_eq!(bounds(&cluster, "grows", "b").await.1, (48 << 20).to_string());
    assert_eq!(of(&restarted, "a")["containerID"], of(&before, "a")["containerID"]);

    // What no node of this size can give is refused, and changes nothing, also for an agent that starts anew.
    let patch = json!({"spec": {"containers": [{"name": "a", "resources": both("900", "80Mi")}]}}).to_string();
    let refused = cluster.run(&format!("patch pod grows --subresource resize --patch '{patch}'")).await;
    let why = "node didn't have enough allocatable resources: cpu, requested: 900100, allocatable: ";
    assert!(refused.code == Some(1) && refused.stderr.contains(why), "{refused}");
    cluster.kill().await;
    cluster.up().await;
    let pod = cluster.phase("grows", "Running").await;
    assert_eq!(of(&pod, "a")["resources"], both("300m", "80Mi"));
    assert_eq!(of(&pod, "a")["restartCount"], 0);
    assert_eq!(bounds(&cluster, "grows", "a").await.0, "30000");
    resize(&cluster, "grows", "a", both("400m", "80Mi")).await;
    cluster.pod_until("grows", "a has grown after all", held("a", both("400m", "80Mi"))).await;
    let wanted = ["ResizeStarted", "ResizeCompleted"];
    eventually("it is told in events", async || {
        let events = cluster.ok("get events").await;
        if wanted.iter().all(|reason| events.contains(reason)) { Ok(()) } else { Err(events) }
    })
    .await;
}
