//! `kill -9` under load, again and again: what was acknowledged is there, and no revision is given out twice.
//!
//! Eight clients write over HTTPS and one watches. The program is killed at seeded moments and started again on the same
//! directory; then everything that clients were told is compared with what is there. `PINTLE_KILLS` says how often,
//! `PINTLE_SEED` at which moments; `cargo xtask torture kills` runs the long form on a release build.

#[path = "../harness/mod.rs"]
mod harness;

mod clients;
mod ledger;
mod shared;

use clients::Run;
use harness::PATIENCE;
use harness::program::{Place, Program};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use ledger::{Complaints, History, Ledger, Mirror};
use pintle_meta::Random;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

const CLIENTS: usize = 8;

/// What a release build promises; a debug build on a busy machine is only asked whether it loses anything.
const READY_WITHIN: Duration = Duration::from_secs(2);
const WRITES_A_SECOND: f64 = 500.0;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// A connection of its own, as every client has.
async fn connect(kubeconfig: &Path) -> Option<Api<ConfigMap>> {
    let config = Kubeconfig::read_from(kubeconfig).ok()?;
    let mut config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.ok()?;
    // A write is sent once: what was sent twice could not be told from what was applied twice.
    config.default_retry = false;
    Some(Api::namespaced(kube::Client::try_from(config).ok()?, "default"))
}

/// Starts the program again on its directory; how long it took until `/readyz` said yes.
async fn start_again(place: &Place, more: &[&str]) -> (Program, Api<ConfigMap>, Duration) {
    // It listens elsewhere each time and says so in the file before its first answer; until then the file tells the way
    // to one that is dead.
    let (data, kubeconfig) = (place.path("data"), place.path("kubeconfig"));
    let (data, file) = (data.to_str().expect("UTF-8"), kubeconfig.to_str().expect("UTF-8"));
    let mut flags = vec!["up", "--listen", "127.0.0.1:0", "--nodes", "0", "--data-dir", data];
    flags.extend(["--write-kubeconfig", file]);
    flags.extend(more);
    let started = Instant::now();
    let mut program = place.start(&flags);
    loop {
        if let Some(status) = program.child.try_wait().expect("the state of a child") {
            panic!("pintle ended with {status}");
        }
        if let Some(api) = connect(&kubeconfig).await {
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            if api.clone().into_client().request_text(request).await.is_ok_and(|said| said == "ok") {
                return (program, api, started.elapsed());
            }
        }
        assert!(started.elapsed() < PATIENCE, "pintle does not become ready");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_it_keeps_every_acknowledged_write_and_repeats_no_revision() {
    let (kills, seed) = (number("PINTLE_KILLS", 4), number("PINTLE_SEED", 1));
    let random = Random::seeded(seed);
    let place = Place::new();
    let run = Run { history: History::default(), complaints: Complaints::default() };
    let mut ledgers: Vec<Ledger> = (0..CLIENTS).map(|_| Ledger::default()).collect();
    let (mut mirror, mut acknowledged) = (Mirror::default(), 0);
    let (mut under_load, mut slowest) = (Duration::ZERO, Duration::ZERO);

    // The first start makes the directory, which is no part of getting ready again.
    let data = place.path("data");
    let mut program = place.up(&["--nodes", "0", "--data-dir", data.to_str().expect("UTF-8")]).await;
    for kill in 1..=kills {
        let mut writers = Vec::new();
        let kubeconfig = place.path("kubeconfig");
        for (client, ledger) in std::mem::take(&mut ledgers).into_iter().enumerate() {
            let api = connect(&kubeconfig).await.expect("a client");
            writers.push(tokio::spawn(clients::write(api, client, ledger, Random::seeded(random.next()), run.clone())));
        }
        let api = connect(&kubeconfig).await.expect("a client");
        let watcher = tokio::spawn(clients::watch(api, std::mem::take(&mut mirror), run.clone()));
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(50 + random.below(451))).await;
        program.child.start_kill().expect("the program still runs");
        under_load += began.elapsed();
        program.child.wait().await.expect("the state of a child");
        for writer in writers {
            let (ledger, count) = tokio::time::timeout(PATIENCE, writer)
                .await
                .expect("a killed server answers nobody")
                .expect("a writer");
            ledgers.push(ledger);
            acknowledged += count;
        }
        mirror =
            tokio::time::timeout(PATIENCE, watcher).await.expect("a killed server tells nobody").expect("a watcher");
        mirror.check(&run.history, &run.complaints);

        let newest = run.history.newest();
        let (again, api, ready_after) = start_again(&place, &[]).await;
        program = again;
        slowest = slowest.max(ready_after);
        let (found, revision) = clients::list(&api, &run).await.expect("a list");
        if revision < newest {
            run.complaints.reused(format!("after kill {kill} the store is at {revision}, and {newest} had been seen"));
        }
        for ledger in &mut ledgers {
            ledger.reconcile(&found, &mirror, &run.complaints);
        }
    }

    let per_second = acknowledged as f64 / under_load.as_secs_f64();
    println!(
        "{kills} kills (seed {seed}): {acknowledged} acknowledged writes, {per_second:.0} a second, {} lost, {} revisions \
         reused or reversed, {} gaps in the watch ({} resumed, {} told to list again), ready again after {} ms at worst",
        run.complaints.count("lost"),
        run.complaints.count("reused"),
        run.complaints.count("gap"),
        mirror.resumed,
        mirror.gone,
        slowest.as_millis(),
    );
    assert_eq!(run.complaints.summary(), "");
    assert!(acknowledged > 0 && !mirror.latest.is_empty(), "nothing was tested");
    let names = place.kubectl().ok("get configmaps -o name").await;
    let held = ledgers.iter().flat_map(|ledger| ledger.held.values()).flatten().count();
    assert_eq!(names.matches("configmap/client-").count(), held, "kubectl finds another number of objects");
    if !cfg!(debug_assertions) {
        assert!(slowest <= READY_WITHIN, "ready only after {slowest:?}");
        assert!(per_second >= WRITES_A_SECOND, "{per_second:.0} writes a second are no load");
    }
}
