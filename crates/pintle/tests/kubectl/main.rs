//! A real kubectl against the real program: each command is a test of what it prints and of what is there afterwards.
//!
//! The modules stand in the order in which somebody new to a cluster comes to need them.

#[path = "../harness/mod.rs"]
mod harness;

mod discover;
mod read;
mod watch;

mod patch;
mod server_side;
mod sets;
mod write;

mod expose;
mod nodes;
mod pods;
mod rollout;

mod access;
mod credential;
mod custom;
mod proxy;
mod remove;

mod table;

use harness::kubectl::{Answer, Kubectl};
use harness::program::{Place, Program};
use std::ops::Deref;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;

/// A cluster of its own for one test, and the kubectl that reaches it.
struct Cluster {
    kubectl: Kubectl,
    _program: Program,
    place: Place,
}

impl Cluster {
    async fn start() -> Cluster {
        Cluster::with(&[]).await
    }

    async fn with(flags: &[&str]) -> Cluster {
        let place = Place::new();
        let program = place.up(&[&["--ephemeral"], flags].concat()).await;
        Cluster { kubectl: place.kubectl(), _program: program, place }
    }

    /// A cluster in which the Deployment `web` runs two Pods of nginx.
    async fn with_web() -> Cluster {
        let cluster = Cluster::start().await;
        cluster.make_web(2).await;
        cluster
    }

    async fn make_web(&self, replicas: u32) {
        let made = self.ok(&format!("create deployment web --image=nginx:1.25 --replicas={replicas}")).await;
        assert_eq!(made, "deployment.apps/web created\n");
        self.rolled_out("web").await;
    }

    /// Waits until a Deployment is as its spec says.
    async fn rolled_out(&self, name: &str) {
        let said = self.ok(&format!("rollout status deployment/{name} --timeout=60s")).await;
        assert!(said.ends_with(&format!("deployment \"{name}\" successfully rolled out\n")), "{said}");
    }

    /// Runs a command that must fail; what it complained.
    async fn fails(&self, line: &str) -> String {
        let answer = self.run(line).await;
        assert!(answer.code.is_some_and(|code| code != 0), "this should fail: {answer}");
        answer.stderr
    }

    /// Runs a command that reads YAML with `-f -`.
    async fn run_with(&self, line: &str, input: &str) -> Answer {
        // What opens with a brace would be taken for JSON.
        let input = format!("---\n{input}");
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.finish(line, async {
            let mut child = command.spawn()?;
            // Taken, so that it is closed when written.
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(input.as_bytes()).await?;
            drop(stdin);
            child.wait_with_output().await
        })
        .await
    }

    async fn ok_with(&self, line: &str, input: &str) -> String {
        let answer = self.run_with(line, input).await;
        assert_eq!(answer.code, Some(0), "{answer}");
        answer.stdout
    }

    async fn apply(&self, manifest: &str) -> String {
        self.ok_with("apply -f -", manifest).await
    }
}

impl Deref for Cluster {
    type Target = Kubectl;

    fn deref(&self) -> &Kubectl {
        &self.kubectl
    }
}

/// Fails with the whole text if one of the parts is not in it.
#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

/// Blanks as one blank, so that a line can be looked for without counting them.
fn squeezed(text: &str) -> String {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}
