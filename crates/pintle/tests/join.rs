//! A machine joins with a token, is known by its own certificate from then on, and is drained; its Pods are simulated.

mod harness;

use harness::eventually;
use harness::program::{Place, Program};
use std::process::{Command, Output};

/// Runs a command of the program that ends by itself.
fn pintle(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pintle")).args(arguments).output().expect("pintle starts")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The words behind `pintle` in the command that a new token comes with.
fn invitation(place: &Place) -> Vec<String> {
    let kubeconfig = place.path("kubeconfig").display().to_string();
    let created = pintle(&["token", "create", "--kubeconfig", &kubeconfig]);
    let text = said(&created);
    assert!(created.status.success(), "{text}");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("pintle ")).expect("the command is printed");
    line.split(' ').map(str::to_owned).collect()
}

/// Starts a simulated node that is reached at an address of loopback's own.
async fn join(place: &Place, words: &[String], name: &str, address: &str) -> Program {
    let directory = place.path(name).display().to_string();
    let own = ["--simulated", "--name", name, "--address", address, "--data-dir", &directory];
    let arguments: Vec<&str> = words.iter().map(String::as_str).chain(own).collect();
    let mut program = place.start(&arguments);
    eventually("the node says that it has joined", async || {
        if let Some(status) = program.child.try_wait().expect("the state of a child") {
            panic!("it ended with {status}:\n{}{}", program.stdout(), program.stderr());
        }
        if program.stdout().contains("joined") { Ok(()) } else { Err(program.stdout()) }
    })
    .await;
    program
}

#[tokio::test]
async fn a_machine_joins_with_a_token_runs_pods_comes_back_without_it_and_is_drained() {
    let place = Place::new();
    let _up = place.up(&["--ephemeral", "--nodes", "0"]).await;
    let kubectl = place.kubectl();
    let words = invitation(&place);
    let mut node = join(&place, &words, "far", "127.0.91.1").await;
    kubectl.until("get nodes", |nodes| nodes.contains("far") && nodes.contains(" Ready ")).await;

    kubectl.ok("create deployment web --image=i --replicas=2").await;
    kubectl.ok("rollout status deployment/web --timeout=60s").await;
    let pods = kubectl.ok("get pods -o name").await;
    let pod = pods.lines().next().expect("a Pod").to_owned();
    // The API server connects to no loopback address that a node's status names: behind it are its own services.
    let refused = kubectl.run(&format!("logs {pod}")).await;
    assert!(refused.stderr.contains("address not allowed"), "{}", refused.stderr);
    let requests = kubectl.ok("get csr").await;
    assert_eq!(requests.matches("Approved,Issued").count(), 2, "{requests}");

    // The token is taken back and the agent killed: the certificate is enough.
    let token = words.iter().skip_while(|word| *word != "--token").nth(1).expect("a token").clone();
    let kubeconfig = place.path("kubeconfig").display().to_string();
    let deleted = pintle(&["token", "delete", &token, "--kubeconfig", &kubeconfig]);
    assert!(deleted.status.success(), "{}", said(&deleted));
    let listed = said(&pintle(&["token", "list", "--kubeconfig", &kubeconfig]));
    assert_eq!(listed.lines().count(), 1, "{listed}");
    node.child.kill().await.expect("it is killed");
    let again: Vec<String> = words[..3].to_vec();
    let _node = join(&place, &again, "far", "127.0.91.1").await;
    kubectl.ok("scale deployment/web --replicas=3").await;
    kubectl.ok("rollout status deployment/web --timeout=60s").await;

    let drained = tokio::task::spawn_blocking(move || pintle(&["node", "drain", "far", "--kubeconfig", &kubeconfig]));
    let drained = drained.await.expect("it runs");
    assert!(drained.status.success(), "{}", said(&drained));
    assert!(said(&drained).contains("3 Pods are gone"), "{}", said(&drained));
    kubectl.until("get nodes", |nodes| nodes.contains("SchedulingDisabled")).await;
    kubectl.until("get pods", |pods| pods.matches("Pending").count() == 3).await;
}

#[tokio::test]
async fn nobody_joins_without_the_right_token_or_a_cluster_with_another_authority() {
    let place = Place::new();
    let _up = place.up(&["--ephemeral", "--nodes", "0"]).await;
    let words = invitation(&place);
    let tried = async |change: &dyn Fn(&mut Vec<String>), says: &str| {
        let mut words = words.clone();
        change(&mut words);
        let directory = tempfile::tempdir().expect("a directory");
        let more = ["--simulated", "--name", "thief", "--address", "127.0.91.2", "--data-dir"];
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words.push(directory.path().display().to_string());
        let output = tokio::task::spawn_blocking(move || pintle(&words.iter().map(String::as_str).collect::<Vec<_>>()));
        let output = output.await.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(says), "{}", said(&output));
        assert!(!directory.path().join("pki/client.pem").exists());
    };
    // node, join, URL, --token, TOKEN, --ca-hash, HASH
    assert_eq!((words[3].as_str(), words[5].as_str()), ("--token", "--ca-hash"), "{words:?}");
    tried(&|words| words[4] = "abcdef.0123456789abcdef".to_owned(), "does not take the token").await;
    tried(&|words| words[6] = format!("sha256:{}", "0".repeat(64)), "shows another authority").await;
    tried(&|words| words.truncate(5), "--ca-hash").await;
    tried(&|words| drop(words.drain(3..5)), "--token").await;
    let nodes = place.kubectl().ok("get nodes -o name").await;
    assert_eq!(nodes, "");
}
