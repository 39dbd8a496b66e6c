//! Flags as people type them: a mistake is named before anything starts, and `--loops` chooses who acts.

mod harness;

use harness::program::Place;
use std::time::Duration;
use tokio::process::Command;

#[tokio::test]
async fn a_flag_that_cannot_be_meant_is_named_before_anything_starts() {
    let place = Place::new();
    let data = place.path("data");
    for (flags, named) in [
        (&["up", "--pod-cidr", "banana"][..], "--pod-cidr"),
        (&["up", "--pod-cidr", "10.244.0.1/24"], "--pod-cidr"),
        (&["up", "--listen", "localhost"], "--listen"),
        (&["up", "--listen", "127.0.0.1:99999"], "--listen"),
        (&["up", "--tls-san", "not a name"], "--tls-san"),
        (&["up", "--container-runtime-endpoint", "/run/c.sock"], "--container-runtime-endpoint"),
        (&["up", "--image-gc-high-threshold", "101"], "--image-gc-high-threshold"),
        (&["up", "--image-gc-low-threshold", "90"], "--image-gc-low-threshold"),
        (&["up", "--eviction-hard", "luck<1"], "eviction-hard"),
        (&["up", "--eviction-soft", "memory.available<1Gi"], "eviction-soft"),
        (&["up", "--allowed-unsafe-sysctls", "vm.swappiness"], "--allowed-unsafe-sysctls"),
        (&["up", "--node-name", "No_Name"], "--node-name"),
        (&["up", "--node-labels", "kubernetes.io/role=x"], "--node-labels"),
        (&["up", "--register-with-taints", "k=v:Sometimes"], "--register-with-taints"),
        (&["up", "--max-pods", "0"], "--max-pods"),
        (&["up", "--store", "mysql://127.0.0.1"], "--store"),
        (&["up", "--loops", "deploymnet"], "--loops"),
        (&["up", "--nodes", "many"], "--nodes"),
        (&["node", "join", "127.0.0.1", "--name", "No_Name"], "--name"),
        (&["node", "join", "127.0.0.1", "--ca-hash", "md5:1"], "--ca-hash"),
        (&["node", "join", "127.0.0.1", "--eviction-hard", "luck<1"], "eviction-hard"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_pintle"))
            .args(flags)
            .args(["--data-dir", data.to_str().expect("UTF-8")])
            .env("HOME", place.path("home"))
            .output();
        let output = tokio::time::timeout(Duration::from_secs(20), output).await.expect("it ends").expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(named), "{flags:?} does not name {named}: {said}");
        assert!(!data.exists(), "{flags:?} wrote something");
    }
}

#[tokio::test]
async fn without_loops_there_is_an_api_server_and_nobody_acts() {
    let place = Place::new();
    let program = place.up(&["--ephemeral", "--loops", "none"]).await;
    assert!(program.stdout().contains("loops      0 running, no nodes"), "{}", program.stdout());
    let kubectl = place.kubectl();
    kubectl.ok("create deployment web --image=nginx").await;
    // What a loop would have done it does within milliseconds.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(kubectl.ok("get nodes,replicasets,pods,leases -A -o name").await, "");
    assert_eq!(kubectl.ok("get serviceaccounts -n default -o name").await, "");
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.metadata.generation}{.status}").await, "1{}");
}

#[tokio::test]
async fn a_loop_that_is_left_out_does_not_act_and_the_others_do() {
    let place = Place::new();
    let _program = place.up(&["--ephemeral", "--loops", "*,-deployment"]).await;
    let kubectl = place.kubectl();
    kubectl.ok("create deployment web --image=nginx").await;
    kubectl.until("get serviceaccounts -n default -o name", |said| said.contains("default")).await;
    kubectl.ok("run alone --image=nginx").await;
    kubectl.ok("wait --for=condition=Ready pod/alone --timeout=60s").await;
    assert_eq!(kubectl.ok("get replicasets -o name").await, "");
}
