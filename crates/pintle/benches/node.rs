//! How fast Pods start: through containerd alone, through the whole of `pintle up`, and on simulated nodes.
//!
//! `cargo xtask bench node`, as root with containerd, runc, CNI plugins and a static busybox. Without them only the simulated
//! nodes are measured; so it is with `cargo xtask bench node:simulated`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pintle_container::cri::private::{Private, PrivateConfig, import};
use pintle_container::{ContainerConfig, Cri, PodRef, Runtime, SandboxConfig};
use pintle_network::Bridge;
use pintle_network::cni::Places;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

const REAL: usize = 100;
const SIMULATED: usize = 10_000;
const AT_ONCE: usize = 16;
const ROUNDS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(300);
const IMAGE: &str = "localhost/busybox:1";
const BRIDGE: &str = "pintle-bench";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let asked = !std::env::args().any(|argument| argument == "simulated");
        let root = rustix::process::geteuid().is_root();
        let can = asked && root && Private::is_possible() && Path::new("/bin/busybox").exists();
        if can {
            // In turns: a disk and a machine that others share have their moods.
            let (mut alones, mut wholes) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                alones.push(alone().await);
                wholes.push(pods("this machine", &["--pod-cidr", "10.121.0.0/24"], REAL, true).await);
            }
            let (alone, whole) = (median(alones), median(wholes));
            let outside = 100.0 * (1.0 - alone.as_secs_f64() / whole.as_secs_f64());
            println!(
                "medians of {ROUNDS}: containerd alone {:.1} Pods a second, this machine {:.1}; outside the runtime: {:.0} % of the time",
                rate(REAL, alone),
                rate(REAL, whole),
                outside.max(0.0)
            );
        } else if asked {
            println!("no real containers: they need root, containerd, runc, ctr and busybox-static");
        }
        pods("100 simulated nodes", &["--nodes", "100"], SIMULATED, false).await;
    });
}

/// Sandbox, container, start, so many at once; nothing but containerd.
async fn alone() -> Duration {
    let directory = tempfile::tempdir().expect("a directory");
    let config = PrivateConfig { directory: directory.path().join("c"), plugins: directory.path().join("c/bin") };
    let bridge = Bridge {
        name: BRIDGE.to_owned(),
        pods: vec!["10.120.0.0/24".parse().expect("a range")],
        cluster: Vec::new(),
        services: Vec::new(),
        books: directory.path().join("addresses"),
    };
    let places = Places { configuration: config.networks(), plugins: config.plugins.clone() };
    places.link(Path::new(env!("CARGO_BIN_EXE_pintle"))).expect("the plugin is there");
    places.configure(&bridge).expect("a configuration");
    bridge.lay().await.expect("a bridge");
    let (private, cri) = Private::start(&config).await.expect("containerd starts");
    import(private.socket(), &busybox(directory.path())).await.expect("an image");
    let started = Instant::now();
    let sandboxes: Vec<_> = futures::stream::iter(0..REAL)
        .map(|index| run_alone(&cri, directory.path(), index))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let took = started.elapsed();
    println!("containerd alone: {REAL} Pods in {:.2} s, {:.1} a second", took.as_secs_f64(), rate(REAL, took));
    futures::stream::iter(&sandboxes)
        .for_each_concurrent(AT_ONCE, |id| async { cri.remove_sandbox(id).await.expect("it goes") })
        .await;
    private.stop().await;
    bridge.remove().await;
    took
}

async fn run_alone(cri: &Cri, directory: &Path, index: usize) -> pintle_container::SandboxId {
    let shared = SandboxConfig {
        pod: PodRef { namespace: "bench".into(), name: format!("p{index}"), uid: format!("u{index}") },
        log_directory: directory.join(format!("logs/{index}")).to_string_lossy().into_owned(),
        ..SandboxConfig::default()
    };
    let sandbox = cri.run_sandbox(shared.clone()).await.expect("a sandbox");
    let config = ContainerConfig {
        name: "c".into(),
        image: IMAGE.into(),
        command: ["sleep", "100000"].map(str::to_owned).to_vec(),
        log_path: "c.log".into(),
        ..ContainerConfig::default()
    };
    let container = cri.create_container(&sandbox, &shared, config).await.expect("a container");
    cri.start_container(&container).await.expect("it starts");
    sandbox
}

/// From the first create until all are Running, as a client sees it.
async fn pods(name: &str, flags: &[&str], count: usize, real: bool) -> Duration {
    let cluster = Cluster::start(flags).await;
    if real {
        let archive = busybox(cluster.directory.path());
        let socket = cluster.directory.path().join("data/node/containerd/containerd.sock");
        import(&socket, &archive).await.expect("an image");
    }
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), "default");
    let processor = cluster.processor_time();
    let started = Instant::now();
    let watch = tokio::spawn(running(pods.clone(), count));
    let created: Vec<(String, Instant)> = futures::stream::iter(0..count)
        .map(|index| {
            let pods = pods.clone();
            async move {
                let pod = json!({"metadata": {"name": format!("p{index}")}, "spec": {"restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
                    "containers": [{"name": "c", "image": IMAGE, "command": ["sleep", "100000"]}]}});
                let pod: Pod = serde_json::from_value(pod).expect("a Pod");
                let at = Instant::now();
                pods.create(&PostParams::default(), &pod).await.expect("it is created");
                (format!("p{index}"), at)
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let seen = tokio::time::timeout(PATIENCE, watch).await;
    let seen = seen.expect("all Pods run within five minutes: is the disk nearly full?").expect("the watch ends");
    let took = started.elapsed();
    let mut waits: Vec<Duration> = created.iter().map(|(name, at)| seen[name].duration_since(*at)).collect();
    waits.sort();
    let millis = |part: usize| waits[(waits.len() * part / 100).min(waits.len() - 1)].as_millis();
    println!(
        "{name}: {count} Pods in {:.2} s, {:.1} a second; from create to Running p50 {} ms, p99 {} ms; pintle used {:.2} s of \
         processor and has {} MB",
        took.as_secs_f64(),
        rate(count, took),
        millis(50),
        millis(99),
        cluster.processor_time() - processor,
        cluster.memory() / 1024,
    );
    // What follows a start, such as its events and what the store puts in order, is not counted as rest.
    let (after, rest) = (cluster.share_of_processor().await, cluster.share_of_processor().await);
    println!(
        "{name}: {count} Pods at rest: {rest:.1} % of one processor, {after:.1} % in the ten seconds before; {} MB",
        cluster.memory() / 1024
    );
    pods.delete_collection(&DeleteParams::default().grace_period(1), &ListParams::default()).await.expect("they go");
    while real && !pods.list(&ListParams::default()).await.expect("a list").items.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    took
}

/// When each Pod was first seen Running.
async fn running(pods: Api<Pod>, count: usize) -> BTreeMap<String, Instant> {
    let events = pods.watch(&WatchParams::default(), "0").await.expect("a watch");
    let mut events = std::pin::pin!(events);
    let mut seen = BTreeMap::new();
    while seen.len() < count {
        let event = events.try_next().await.expect("the watch goes on").expect("the watch goes on");
        let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
        let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if let Some(name) = pod.metadata.name.filter(|_| runs) {
            seen.entry(name).or_insert_with(Instant::now);
        }
    }
    seen
}

/// Nobody else has a bridge of this name.
fn take_away(bridge: &str) {
    let _ = Command::new("ip").args(["link", "del", bridge]).stderr(Stdio::null()).status();
}

struct Cluster {
    child: Child,
    client: Client,
    directory: TempDir,
}

impl Cluster {
    async fn start(flags: &[&str]) -> Cluster {
        let directory = tempfile::tempdir().expect("a directory");
        let child = Command::new(env!("CARGO_BIN_EXE_pintle"))
            .args(["up", "--listen", "127.0.0.1:16551", "--data-dir"])
            .arg(directory.path().join("data"))
            .args(flags)
            .stdout(Stdio::null())
            .spawn()
            .expect("pintle starts");
        let file = directory.path().join("data/admin.kubeconfig");
        let client = loop {
            if let Ok(config) = Kubeconfig::read_from(&file) {
                let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
                let client = Client::try_from(config.expect("a configuration")).expect("a client");
                let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(client.clone());
                if nodes.list(&ListParams::default()).await.is_ok_and(|nodes| !nodes.items.is_empty()) {
                    break client;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        Cluster { child, client, directory }
    }

    /// Seconds of processor that the program itself has used.
    fn processor_time(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks =
            |index: usize| after.split_whitespace().nth(index).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Percent of one processor that the program uses in ten seconds.
    async fn share_of_processor(&self) -> f64 {
        let before = self.processor_time();
        tokio::time::sleep(Duration::from_secs(10)).await;
        (self.processor_time() - before) * 10.0
    }

    /// Resident kilobytes.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        // It leaves its bridge for the Pods that run on; here none does.
        let network = std::fs::read(self.directory.path().join("data/node/containerd/cni/10-pintle.conflist"));
        let network: serde_json::Value = serde_json::from_slice(&network.unwrap_or_default()).unwrap_or_default();
        let plugins = network["plugins"].as_array().into_iter().flatten();
        plugins.filter_map(|plugin| plugin["bridge"].as_str()).for_each(take_away);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn rate(count: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / took.as_secs_f64()
}

/// An image with a static busybox.
fn busybox(directory: &Path) -> std::path::PathBuf {
    let script = include_str!("../../container/tests/busybox.sh");
    let made = Command::new("sh").args(["-c", script]).current_dir(directory).status().expect("sh starts");
    assert!(made.success());
    directory.join("image.tar")
}
