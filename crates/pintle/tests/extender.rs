//! A scheduler extender in Go, with the types that Kubernetes publishes, against the real program: obeyed, and put up with
//! when it is slow, broken, lying or gone.

#[path = "harness/go.rs"]
mod go;
mod harness;

use harness::eventually;
use harness::program::{Place, Program};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/extender");

/// Each node has 32 CPUs: a Pod of 20 leaves no room for another one.
const LARGE: &str = "20";

/// The program, compiled; nothing if that cannot be done here.
async fn compiled(place: &Place) -> Option<PathBuf> {
    let directory = go::module(place, Path::new(SOURCES)).await?;
    let built = go::go(&directory, &["build", "-o", "extender", "."], &[]).await;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(directory.join("extender"))
}

/// An extender that runs.
struct Extender {
    child: Child,
    address: String,
}

impl Extender {
    async fn start(program: &Path, place: &Place) -> Extender {
        let mut command = Command::new(program);
        command.arg(place.path("kubeconfig")).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the extender starts");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        output.read_line(&mut line).await.expect("it says where it listens");
        Extender { child, address: line.trim().to_owned() }
    }

    /// Says what it answers from now on, and forgets how often it was called.
    async fn order(&self, orders: &str) {
        let head =
            self.ask(&format!("POST /orders HTTP/1.0\r\ncontent-length: {}\r\n\r\n{orders}", orders.len())).await;
        assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    }

    /// How often each verb was called, as JSON.
    async fn calls(&self) -> String {
        self.ask("GET /calls HTTP/1.0\r\n\r\n").await
    }

    async fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.expect("the extender listens");
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }
}

/// A cluster of two nodes whose scheduler asks the extender.
async fn cluster(place: &Place, extender: &Extender, more: &str) -> Program {
    let config = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n\
         - {{urlPrefix: 'http://{}', filterVerb: filter, prioritizeVerb: prioritize, preemptVerb: preempt,\n    \
         bindVerb: bind, weight: 100, httpTimeout: 1s, {more}}}\n",
        extender.address
    );
    std::fs::write(place.path("scheduler.yaml"), config).expect("a file");
    let file = place.path("scheduler.yaml");
    let flags = ["--ephemeral", "--nodes", "2", "--scheduler-config", file.to_str().expect("a path in UTF-8")];
    let program = place.up(&flags).await;
    let kubectl = place.kubectl();
    kubectl.until("get serviceaccount default -o name", |name| !name.is_empty()).await;
    kubectl.until("get nodes -o name", |names| names.lines().count() == 2).await;
    kubectl.ok("create priorityclass high --value=10").await;
    program
}

/// Creates a Pod that asks for so many CPUs.
async fn run(place: &Place, name: &str, cpu: &str, class: &str) {
    let overrides = format!(
        r#"{{"spec":{{"priorityClassName":"{class}","terminationGracePeriodSeconds":1,"containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
    );
    let class = if class.is_empty() { overrides.replace("\"priorityClassName\":\"\",", "") } else { overrides };
    place.kubectl().ok(&format!("run {name} --image=i --restart=Never --overrides='{class}'")).await;
}

async fn lands_on(place: &Place, name: &str, node: &str) {
    let line = format!("get pod {name} -o jsonpath={{.spec.nodeName}}");
    place.kubectl().until(&line, |found| found == node).await;
}

/// Waits until the Pod is told this.
async fn is_told(place: &Place, name: &str, reason: &str, message: &str) {
    let path = "{.status.conditions[0].reason}{\":\"}{.status.conditions[0].message}";
    let line = format!("get pod {name} -o jsonpath='{path}'");
    place.kubectl().until(&line, |found| found == format!("{reason}:{message}")).await;
}

async fn delete(place: &Place, names: &str) {
    place.kubectl().ok(&format!("delete pod {names}")).await;
}

#[tokio::test]
async fn an_extender_in_go_filters_scores_preempts_and_binds() {
    let place = Place::new();
    let Some(program) = compiled(&place).await else { return };
    for knows_nodes in [false, true] {
        let extender = Extender::start(&program, &place).await;
        let pintle = cluster(&place, &extender, &format!("nodeCacheCapable: {knows_nodes}")).await;

        extender.order(r#"{"Refused": ["node-0"]}"#).await;
        run(&place, "filtered", "1", "").await;
        lands_on(&place, "filtered", "node-1").await;
        for preferred in ["node-0", "node-1"] {
            extender.order(&format!(r#"{{"Preferred": "{preferred}"}}"#)).await;
            run(&place, preferred, "1", "").await;
            lands_on(&place, preferred, preferred).await;
        }
        // It binds, and is asked once: nothing else has written that annotation.
        let bound_by = "get pod node-1 -o jsonpath={.metadata.annotations.example\\.com/bound-by}";
        assert_eq!(place.kubectl().ok(bound_by).await, "extender");
        let calls = extender.calls().await;
        assert!(calls.ends_with("{\"bind\":1,\"filter\":1,\"prioritize\":1}\n"), "{calls}");
        place
            .kubectl()
            .until("get events -o jsonpath={.items[*].message}", |said| {
                said.contains("Successfully assigned default/node-1 to node-1")
            })
            .await;
        delete(&place, "filtered node-0 node-1").await;

        // Both nodes are full, and the extender lets Pods of one of them go.
        for (name, node) in [("first", "node-0"), ("second", "node-1")] {
            extender.order(&format!(r#"{{"Preferred": "{node}"}}"#)).await;
            run(&place, name, LARGE, "").await;
            lands_on(&place, name, node).await;
        }
        extender.order(r#"{"Mode": "lies"}"#).await;
        run(&place, "urgent", LARGE, "high").await;
        let lie = format!(
            "0/2 nodes are available: 2 Insufficient cpu. preemption: extender: http://{} claims to preempt pod (UID: &{{nobody}}) on node: node-0, but the pod is not found on that node",
            extender.address
        );
        is_told(&place, "urgent", "Unschedulable", &lie).await;
        delete(&place, "urgent").await;
        extender.order(r#"{"Only": "node-of-dreams"}"#).await;
        run(&place, "urgent", LARGE, "high").await;
        let none = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: no candidate node for preemption";
        is_told(&place, "urgent", "Unschedulable", none).await;
        delete(&place, "urgent").await;
        extender.order(r#"{"Only": "node-1"}"#).await;
        run(&place, "urgent", LARGE, "high").await;
        lands_on(&place, "urgent", "node-1").await;
        let left = place.kubectl().until("get pods -o name", |names| !names.contains("second")).await;
        assert!(left.contains("pod/first"), "{left}");
        // Nobody has to leave a node that the extender will never take.
        extender.order(r#"{"Hopeless": ["node-0"], "Refused": ["node-1"]}"#).await;
        run(&place, "unwanted", "1", "high").await;
        is_told(
            &place,
            "unwanted",
            "Unschedulable",
            "0/2 nodes are available: 1 the extender does not want it, 1 the extender never wants it. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
        )
        .await;
        drop(pintle);
        drop(extender);
    }
}

#[tokio::test]
async fn pods_wait_for_an_extender_that_fails_unless_it_may_be_ignored() {
    let place = Place::new();
    let Some(program) = compiled(&place).await else { return };
    let mut extender = Extender::start(&program, &place).await;
    let pintle = cluster(&place, &extender, "nodeCacheCapable: true").await;
    let address = extender.address.clone();
    let wrong = |verb: &str, why: &str| format!("Post \"http://{address}/{verb}\": {why}");
    for (name, orders, why) in [
        (
            "slow",
            r#"{"Mode": "slow"}"#,
            wrong("filter", "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
        ),
        (
            "unwell",
            r#"{"Mode": "unwell"}"#,
            format!("failed filter with extender at URL http://{address}/filter, code 500"),
        ),
        (
            "lied-to",
            r#"{"Mode": "lies"}"#,
            format!(
                "extender \"http://{address}\" claims a filtered node \"node-of-dreams\" which is not found in the input node list"
            ),
        ),
    ] {
        extender.order(orders).await;
        run(&place, name, "1", "").await;
        is_told(&place, name, "SchedulerError", &why).await;
        // It is well again, and the Pod is tried again without anybody's doing.
        extender.order("{}").await;
        place.kubectl().until(&format!("get pod {name} -o jsonpath={{.spec.nodeName}}"), |node| !node.is_empty()).await;
    }
    extender.child.kill().await.expect("the extender is killed");
    run(&place, "alone", "1", "").await;
    is_told(
        &place,
        "alone",
        "SchedulerError",
        &wrong("filter", &format!("dial tcp {address}: connect: connection refused")),
    )
    .await;
    drop(pintle);

    let mut extender = Extender::start(&program, &place).await;
    let _pintle = cluster(&place, &extender, "nodeCacheCapable: true, ignorable: true").await;
    extender.order(r#"{"Mode": "unwell"}"#).await;
    for name in ["first", "second"] {
        run(&place, name, LARGE, "").await;
        place.kubectl().until(&format!("get pod {name} -o jsonpath={{.spec.nodeName}}"), |node| !node.is_empty()).await;
    }
    extender.child.kill().await.expect("the extender is killed");
    // Without it room is made, and the scheduler binds itself.
    run(&place, "urgent", LARGE, "high").await;
    place.kubectl().until("get pod urgent -o jsonpath={.spec.nodeName}", |node| !node.is_empty()).await;
    eventually("one of the others has left", async || {
        let left = place.kubectl().ok("get pods -o name").await;
        if left.lines().count() == 2 { Ok(()) } else { Err(left) }
    })
    .await;
}
