//! `pintle snapshot` beside a cluster that runs: what was saved can be started again, and old clients notice.

mod harness;

use harness::program::Place;
use std::os::unix::fs::PermissionsExt;
use tokio::process::Command;

/// Runs `pintle snapshot` to its end: whether it succeeded, and what it said.
async fn snapshot(place: &Place, arguments: &[&str]) -> (bool, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .arg("snapshot")
        .args(arguments)
        .env("HOME", place.path("home"))
        .env_remove("XDG_DATA_HOME")
        .output()
        .await
        .expect("pintle starts");
    (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

#[tokio::test]
async fn a_cluster_starts_again_from_a_snapshot_taken_while_it_ran() {
    let place = Place::new();
    let (data, other, file) = (place.path("data"), place.path("other"), place.path("cluster.snapshot"));
    let [data, other, file] = [&data, &other, &file].map(|path| path.to_str().expect("a path in UTF-8"));
    let program = place.up(&["--data-dir", data]).await;
    let kubectl = place.kubectl();
    kubectl.ok("create configmap kept --from-literal=color=blue").await;
    kubectl.ok("create secret generic hidden --from-literal=password=x").await;
    let version = kubectl.ok("get configmap kept -o jsonpath={.metadata.resourceVersion}").await;

    let (saved, said) = snapshot(&place, &["save", file, "--data-dir", data]).await;
    assert!(saved && said.starts_with("saved      ") && said.contains(file), "{said}");
    let mode = std::fs::metadata(file).expect("it was saved").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "it holds Secrets");
    let (inspected, said) = snapshot(&place, &["inspect", file]).await;
    let configmaps = said.lines().find(|line| line.starts_with("configmaps ")).unwrap_or_default();
    assert!(inspected && configmaps.split_whitespace().count() == 3, "{said}");
    let (again, said) = snapshot(&place, &["save", file, "--data-dir", data]).await;
    assert!(!again && said.contains("is there already"), "{said}");
    let (refused, said) = snapshot(&place, &["restore", file, "--data-dir", data]).await;
    assert!(!refused && said.contains("another pintle is using"), "{said}");

    kubectl.ok("delete configmap kept").await;
    drop(program);
    let (restored, said) = snapshot(&place, &["restore", file, "--data-dir", other]).await;
    assert!(restored && said.contains("it goes on at revision 1000000"), "{said}");
    let _program = place.up(&["--data-dir", other]).await;
    assert_eq!(kubectl.ok("get configmap kept -o jsonpath={.data.color}").await, "blue");
    let path = format!("get --raw /api/v1/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=5");
    let told = kubectl.ok(&path).await;
    assert!(told.contains("\"code\":410"), "a watch of the old store is told to list again: {told}");
}

#[tokio::test]
async fn a_snapshot_of_nothing_says_what_to_do() {
    let place = Place::new();
    let file = place.path("file");
    let (saved, said) = snapshot(&place, &["save", file.to_str().expect("a path in UTF-8")]).await;
    assert!(!saved && said.contains("--data-dir"), "{said}");
    assert!(!file.exists());
}
