//! What an ephemeral node leaves behind, however it ends: nothing. And where packets go that no service takes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::harness::program::{Place, Program, REAL};
use crate::harness::{PATIENCE, eventually};
use crate::node::{IMAGE, Real, busybox, can_run};

/// A network of its own, whose only way out is a cable with nobody at its other end.
struct Network(String);

impl Network {
    fn new(name: &str) -> Network {
        let network = Network(format!("pintle-{}-{name}", std::process::id()));
        let name = &network.0;
        for line in [
            format!("ip netns add {name}"),
            format!("ip -n {name} link set lo up"),
            format!("ip -n {name} link add out type veth peer name far"),
            // Without addresses that the kernel makes up, and asks others about.
            format!("ip -n {name} link set out addrgenmode none"),
            format!("ip -n {name} link set far addrgenmode none"),
            format!("ip -n {name} link set far up"),
            format!("ip -n {name} addr add 192.0.2.2/24 dev out"),
            format!("ip -n {name} link set out up"),
            format!("ip -n {name} route add default via 192.0.2.1 dev out"),
            // It answers for nobody, so that packets leave without a question.
            format!("ip -n {name} neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev out"),
        ] {
            let done = Command::new("sh").args(["-c", &line]).status();
            assert!(done.is_ok_and(|status| status.success()), "{line}");
        }
        network
    }

    fn run(&self, line: &str) -> Output {
        let inside = format!("nsenter --net=/run/netns/{} {line}", self.0);
        Command::new("sh").args(["-c", &inside]).output().expect("sh starts")
    }

    fn said(&self, line: &str) -> String {
        String::from_utf8_lossy(&self.run(line).stdout).into_owned()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Ends what a test that failed has left: containers outlive an agent that is killed.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(made) = made(&self.0) else { return };
        let script = format!(
            "cd {0}/node/containerd 2>/dev/null || exit 0; C='ctr -a {0}/node/containerd/containerd.sock -n k8s.io'; \
             for t in $($C tasks ls -q); do $C tasks kill -s KILL $t; done; sleep 1; \
             for t in $($C tasks ls -q); do $C tasks rm $t; done; kill $(cat containerd.pid); sleep 1; cd /; \
             grep ' {0}' /proc/mounts | cut -d' ' -f2 | sort -r | while read m; do umount -l $m; done",
            made.display()
        );
        let _ = Command::new("sh").args(["-c", &script]).output();
    }
}

/// A place in a network, and where the program makes what it does not keep.
fn place(network: &Network) -> (Place, Scratch) {
    let mut place = Place::new();
    let scratch = place.path("tmp");
    std::fs::create_dir(&scratch).expect("a directory");
    place.network = Some(network.0.clone());
    place.variables.push(("TMPDIR", scratch.clone().into_os_string()));
    (place, Scratch(scratch))
}

const EPHEMERAL: [&str; 6] =
    ["up", "--ephemeral", "--listen", "127.0.0.1:0", "--eviction-hard", "memory.available<50Mi"];

/// The one that the program has made.
fn made(scratch: &Path) -> Option<PathBuf> {
    std::fs::read_dir(scratch).ok()?.flatten().map(|entry| entry.path()).next()
}

async fn ended(program: &mut Program, signal: &str) -> Option<i32> {
    let id = program.child.id().expect("it runs").to_string();
    let sent = Command::new("sh").args(["-c", r#"kill -"$0" "$1""#, signal, &id]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let end = tokio::time::timeout(PATIENCE, program.child.wait()).await;
    end.expect("it ends").expect("the state of a child").code()
}

/// Neither processes nor mounts nor files nor rules nor a bridge.
fn nothing_is_left(network: &Network, scratch: &Path) {
    let place = scratch.display().to_string();
    let processes = Command::new("sh").args(["-c", &format!("grep -lsF '{place}' /proc/[0-9]*/cmdline")]).output();
    let processes = String::from_utf8_lossy(&processes.expect("sh starts").stdout).into_owned();
    let own: Vec<&str> = processes.lines().filter(|line| !is_shell(line)).collect();
    assert!(own.is_empty(), "processes are left: {own:?}");
    let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
    let mounts: Vec<&str> = mounts.lines().filter(|line| line.contains(&place)).collect();
    assert!(mounts.is_empty(), "mounts are left: {mounts:?}");
    assert_eq!(made(scratch), None, "files are left");
    let tables = network.said("nft list tables");
    assert!(!tables.contains("pintle"), "rules are left:\n{tables}");
    let links = network.said("ip -o link");
    assert!(!links.contains("pintle"), "a bridge is left:\n{links}");
}

/// The one that looks, which names what it looks for.
fn is_shell(line: &str) -> bool {
    let command = std::fs::read(line).unwrap_or_default();
    command.is_empty() || command.starts_with(b"sh\0") || command.starts_with(b"grep\0")
}

#[tokio::test]
async fn a_signal_while_containerd_starts_leaves_nothing_of_it() {
    if !can_run() {
        return;
    }
    let network = Network::new("early");
    let (place, scratch) = place(&network);
    for (delay, signal) in [(0, "HUP"), (100, "TERM"), (400, "INT")] {
        let mut program = place.start(&EPHEMERAL);
        eventually("containerd is started", async || {
            let pid = made(&scratch.0).map(|made| made.join("node/containerd/containerd.pid"));
            if pid.is_some_and(|pid| pid.exists()) { Ok(()) } else { Err(program.stdout() + &program.stderr()) }
        })
        .await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        assert_eq!(ended(&mut program, signal).await, Some(0), "{}", program.stderr());
        nothing_is_left(&network, &scratch.0);
    }
}

#[tokio::test]
async fn a_start_that_fails_after_containerd_ends_it_again() {
    if !can_run() {
        return;
    }
    let network = Network::new("failing");
    let (mut place, scratch) = place(&network);
    // The program that brings the first image in does not work here.
    let programs = place.path("bin");
    std::fs::create_dir(&programs).expect("a directory");
    std::fs::write(programs.join("ctr"), "#!/bin/sh\nexit 7\n").expect("a file");
    let done = Command::new("chmod").args(["+x"]).arg(programs.join("ctr")).status();
    assert!(done.is_ok_and(|status| status.success()));
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    place.variables.push(("PATH", path.into()));
    let mut program = place.start(&EPHEMERAL);
    let end = tokio::time::timeout(PATIENCE, program.child.wait()).await;
    assert_eq!(end.expect("it ends").expect("a state").code(), Some(2), "{}", program.stderr());
    assert!(program.stderr().contains("cannot be imported"), "{}", program.stderr());
    nothing_is_left(&network, &scratch.0);
}

#[tokio::test]
async fn a_node_that_keeps_nothing_leaves_nothing_and_packets_to_nobody_stay_on_it() {
    if !can_run() {
        return;
    }
    let network = Network::new("whole");
    let (place, scratch) = place(&network);
    let mut program = place.up(&[&EPHEMERAL[1..], &[REAL]].concat()).await;
    let kubectl = place.kubectl();
    kubectl.until("get nodes", |nodes| nodes.contains(" Ready ")).await;

    // A service that nobody serves, asked from the node.
    let sent = || {
        let told: serde_json::Value = serde_json::from_str(&network.said("ip -s -j link show out")).expect("JSON");
        told[0]["stats64"]["tx"]["packets"].as_u64().expect("a number")
    };
    let (before, began) = (sent(), Instant::now());
    let asked = network.run("busybox nc -w 5 10.96.200.200 80 < /dev/null");
    assert!(!asked.status.success() && began.elapsed() < Duration::from_secs(4), "{asked:?} {:?}", began.elapsed());
    assert_eq!(sent(), before, "nothing has left by the default route");
    assert!(!network.run("busybox nc -w 1 198.51.100.7 80 < /dev/null").status.success());
    assert!(sent() > before, "other packets do leave");

    // And from a Pod.
    let archive = busybox(&place.path("image"), IMAGE, 0);
    let socket = made(&scratch.0).expect("a directory").join("node/containerd/containerd.sock");
    let imported =
        Command::new("ctr").arg("-a").arg(&socket).args(["-n", "k8s.io", "images", "import", &archive]).status();
    assert!(imported.is_ok_and(|status| status.success()));
    let script = "nc -w 5 10.96.200.200 80 < /dev/null && exit 3; sleep 1000";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": {"containers": [
        {"name": "c", "image": IMAGE, "command": ["sh", "-c", script],
            "ports": [{"containerPort": 80, "hostPort": 8080}]}]}});
    std::fs::write(place.path("pod.json"), pod.to_string()).expect("a file");
    let before = sent();
    kubectl.ok(&format!("apply -f {}", place.path("pod.json").display())).await;
    kubectl.ok("wait --for=condition=Ready pod/asks --timeout=60s").await;
    kubectl.until("logs asks", |said| said.contains("Connection refused")).await;
    assert_eq!(sent(), before, "nothing of the Pod has left by the default route");

    assert_eq!(ended(&mut program, "HUP").await, Some(0), "{}", program.stderr());
    nothing_is_left(&network, &scratch.0);
}

#[tokio::test]
async fn a_cluster_that_is_reset_leaves_nothing_and_is_not_reset_while_it_runs() {
    if !can_run() {
        return;
    }
    let network = Network::new("reset");
    let mut own = Place::new();
    own.network = Some(network.0.clone());
    let mut cluster = Real::start_in(own, &[]).await;
    let ports = json!([{"containerPort": 80, "hostPort": 8080}]);
    cluster
        .pod(
            "stays",
            json!({"containers": [{"name": "c", "script": "sleep 1000", "ports": ports,
            "volumeMounts": [{"name": "memory", "mountPath": "/m"}]}],
            "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}]}),
        )
        .await;
    let pod = cluster.phase("stays", "Running").await;
    let data = cluster.place.path("data");
    let words = cluster.place.words(env!("CARGO_BIN_EXE_pintle"));
    let reset = |more: &[&str]| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["reset", "--data-dir"]).arg(&data).args(more);
        let output = command.stdin(std::process::Stdio::null()).output().expect("pintle starts");
        (
            output.status.code(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    };
    let (code, said) = reset(&["--yes"]);
    assert!(code == Some(3) && said.contains("in use"), "{said}");
    cluster.kill().await;
    let (code, said) = reset(&[]);
    assert!(code == Some(2) && said.contains("pod        default/stays") && said.contains("--yes"), "{said}");
    assert!(data.exists(), "nobody agreed");
    let (code, said) = reset(&["--yes"]);
    assert_eq!(code, Some(0), "{said}");
    nothing_is_left(&network, &data);
    let group = format!("pod{}", pod["metadata"]["uid"].as_str().unwrap_or_default());
    let groups = Command::new("find").args(["/sys/fs/cgroup", "-name", &group]).output().expect("find starts");
    assert!(groups.stdout.is_empty(), "a control group is left: {}", String::from_utf8_lossy(&groups.stdout));
    assert!(!data.exists());
    assert!(reset(&["--yes"]).1.contains("nothing to remove"));
}
