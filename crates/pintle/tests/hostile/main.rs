//! Anonymous clients that mean harm: the server's memory stays bounded and is given back, and a neighbour who may ask is
//! answered all the while.
//!
//! The short form runs a tenth of each attack. `cargo xtask torture hostile` runs all of it on a release build, and there
//! the neighbour's 99th percentile counts too.

#[path = "../harness/mod.rs"]
mod harness;
mod stranger;

use harness::program::Place;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stranger::Stranger;
use tokio::time::Instant;

/// How much the server may grow while it is attacked, and how much of that may stay.
const MAX_GROWTH_KIB: u64 = 64 * 1024;
/// How long a neighbour may wait, 99 times of 100; looked at on a release build alone.
const MAX_P99: Duration = Duration::from_millis(50);
/// After an attack: until what it took is given back.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(30);

/// Each attack in percent of its full size.
fn percent() -> usize {
    std::env::var("PINTLE_HOSTILE_PERCENT").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

struct Target {
    pid: u32,
    stranger: Stranger,
    neighbour: kube::Client,
    before_kib: u64,
}

impl Target {
    /// Runs an attack beside a neighbour who asks for one object again and again.
    async fn under<F: Future<Output = ()>>(&self, name: &str, attack: F) {
        let over = Arc::new(AtomicBool::new(false));
        let asking = tokio::spawn(ask(self.neighbour.clone(), over.clone()));
        let watching = tokio::spawn(watch(self.pid, over.clone()));
        attack.await;
        over.store(true, Ordering::Release);
        let mut waits = asking.await.expect("the neighbour was answered");
        let peak_kib = watching.await.expect("its memory was read");
        waits.sort();
        let p99 = waits[(waits.len() * 99 / 100).min(waits.len() - 1)];
        let after_kib = self.settled().await;
        let grown = |kib: u64| kib.saturating_sub(self.before_kib);
        println!(
            "{name}: {} kB more at most, {} kB after; a neighbour asked {} times, 99 % within {p99:?}",
            grown(peak_kib),
            grown(after_kib),
            waits.len()
        );
        assert!(grown(peak_kib) <= MAX_GROWTH_KIB, "{name}: the server grew by {} kB", grown(peak_kib));
        assert!(cfg!(debug_assertions) || p99 <= MAX_P99, "{name}: a neighbour waited {p99:?}");
    }

    /// What the server keeps once it had time to give back.
    async fn settled(&self) -> u64 {
        let until = Instant::now() + GIVEN_BACK_WITHIN;
        loop {
            let now = resident_kib(self.pid);
            if now.saturating_sub(self.before_kib) <= MAX_GROWTH_KIB / 4 || Instant::now() > until {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// How long each answer took.
async fn ask(client: kube::Client, over: Arc<AtomicBool>) -> Vec<Duration> {
    let mut waits = Vec::new();
    while !over.load(Ordering::Acquire) || waits.len() < 20 {
        let request = http::Request::get("/api/v1/namespaces/default").body(Vec::new()).expect("a request");
        let began = Instant::now();
        let answer = client.request_text(request).await.expect("a neighbour is always answered");
        waits.push(began.elapsed());
        assert!(answer.contains("\"kind\":\"Namespace\""), "{answer}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    waits
}

/// The most memory that it had.
async fn watch(pid: u32, over: Arc<AtomicBool>) -> u64 {
    let mut peak = 0;
    while !over.load(Ordering::Acquire) {
        peak = peak.max(resident_kib(pid));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    peak
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_use_up_neither_memory_nor_the_patience_of_others() {
    let place = Place::new();
    let program = place.up(&["--ephemeral"]).await;
    let kubeconfig = Kubeconfig::read_from(place.path("kubeconfig")).expect("a kubeconfig");
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    let address = config.cluster_url.authority().expect("an address").to_string();
    let neighbour = kube::Client::try_from(config).expect("a client");
    let pid = program.child.id().expect("it runs");
    let stranger = Stranger::new(&address);
    // The first connections make what every connection shares.
    stranger.get("/healthz").await;
    let target = Target { pid, stranger, neighbour, before_kib: resident_kib(pid) };
    let stranger = &target.stranger;
    let share = |whole: usize| (whole * percent() / 100).max(1);

    target.under("idle connections", stranger.hold(share(1000), Duration::from_secs(3))).await;
    target.under("bodies of 3 MiB", stranger.send_bodies(share(200), 5, 3 << 20)).await;
    target.under("one byte per second", stranger.trickle(share(1000), Duration::from_secs(4))).await;
    target.under("rapid resets", stranger.reset(share(50), 400)).await;
    target.under("made-up paths", stranger.make_up_paths(share(100_000))).await;

    let metrics = target.neighbour.request_text(http::Request::get("/metrics").body(Vec::new()).expect("a request"));
    let metrics = metrics.await.expect("metrics");
    assert!(metrics.len() < 256 * 1024, "{} bytes of metrics", metrics.len());
    assert!(!metrics.contains("made-up-"), "a path that was made up became a label");
    // Newcomers with credentials get in.
    assert!(place.kubectl().ok("get namespaces -o name").await.contains("namespace/default"));
    let kept = target.settled().await.saturating_sub(target.before_kib);
    assert!(kept <= MAX_GROWTH_KIB / 2, "{kept} kB are not given back");
}
