//! Probes of every kind against real processes.

use serde_json::json;

use crate::node::{Real, can_run};

#[tokio::test]
async fn a_pod_is_ready_when_its_server_answers_and_no_longer_when_that_fails() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let serve = "mkdir /tmp/www; echo ok > /tmp/www/index.html; sleep 1; exec httpd -f -p 8080 -h /tmp/www";
    let probe = |what: serde_json::Value| {
        let mut probe = what;
        probe["periodSeconds"] = json!(1);
        probe["failureThreshold"] = json!(1);
        probe
    };
    cluster
        .pod(
            "web",
            json!({"containers": [
                {"name": "http", "script": serve, "ports": [{"name": "web", "containerPort": 8080}],
                 "readinessProbe": probe(json!({"httpGet": {"path": "/index.html", "port": "web"}}))},
                {"name": "tcp", "script": "sleep 100000", "readinessProbe": probe(json!({"tcpSocket": {"port": 8080}}))}]}),
        )
        .await;
    cluster.ok("wait --for=condition=Ready pod/web --timeout=60s").await;
    cluster.until("get events", |events| events.contains("Readiness probe failed: Get")).await;
    let pod = cluster.get("pod web").await;
    // The file goes, and with it the answer.
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().expect("an id").replace("containerd://", "");
    let socket = cluster.place.path("data/node/containerd/containerd.sock");
    let removed = std::process::Command::new("ctr")
        .arg("-a")
        .arg(socket)
        .args(["-n", "k8s.io", "tasks", "exec", "--exec-id", "x", &id, "rm", "/tmp/www/index.html"])
        .status();
    assert!(removed.is_ok_and(|status| status.success()));
    cluster.ok("wait --for=condition=Ready=false pod/web --timeout=60s").await;
    cluster.until("get events", |events| events.contains("HTTP probe failed with statuscode: 404")).await;
}

#[tokio::test]
async fn a_container_that_is_no_longer_alive_is_restarted() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster
        .pod(
            "sick",
            json!({"terminationGracePeriodSeconds": 1, "containers": [{"name": "c",
                "script": "touch /tmp/well; sleep 2; rm /tmp/well; sleep 100000",
                "livenessProbe": {"exec": {"command": ["cat", "/tmp/well"]}, "periodSeconds": 1, "failureThreshold": 2}}]}),
        )
        .await;
    let pod =
        cluster.pod_until("sick", "restarted", |pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 137);
    let events = cluster.until("get events", |events| events.contains("Liveness probe failed")).await;
    assert!(events.contains("Container c failed liveness probe, will be restarted"), "{events}");
}
