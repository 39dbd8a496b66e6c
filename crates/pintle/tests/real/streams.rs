//! logs, exec, attach, cp and port-forward, as kubectl does them.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

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
    commands(&cluster).await;
    files(&cluster).await;
    attached(&cluster).await;
    ports(&cluster).await;
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

async fn commands(cluster: &Real) {
    assert_eq!(cluster.ok("exec web -c main -- echo hello").await, "hello\n");
    let ended = cluster.run("exec web -c main -- false").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let ended = cluster.run("exec web -c main -- nosuch").await;
    assert!(ended.stderr.contains("\"nosuch\": executable file not found"), "{ended:?}");
    let mut command = cluster.command("exec -i web -c main -- cat");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("kubectl starts");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(b"typed").await.expect("it takes input");
    drop(stdin);
    // The input ends, and so the command does.
    let output = tokio::time::timeout(Duration::from_secs(30), child.wait_with_output()).await.expect("it ends");
    assert_eq!(output.expect("its output").stdout, b"typed");
}

async fn files(cluster: &Real) {
    let (from, to) = (cluster.place.path("from"), cluster.place.path("to"));
    let content: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    std::fs::write(&from, &content).expect("a file");
    cluster.ok(&format!("cp {} web:/tmp/file -c main", from.display())).await;
    cluster.ok(&format!("cp web:/tmp/file {} -c main", to.display())).await;
    assert!(std::fs::read(&to).expect("the copy") == content, "the copy differs");
}

async fn attached(cluster: &Real) {
    let mut follow = cluster.command("logs -f web -c main");
    let mut follow = follow.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("kubectl starts");
    let mut lines = BufReader::new(follow.stdout.take().expect("its output")).lines();
    let mut command = cluster.command("attach -i web -c main");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("kubectl");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
    stdin.write_all(b"hello\n").await.expect("it takes input");
    let mut answer = [0; 10];
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, stdout.read_exact(&mut answer)).await.expect("it answers").expect("its output");
    assert_eq!(&answer, b"got hello\n");
    for expected in ["one", "two", "got hello"] {
        let line = tokio::time::timeout(patience, lines.next_line()).await.expect("the log goes on");
        assert_eq!(line.expect("a line").as_deref(), Some(expected));
    }
}

async fn ports(cluster: &Real) {
    let mut command = cluster.command("port-forward web :8080");
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
