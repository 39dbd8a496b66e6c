//! `pintle up` as a person meets it: what it prints, what it leaves, how it stops, and what it says when it cannot start.

mod harness;
#[path = "../../../xtask/src/test/skip.rs"]
mod skip;

use harness::program::{Place, Program};
use harness::{PATIENCE, eventually};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::process::Command;

/// A Deployment of two, as one line.
const CREATE_WEB: &str = "create deployment web --image=nginx --replicas=2";

/// How a run ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    /// Sends a signal, named as `kill` names it, and waits for the end.
    pub async fn stop(self, signal: &str) -> Outcome {
        let id = self.child.id().expect("the program still runs").to_string();
        let sent = Command::new("sh").args(["-c", r#"kill -"$0" "$1""#, signal, &id]).status().await;
        assert!(sent.expect("sh starts").success(), "cannot send {signal}");
        self.end().await
    }

    /// Waits for the end.
    pub async fn end(mut self) -> Outcome {
        let code = tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .unwrap_or_else(|_| panic!("pintle does not end:\n{}{}", self.stdout(), self.stderr()))
            .expect("the state of a child")
            .code();
        Outcome { code, stdout: self.stdout(), stderr: self.stderr() }
    }
}

async fn with_data(place: &Place) -> Program {
    place.up(&["--data-dir", place.path("data").to_str().unwrap()]).await
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|why| panic!("{}: {why}", path.display())).permissions().mode() & 0o777
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test]
async fn it_says_what_it_does_and_what_to_type_next() {
    let place = Place::new();
    let program = place.up(&["--ephemeral"]).await;
    let said = program.stdout();
    let first_words: Vec<_> = said.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(first_words, ["store", "api", "loops", "kubeconfig", "ready", "export", "kubectl"], "{said}");
    let kubeconfig = place.path("kubeconfig");
    assert!(said.contains(&format!("export KUBECONFIG={}", kubeconfig.display())), "{said}");
    let server = place.kubectl().ok("config view -o jsonpath={.clusters[0].cluster.server}").await;
    assert!(said.contains(&format!("api        {server}\n")), "{server} is not in:\n{said}");
    assert_eq!(program.stderr(), "", "a start without trouble has nothing to complain about");
}

#[tokio::test]
async fn ready_means_that_the_first_pod_can_be_made() {
    let place = Place::new();
    let program = place.start(&[
        "up",
        "--nodes",
        "1",
        "--ephemeral",
        "--listen",
        "127.0.0.1:0",
        "--write-kubeconfig",
        place.path("kubeconfig").to_str().unwrap(),
    ]);
    eventually("it says that it is ready", async || {
        let said = program.stdout();
        if said.contains("ready") { Ok(()) } else { Err(said) }
    })
    .await;
    let kubectl = place.kubectl();
    assert_eq!(kubectl.ok("run first --image=nginx").await, "pod/first created\n");
    kubectl.ok("wait --for=condition=Ready pod/first --timeout=60s").await;
}

#[tokio::test]
async fn nobody_else_can_read_its_keys() {
    let place = Place::new();
    let data = place.path("data");
    let program = place.start(&["up", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    let kubeconfig = data.join("admin.kubeconfig");
    eventually("the kubeconfig is there", async || {
        if kubeconfig.exists() && program.stdout().contains("ready") { Ok(()) } else { Err(program.stdout()) }
    })
    .await;
    assert!(program.stdout().contains(kubeconfig.to_str().unwrap()), "{}", program.stdout());
    assert_eq!(mode(&kubeconfig), 0o600);
    let keys: Vec<_> = files(&data.join("pki"))
        .into_iter()
        .filter(|f| fs::read_to_string(f).unwrap().contains("PRIVATE KEY"))
        .collect();
    assert!(!keys.is_empty(), "no key is kept in {}", data.join("pki").display());
    for key in keys {
        assert_eq!(mode(&key), 0o600, "{}", key.display());
    }
}

#[tokio::test]
async fn a_second_one_on_the_same_data_says_that_the_first_has_it() {
    let place = Place::new();
    let first = with_data(&place).await;
    let data = place.path("data");
    let second = place
        .start(&["up", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()])
        .end()
        .await;
    assert_eq!(second.code, Some(3), "{second:?}");
    assert!(second.stderr.starts_with("pintle: "), "{}", second.stderr);
    assert!(second.stderr.contains(data.to_str().unwrap()), "it does not say which directory: {}", second.stderr);
    assert!(second.stderr.contains("--data-dir"), "it does not say what to do: {}", second.stderr);
    assert_eq!(place.kubectl().ok("get --raw /readyz").await, "ok", "the first one is not disturbed");
    assert_eq!(first.stop("TERM").await.code, Some(0));
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let outcome = place.start(&["up", "--nodes", "1", "--ephemeral", "--listen", &address]).end().await;
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("port in use"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(&address), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--listen"), "{}", outcome.stderr);
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_is_named() {
    let place = Place::new();
    // A file in the way stops root too, which permissions do not.
    fs::write(place.path("file"), "").unwrap();
    let data = place.path("file/data");
    let outcome = place
        .start(&["up", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()])
        .end()
        .await;
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains(data.to_str().unwrap()), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--data-dir"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

#[tokio::test]
async fn a_data_directory_without_permission_is_named() {
    let place = Place::new();
    let closed = place.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(closed.join("probe"), "").is_ok() {
        skip::skip(&["a user other than root"]);
        return;
    }
    for data in [closed.join("data"), closed.clone()] {
        let outcome = place
            .start(&["up", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()])
            .end()
            .await;
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(data.to_str().unwrap()), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("--data-dir"), "{}", outcome.stderr);
    }
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let kubeconfig = place.path("file/kubeconfig");
    let arguments = [
        "up",
        "--nodes",
        "1",
        "--ephemeral",
        "--listen",
        "127.0.0.1:0",
        "--write-kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    let outcome = place.start(&arguments).end().await;
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains(kubeconfig.to_str().unwrap()), "{}", outcome.stderr);
}

/// What a person would miss after a restart: names and identities of everything they made and what was made from it.
async fn inventory(place: &Place) -> String {
    place.kubectl().ok("get configmaps,deployments,replicasets,pods,services -o custom-columns=KIND:.kind,NAME:.metadata.name,UID:.metadata.uid").await
}

async fn is_stopped_by_and_found_again_after(signal: &str) {
    let place = Place::new();
    let kubectl = place.kubectl();
    let program = with_data(&place).await;
    kubectl.ok("create configmap colours --from-literal=sea=blue").await;
    kubectl.ok(CREATE_WEB).await;
    kubectl.ok("rollout status deployment/web --timeout=60s").await;
    kubectl.ok("run once --image=i --restart=Never").await;
    kubectl.until("get pod once", |pod| pod.contains("1/1     Running")).await;
    let address = kubectl.ok("get pod once -o jsonpath={.status.podIP}").await;
    let before = inventory(&place).await;
    let outcome = program.stop(signal).await;
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.ends_with("stopping\nstopped\n"), "{}", outcome.stdout);
    assert_eq!(outcome.stderr, "", "a stop on purpose has nothing to complain about");

    let _program = with_data(&place).await;
    assert_eq!(kubectl.ok("get configmap colours -o jsonpath={.data.sea}").await, "blue");
    kubectl.ok("rollout status deployment/web --timeout=60s").await;
    kubectl.until("get pods", |pods| pods.matches("1/1     Running   0 ").count() == 3).await;
    assert_eq!(kubectl.ok("get pod once -o jsonpath={.status.podIP}").await, address, "simulated Pods run on");
    assert_eq!(inventory(&place).await, before);
    kubectl.ok("scale deployment/web --replicas=3").await;
    kubectl.ok("rollout status deployment/web --timeout=60s").await;
}

#[tokio::test]
async fn after_sigterm_the_next_start_finds_everything_as_it_was() {
    is_stopped_by_and_found_again_after("TERM").await;
}

#[tokio::test]
async fn after_ctrl_c_the_next_start_finds_everything_as_it_was() {
    is_stopped_by_and_found_again_after("INT").await;
}

#[tokio::test]
async fn after_being_killed_the_next_start_finds_what_was_acknowledged() {
    let place = Place::new();
    let kubectl = place.kubectl();
    let program = with_data(&place).await;
    kubectl.ok("create configmap colours --from-literal=sea=blue").await;
    assert_eq!(program.stop("KILL").await.code, None);
    let _program = with_data(&place).await;
    assert_eq!(kubectl.ok("get configmap colours -o jsonpath={.data.sea}").await, "blue");
}

#[tokio::test]
async fn an_ephemeral_cluster_keeps_nothing() {
    let place = Place::new();
    let kubectl = place.kubectl();
    let program = place.up(&["--ephemeral"]).await;
    kubectl.ok("create configmap colours --from-literal=sea=blue").await;
    assert_eq!(program.stop("TERM").await.code, Some(0));
    assert!(!place.path(".local").exists(), "it made a data directory");
    let _program = place.up(&["--ephemeral"]).await;
    let answer = kubectl.run("get configmap colours").await;
    assert_eq!(answer.code, Some(1), "{answer}");
    assert_eq!(answer.stderr, "Error from server (NotFound): configmaps \"colours\" not found\n");
}

#[tokio::test]
async fn without_flags_it_is_kept_below_the_home_directory() {
    let place = Place::new();
    let program = place.up(&[]).await;
    assert_eq!(program.stop("TERM").await.code, Some(0));
    assert!(place.path(".local/share/pintle/pki").is_dir());
}

#[tokio::test]
async fn three_nodes_are_three_ready_nodes() {
    let place = Place::new();
    let program = place.up(&["--ephemeral", "--nodes", "3"]).await;
    assert!(program.stdout().contains("3 simulated nodes"), "{}", program.stdout());
    let nodes = place.kubectl().until("get nodes --no-headers", |nodes| nodes.matches(" Ready ").count() == 3).await;
    let names: Vec<_> = nodes.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(names, ["node-0", "node-1", "node-2"], "{nodes}");
}

#[tokio::test]
async fn help_names_every_flag() {
    let place = Place::new();
    let outcome = place.start(&["up", "--help"]).end().await;
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for flag in ["--data-dir <DIR>", "--listen <ADDR:PORT>", "--write-kubeconfig <FILE>", "--nodes <N>", "--ephemeral"]
    {
        assert!(outcome.stdout.contains(flag), "{flag} is not in:\n{}", outcome.stdout);
    }
    for default in ["127.0.0.1:6443", "admin.kubeconfig", "[default: 1]"] {
        assert!(outcome.stdout.contains(default), "{default} is not in:\n{}", outcome.stdout);
    }
}

#[tokio::test]
async fn a_wrong_flag_is_named() {
    let place = Place::new();
    let outcome = place.start(&["up", "--ephemreal"]).end().await;
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("--ephemreal"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--ephemeral"), "it does not guess what was meant: {}", outcome.stderr);
}
