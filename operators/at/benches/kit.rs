//! What the test kit costs: starting a cluster, a thousand small tests, and a day in which an At runs every hour.
//!
//! `cargo bench -p at-operator --bench kit`, or `cargo xtask bench kit`; behind `--`, `start`, `tests`
//! or `day` runs that part. Every figure is real time; the day is virtual.

use std::time::{Duration, Instant};

use at_operator::cloud::Cloud;
use at_operator::types::{At, Phase};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use pintle_testkit::{Builder, Cluster};
use serde_json::{Value, json};

const TESTS: usize = 1000;
const HOUR: Duration = Duration::from_secs(3600);

fn main() {
    // Cargo passes flags of its own.
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let parts: [(&str, fn()); 3] = [("start", starts), ("tests", thousand), ("day", virtual_day)];
    for (name, run) in parts {
        if named.is_empty() || named.iter().any(|named| named == name) {
            run();
        }
    }
}

fn starts() {
    let starts: Vec<Duration> = (0..20).map(|_| timed(|| block_on(async { drop(Cluster::start().await) }))).collect();
    println!("start, all loops, one node: {} (median of 20)", millis(median(starts)));
    let bare: Vec<Duration> = (0..20).map(|_| timed(|| block_on(async { drop(Cluster::bare().await) }))).collect();
    println!("start, API server alone:    {} (median of 20)", millis(median(bare)));
    let settled: Vec<Duration> = (0..20).map(|_| timed(|| block_on(start_and_settle()))).collect();
    println!("start and settle:           {} (median of 20)", millis(median(settled)));
}

fn thousand() {
    let tests = timed(|| {
        std::thread::scope(|scope| {
            for half in 0..2 {
                scope.spawn(move || (0..TESTS / 2).for_each(|test| block_on(replicas(half * TESTS + test))));
            }
        });
    });
    println!("{TESTS} tests on 2 threads:     {:.1} s", tests.as_secs_f64());
}

fn virtual_day() {
    let report = |what: &str, cluster: fn() -> Builder| {
        let days = (0..3).map(|_| timed(|| block_on(async { day(cluster().start().await).await }))).collect();
        println!("24 h, an At every hour:     {:.2} s with {what} (median of 3)", median(days).as_secs_f64());
    };
    report("the loops that it needs, a beat every 15 min", || {
        Cluster::builder().loops(&["serviceaccount", "nodelifecycle"]).lease(HOUR)
    });
    report("all loops, a beat every 15 min", || Cluster::builder().lease(HOUR));
    report("all loops, a beat every 10 s", Cluster::builder);
}

async fn start_and_settle() {
    Cluster::start().await.settle().await;
}

/// One create-reconcile-settle: a ReplicaSet gets its Pods.
async fn replicas(seed: usize) {
    let cluster = Cluster::builder().seed(seed as u64).loops(&["serviceaccount", "replicaset"]).start().await;
    let labels = json!({"app": "web"});
    cluster
        .apply(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        }))
        .await;
    cluster.settle().await;
    let set = cluster.api::<ReplicaSet>("default").get("web").await.expect("the set is there");
    assert_eq!(set.status.map(|status| status.replicas), Some(2));
}

async fn day(cluster: Cluster) {
    let directory = std::env::temp_dir().join(format!("pintle-bench-{}", std::process::id()));
    let crd: Value = serde_saphyr::from_str(include_str!("../manifests/crd.yaml")).expect("the manifest is YAML");
    cluster.apply(crd).await;
    tokio::spawn(at_operator::reconcile::run(cluster.context().clone(), Cloud::in_directory(&directory)));
    cluster.settle().await;
    let start = cluster.clock.now();
    for hour in 1..=24u32 {
        let due = pintle_meta::clock::rfc3339(start + HOUR * hour);
        let at = json!({
            "apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
            "metadata": {"name": format!("at-{hour}"), "namespace": "default",
                         "annotations": {"simulated.pintle.dev/run-for": "10s"}},
            "spec": {"schedule": due, "command": "true"},
        });
        cluster.create(at).await.expect("the At is accepted");
    }
    cluster.advance(Duration::from_secs(24 * 3600 + 60)).await;
    let ats = cluster.api::<At>("default").list(&ListParams::default()).await.expect("a list");
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.expect("a list");
    let done = ats.items.iter().filter(|at| at.status.as_ref().and_then(|s| s.phase) == Some(Phase::Done)).count();
    assert_eq!((done, pods.items.len()), (24, 24));
    // A directory that cannot be removed is left to the system.
    let _ = std::fs::remove_dir_all(directory);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(future)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
