//! Probes of every kind against real processes.

use std::path::Path;

use pintle_container::grpc::server::{self, Answer, Call, Service};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::eventually;
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

/// Where this program, put into a container, listens.
const LISTEN: &str = "PINTLE_TEST_LISTEN";

/// What the standard health check of gRPC asks for, and what it is told.
#[derive(Clone, PartialEq, prost::Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// A service is well unless there is a file of its name in /tmp.
#[derive(Clone)]
struct Services;

impl Service for Services {
    async fn answer(&self, call: Call) -> Answer {
        if call.uri().path() != "/grpc.health.v1.Health/Check" {
            return server::unknown(&call);
        }
        let answer = async |question: Question| {
            let ill = Path::new("/tmp").join(&question.service).exists();
            Ok(Health { status: if ill { 2 } else { 1 } })
        };
        server::unary(call, answer).await
    }
}

/// The server of the next test, which starts this very program in a container. Elsewhere there is nothing to serve.
#[tokio::test]
async fn serves_in_a_container() {
    let Ok(address) = std::env::var(LISTEN) else { return };
    let listener = TcpListener::bind(address).await.expect("a free port");
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(server::connection(stream, Services));
    }
}

#[tokio::test]
async fn a_grpc_server_is_ready_and_alive_for_as_long_as_it_says_so() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let program = std::env::current_exe().expect("this program");
    let libraries = ["/lib", "/lib64"].into_iter().filter(|directory| Path::new(directory).exists());
    let mounts = libraries.map(|directory| (directory, Path::new(directory))).chain([("/program", program.as_path())]);
    let (volumes, mounts): (Vec<Value>, Vec<Value>) = mounts
        .map(|(inside, outside)| {
            let name = inside.trim_start_matches('/');
            (
                json!({"name": name, "hostPath": {"path": outside}}),
                json!({"name": name, "mountPath": inside, "readOnly": true}),
            )
        })
        .unzip();
    let probe =
        |service: &str| json!({"grpc": {"port": 9000, "service": service}, "periodSeconds": 1, "failureThreshold": 1});
    cluster
        .pod(
            "grpc",
            json!({"terminationGracePeriodSeconds": 0, "volumes": volumes, "containers": [{
                "name": "c", "command": ["/program", "health::serves_in_a_container", "--exact", "--nocapture"],
                "env": [{"name": LISTEN, "value": "0.0.0.0:9000"}], "volumeMounts": mounts,
                "startupProbe": {"grpc": {"port": 9000, "service": "started"}, "periodSeconds": 1, "failureThreshold": 60},
                "readinessProbe": probe("ready"), "livenessProbe": probe("alive")}]}),
        )
        .await;
    cluster.ok("wait --for=condition=Ready pod/grpc --timeout=60s").await;
    cluster.ok("exec grpc -- touch /tmp/ready").await;
    cluster.ok("wait --for=condition=Ready=false pod/grpc --timeout=60s").await;
    let said = "Readiness probe failed: service unhealthy (responded with \"NOT_SERVING\")";
    cluster.until("get events", |events| events.contains(said)).await;
    assert_eq!(cluster.get("pod grpc").await["status"]["containerStatuses"][0]["restartCount"], 0);
    cluster.ok("exec grpc -- touch /tmp/alive").await;
    eventually("it is started again, and well", async || {
        let pod = cluster.get("pod grpc").await;
        let status = &pod["status"]["containerStatuses"][0];
        if status["restartCount"] == 1 && status["ready"] == true { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    cluster.until("get events", |events| events.contains("Liveness probe failed: service unhealthy")).await;
}
