//! logs, exec, attach, cp and port-forward, as kubectl does them.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::harness::kubectl::Kubectl;
use crate::harness::program::Place;
use crate::node::{Real, can_run};

/// Two lines, then an answer to each line of input, then the end of it.
const TALKER: &str = "echo one; echo two; while read x; do echo got $x; done; echo end; sleep 1000";

#[tokio::test]
async fn a_user_reads_logs_runs_commands_copies_files_and_reaches_ports() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let containers = json!([{"name": "main", "script": TALKER, "stdin": true}, {"name": "port", "script": "echo wrong >&2; nc -ll -p 8080 -e cat"}]);
    cluster.pod("web", json!({"terminationGracePeriodSeconds": 1, "containers": containers})).await;
    cluster.pod("crash", json!({"containers": [{"name": "main", "script": "echo run; exit 3"}]})).await;
    cluster.ok("wait --for=condition=Ready pod/web --timeout=60s").await;
    logs(&cluster).await;
    for (kubectl, said) in [(cluster.kubectl.clone(), "hello"), (cluster.over_spdy(), "again")] {
        commands(&kubectl).await;
        much(&kubectl).await;
        files(&cluster.place, &kubectl).await;
        attached(&kubectl, said).await;
        ports(&kubectl).await;
    }
    cluster.until("logs web -c main", |log| log == "one\ntwo\ngot hello\ngot again\n").await;
    usage(&cluster).await;
}

async fn logs(cluster: &Real) {
    cluster.until("logs web -c main", |said| said == "one\ntwo\n").await;
    cluster.until("logs web -c port", |said| said == "wrong\n").await;
    assert_eq!(cluster.ok("logs web -c main --tail=1").await, "two\n");
    assert_eq!(cluster.ok("logs web -c main --limit-bytes=5").await, "one\nt");
    let said = cluster.ok("logs web -c main --timestamps --tail=1").await;
    assert!(said.ends_with("Z two\n") && said.starts_with("20"), "{said}");
    let refused = cluster.run("get --raw /api/v1/namespaces/default/pods/web/log").await;
    let choose = "a container name must be specified for pod web, choose one of: [main port]";
    assert!(refused.stderr.contains(choose), "{refused:?}");
    cluster.until("get pod crash", |said| said.contains("CrashLoopBackOff")).await;
    assert_eq!(cluster.ok("logs crash --previous").await, "run\n");
    let refused = cluster.run("logs web -c main --previous").await;
    let none = "previous terminated container \"main\" in pod \"web\" not found";
    assert!(refused.stderr.contains(none), "{refused:?}");
}

async fn commands(kubectl: &Kubectl) {
    assert_eq!(kubectl.ok("exec web -c main -- echo hello").await, "hello\n");
    let ended = kubectl.run("exec web -c main -- sh -c 'echo out; echo err >&2; exit 7'").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(7), "out\n"), "{ended:?}");
    assert!(ended.stderr.starts_with("err\n"), "{ended:?}");
    let ended = kubectl.run("exec web -c main -- nosuch").await;
    assert!(ended.stderr.contains("\"nosuch\": executable file not found"), "{ended:?}");
}

/// More than all that lies between kubectl and the command can hold.
async fn much(kubectl: &Kubectl) {
    let mut command = kubectl.command("exec -i web -c main -- cat");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("kubectl starts");
    let mut stdin = child.stdin.take().expect("its input");
    let writing = async move { stdin.write_all(&content()).await };
    // The input ends, and so the command does.
    let both = async { tokio::join!(writing, child.wait_with_output()) };
    let (written, output) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("it ends");
    written.expect("it takes input");
    let output = output.expect("its output").stdout;
    assert!(output == content(), "{} bytes came back, other ones", output.len());
}

fn content() -> Vec<u8> {
    (0..3_000_000_u32).map(|index| (index % 251) as u8).collect()
}

async fn files(place: &Place, kubectl: &Kubectl) {
    let (from, to) = (place.path("from"), place.path("to"));
    std::fs::write(&from, content()).expect("a file");
    kubectl.ok(&format!("cp {} web:/tmp/file -c main", from.display())).await;
    kubectl.ok(&format!("cp web:/tmp/file {} -c main", to.display())).await;
    assert!(std::fs::read(&to).expect("the copy") == content(), "the copy differs");
    std::fs::remove_file(&to).expect("it was there");
}

async fn attached(kubectl: &Kubectl, said: &str) {
    let mut follow = kubectl.command("logs -f web -c main");
    let mut follow = follow.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("kubectl starts");
    let mut lines = BufReader::new(follow.stdout.take().expect("its output")).lines();
    let mut command = kubectl.command("attach -i web -c main");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("kubectl");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
    stdin.write_all(format!("{said}\n").as_bytes()).await.expect("it takes input");
    let mut answer = [0; 10];
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, stdout.read_exact(&mut answer)).await.expect("it answers").expect("its output");
    let expected = format!("got {said}");
    assert_eq!(String::from_utf8_lossy(&answer), format!("{expected}\n"));
    loop {
        let line = tokio::time::timeout(patience, lines.next_line()).await.expect("the log goes on");
        if line.expect("a line").expect("the log has not ended") == expected {
            return;
        }
    }
}

async fn ports(kubectl: &Kubectl) {
    let mut command = kubectl.command("port-forward web :8080");
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("kubectl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let patience = Duration::from_secs(30);
    let line = tokio::time::timeout(patience, lines.next_line()).await.expect("it says its port").expect("a line");
    let line = line.expect("it ended without a word");
    let address = line.split_whitespace().nth(2).unwrap_or_else(|| panic!("{line}")).to_owned();
    for word in ["first", "other"] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("a connection");
        stream.write_all(word.as_bytes()).await.expect("it takes bytes");
        let mut answer = [0; 5];
        tokio::time::timeout(patience, stream.read_exact(&mut answer)).await.expect("it answers").expect("bytes");
        assert_eq!(answer, word.as_bytes());
    }
}

async fn usage(cluster: &Real) {
    // A rate is known after the second measurement, ten seconds after the first.
    let said = cluster.until("top pods --containers --no-headers", |said| said.contains("web")).await;
    assert!(said.lines().any(|line| line.starts_with("web") && line.contains("main") && line.contains("Mi")), "{said}");
    let said = cluster.until("top nodes --no-headers", |said| said.contains('%')).await;
    assert!(said.lines().count() == 1 && said.contains("Mi"), "{said}");
    let summary = cluster.get_raw_summary().await;
    assert!(summary["pods"].as_array().is_some_and(|pods| !pods.is_empty()), "{summary}");
}

impl Real {
    /// What the node itself says, through the API server.
    async fn get_raw_summary(&self) -> serde_json::Value {
        let nodes = self.get("nodes").await;
        let name = nodes["items"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
        let said = self.ok(&format!("get --raw /api/v1/nodes/{name}/proxy/stats/summary")).await;
        serde_json::from_str(&said).expect("JSON")
    }
}
