//! What a person does at a terminal: run a Pod, type in it, and look at it from a container beside it.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::harness::kubectl::Kubectl;
use crate::node::{IMAGE, Real, can_run};

#[tokio::test]
async fn a_user_runs_a_pod_types_at_its_terminal_and_looks_at_it_from_beside() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster.ok(&format!("run hello --image={IMAGE} --restart=Never -- sh -c 'echo ran; sleep 1000'")).await;
    cluster.until("logs hello", |said| said == "ran\n").await;

    for kubectl in [cluster.kubectl.clone(), cluster.over_spdy()] {
        let (said, code) = typed(&kubectl, "exec -it hello -- sh", "tty; stty size; exit 7\n").await;
        assert!(said.contains("/dev/pts/") && said.contains("24 80"), "{said}");
        assert_eq!(code, Some(7), "{said}");
    }

    let look = format!("debug hello -c look --image={IMAGE} --target=hello -- sh -c 'ps; sleep 1000'");
    cluster.ok(&look).await;
    let said = cluster.until("logs hello -c look", |said| said.lines().count() > 2).await;
    // The first process that it sees is the other container's.
    assert!(said.lines().any(|line| line.trim_start().starts_with("1 ") && line.ends_with(" sleep 1000")), "{said}");
    let said = cluster.ok("get pod hello -o jsonpath={.status.ephemeralContainerStatuses[0].state}").await;
    assert!(said.contains("running"), "{said}");
}

#[tokio::test]
async fn a_user_sees_what_a_short_lived_container_wrote_each_time() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    for (round, script) in
        ["echo out", "echo out; sleep 0.3", "sleep 0.2; echo out", "cat; echo out"].iter().enumerate()
    {
        for again in 0..4 {
            let name = format!("brief-{round}-{again}");
            let line = format!("run {name} --rm -i -q --restart=Never --image={IMAGE} -- sh -c '{script}'");
            let said = cluster.ok(&line).await;
            assert_eq!(said.matches("out\n").count(), 1, "{name}: {said}");
        }
    }
}

/// What is shown at a terminal of 24 by 80 in which a kubectl runs that somebody types at, and how it ended.
async fn typed(kubectl: &Kubectl, line: &str, keys: &str) -> (String, Option<i32>) {
    let kubectl = kubectl.command(line);
    let kubectl = kubectl.as_std();
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy());
    let words: Vec<String> = std::iter::once(kubectl.get_program()).chain(kubectl.get_args()).map(quoted).collect();
    let mut command = Command::new("script");
    command.args(["-qefc", &format!("stty rows 24 cols 80; {}", words.join(" ")), "/dev/null"]);
    for (name, value) in kubectl.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("script starts");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(keys.as_bytes()).await.expect("it takes keys");
    let output = tokio::time::timeout(Duration::from_secs(60), child.wait_with_output()).await.expect("it ends");
    let output = output.expect("its output");
    drop(stdin);
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}
