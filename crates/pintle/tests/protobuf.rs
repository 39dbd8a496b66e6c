//! A typed client of Go that speaks nothing but protobuf, against the real program.

mod harness;
#[path = "../../../xtask/src/test/skip.rs"]
mod skip;

use harness::PATIENCE;
use harness::program::Place;
use std::path::Path;
use tokio::process::Command;

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protobuf");

/// Compiling client-go and every API group takes minutes where nothing of it is cached.
const COMPILE_PATIENCE_FACTOR: u32 = 15;

/// Runs in a copy of the client's folder: compilers leave things behind.
async fn go(directory: &Path, arguments: &[&str], patience: u32) -> std::process::Output {
    let mut command = Command::new("go");
    command.args(arguments).current_dir(directory).kill_on_drop(true);
    tokio::time::timeout(PATIENCE * patience, command.output()).await.expect("it ends").expect("it starts")
}

fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn a_typed_client_of_protobuf_lists_watches_creates_and_patches_every_built_in_kind() {
    if Command::new("go").arg("version").output().await.is_err() {
        return skip::skip(&["go"]);
    }
    let place = Place::new();
    let directory = place.path("typed");
    std::fs::create_dir_all(&directory).expect("a directory");
    for name in ["main.go", "objects.json", "go.mod", "go.sum"] {
        std::fs::copy(Path::new(CLIENT).join(name), directory.join(name)).expect("a file of the client");
    }
    // Without a network and without the modules, nothing can be compiled.
    if !go(&directory, &["mod", "download"], COMPILE_PATIENCE_FACTOR).await.status.success() {
        return skip::skip(&["the Go module proxy"]);
    }
    let built = go(&directory, &["build", "-o", "client", "."], COMPILE_PATIENCE_FACTOR).await;
    assert!(built.status.success(), "{}", said(&built));
    let _program = place.up(&["--ephemeral"]).await;
    let mut client = Command::new(directory.join("client"));
    client.arg(place.path("kubeconfig")).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE * 4, client.output()).await.expect("it ends").expect("it starts");
    assert!(output.status.success() && said(&output).contains("kinds passed"), "{}", said(&output));
    // What it created and deleted is gone for a client of JSON, too.
    let left = place.kubectl().ok("get configmaps,secrets,services -o name").await;
    assert!(left.contains("service/kubernetes") && !left.contains("typed-"), "{left}");
}
