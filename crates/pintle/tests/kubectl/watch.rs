//! get -w, wait and events: what happens while one looks.

use super::{Cluster, assert_says, squeezed};
use crate::harness::PATIENCE;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

/// A kubectl that goes on printing.
struct Stream {
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
    _child: Child,
}

impl Stream {
    fn open(cluster: &Cluster, line: &str) -> Stream {
        let mut child = cluster.command(line).stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Stream { lines, seen: Vec::new(), _child: child }
    }

    /// Reads until a line has all of these words; lines between are passed over.
    async fn until(&mut self, words: &[&str]) {
        let found = tokio::time::timeout(PATIENCE, async {
            while let Some(line) = self.lines.next_line().await.expect("kubectl's output") {
                let fits = words.iter().all(|word| line.split_whitespace().any(|w| w == *word));
                self.seen.push(line);
                if fits {
                    return true;
                }
            }
            false
        })
        .await;
        assert_eq!(found, Ok(true), "no line with {words:?} in:\n{}", self.seen.join("\n"));
    }
}

#[tokio::test]
async fn get_watch_prints_each_change() {
    let cluster = Cluster::start().await;
    cluster.ok("create configmap first").await;
    let mut stream = Stream::open(&cluster, "get configmaps -w --output-watch-events");
    stream.until(&["EVENT", "NAME", "DATA", "AGE"]).await;
    stream.until(&["ADDED", "first", "0"]).await;
    cluster.ok("create configmap second --from-literal=a=1").await;
    stream.until(&["ADDED", "second", "1"]).await;
    cluster.ok(r#"patch configmap second --type=merge -p {"data":{"b":"2"}}"#).await;
    stream.until(&["MODIFIED", "second", "2"]).await;
    cluster.ok("delete configmap second").await;
    stream.until(&["DELETED", "second", "2"]).await;
}

#[tokio::test]
async fn get_watch_follows_a_pod_from_start_to_end() {
    let cluster = Cluster::start().await;
    cluster.ok("run earlier --image=nginx").await;
    let mut stream = Stream::open(&cluster, "get pods -w");
    stream.until(&["NAME", "READY", "STATUS", "RESTARTS", "AGE"]).await;
    // From this row on the watch misses nothing.
    stream.until(&["earlier"]).await;
    cluster.ok("run web --image=nginx --annotations=simulated.pintle.dev/start-delay=200ms").await;
    stream.until(&["web", "0/1", "Pending"]).await;
    stream.until(&["web", "0/1", "ContainerCreating"]).await;
    stream.until(&["web", "1/1", "Running"]).await;
    cluster.ok("delete pod web --wait=false").await;
    stream.until(&["web", "Terminating"]).await;
}

#[tokio::test]
async fn get_watch_prints_a_field_as_it_changes() {
    let cluster = Cluster::with_web().await;
    let mut stream = Stream::open(&cluster, r#"get deployment web -w -o jsonpath={.status.readyReplicas}{"\n"}"#);
    stream.until(&["2"]).await;
    cluster.ok("scale deployment web --replicas=3").await;
    stream.until(&["3"]).await;
}

#[tokio::test]
async fn wait_returns_when_it_is_so() {
    let cluster = Cluster::start().await;
    cluster.ok("create deployment web --image=nginx").await;
    let said = cluster.ok("wait --for=condition=Available deployment/web --timeout=60s").await;
    assert_eq!(said, "deployment.apps/web condition met\n");
    let said = cluster.ok("wait --for=jsonpath={.status.phase}=Running pod -l app=web --timeout=60s").await;
    assert!(said.starts_with("pod/web-") && said.ends_with(" condition met\n"), "{said}");
    let pod = cluster.ok("get pods -o name").await;
    let pod = pod.trim();
    cluster.ok(&format!("delete {pod} --wait=false")).await;
    let said = cluster.ok(&format!("wait --for=delete {pod} --timeout=60s")).await;
    assert!(said.is_empty() || said == format!("{pod} condition met\n"), "{said}");
}

#[tokio::test]
async fn wait_gives_up_after_its_time() {
    let cluster = Cluster::start().await;
    cluster.ok("run slow --image=nginx --annotations=simulated.pintle.dev/start-delay=1h").await;
    let said = cluster.fails("wait --for=condition=Ready pod/slow --timeout=300ms").await;
    assert_eq!(said, "error: timed out waiting for the condition on pods/slow\n");
}

#[tokio::test]
async fn events_tell_what_each_loop_did() {
    let cluster = Cluster::with_web().await;
    let happened = squeezed(&cluster.until("get events", |events| events.matches("Started").count() >= 2).await);
    assert_says(
        &happened,
        &[
            "LAST SEEN TYPE REASON OBJECT MESSAGE\n",
            "Normal ScalingReplicaSet deployment/web Scaled up replica set web-",
            "Normal SuccessfulCreate replicaset/web-",
            " Created pod: web-",
            "Normal Scheduled pod/web-",
            " Successfully assigned default/web-",
            "Normal Pulled pod/web-",
            "Normal Created pod/web-",
            "Normal Started pod/web-",
        ],
    );
    let of_one = squeezed(&cluster.ok("events --for=deployment/web").await);
    assert_says(
        &of_one,
        &["LAST SEEN TYPE REASON OBJECT MESSAGE\n", "Normal ScalingReplicaSet Deployment/web Scaled up"],
    );
    assert!(!of_one.contains("Scheduled"), "{of_one}");
    let by_field = cluster.ok("get events --field-selector=reason=Scheduled,involvedObject.kind=Pod -o name").await;
    assert_eq!(by_field.lines().count(), 2, "{by_field}");
    assert_says(&cluster.ok("events --types=Warning").await, &[]);
}
