//! What the framework promises a loop around its reconciles: its own writes are seen, stuck keys are named, work in hand is finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use pintle_runtime::{Action, Attempt, Controller, Error, Informer, Key, LeaderConfig, Manager, Random, Reconciler};
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use tokio::sync::oneshot;

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

/// Makes Secrets until it sees three, one at a time, and looks again every second.
struct Counting {
    secrets: Informer<Secret>,
}

impl Reconciler for Counting {
    async fn reconcile(&self, _: &Key, attempt: &Attempt) -> Result<Action, Error> {
        if self.secrets.in_namespace("default").len() < 3 {
            let secret = serde_json::from_value(json!({"metadata": {"generateName": "one-of-three-"}})).unwrap();
            attempt.api::<Secret>().create(&PostParams::default(), &secret).await?;
        }
        Ok(Action::requeue_after(Duration::from_secs(1)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_whose_watch_is_late_does_not_do_again_what_it_has_done() {
    let cluster = Cluster::bare().await;
    cluster.faults.on("counting").to("secrets").delay_events(Duration::from_secs(20));
    cluster.run("counting", |context| async move {
        let (maps, secrets) = (context.informers.of::<ConfigMap>(), context.informers.of::<Secret>());
        let loop_of = Controller::new("counting", &context);
        let of_map = |change: &pintle_runtime::Change<ConfigMap>| match change.key().name() {
            "wanted" => vec![change.key()],
            _ => Vec::new(),
        };
        loop_of.watch(&maps, of_map).watch(&secrets, |_| Vec::new()).run(Counting { secrets }).await;
    });
    cluster.apply(config_map("wanted")).await;
    cluster.advance(Duration::from_secs(300)).await;
    let made = cluster.api::<Secret>("default").list(&ListParams::default()).await.expect("a list");
    assert_eq!(made.items.len(), 3);
}

/// Never comes back from one key, and marks the others.
struct Stuck;

impl Reconciler for Stuck {
    async fn reconcile(&self, key: &Key, attempt: &Attempt) -> Result<Action, Error> {
        if key.name() == "stuck" {
            std::future::pending::<()>().await;
        }
        let patch = Patch::Merge(json!({"data": {"seen": "yes"}}));
        attempt.api::<ConfigMap>().patch(key.name(), &PatchParams::default(), &patch).await?;
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_stuck_is_named_and_holds_up_no_other() {
    let cluster = Cluster::bare().await;
    let manager = Manager::new("test", cluster.client(), cluster.clock.clone(), Random::seeded(1))
        .stuck_after(Duration::from_secs(60))
        .run("stuck", |context| async move {
            let maps = context.informers.of::<ConfigMap>();
            let of_default = |change: &pintle_runtime::Change<ConfigMap>| match change.key().namespace() {
                "default" => vec![change.key()],
                _ => Vec::new(),
            };
            Controller::new("stuck", &context).workers(2).watch(&maps, of_default).run(Stuck).await;
        });
    let board = manager.board.clone();
    tokio::spawn(manager.until(std::future::pending()));
    for name in ["stuck", "first", "second"] {
        cluster.apply(config_map(name)).await;
    }
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(board.stuck(Duration::from_secs(60)).is_empty());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let stuck = board.stuck(Duration::from_secs(60));
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    assert_eq!((stuck[0].0.as_str(), stuck[0].1.name()), ("stuck", "stuck"));
    for name in ["first", "second"] {
        let map = cluster.api::<ConfigMap>("default").get(name).await.expect("it is there");
        assert_eq!(map.data.unwrap_or_default()["seen"], "yes");
    }
}

/// Takes ten seconds for each key, and counts what it has finished.
struct Slow(Arc<AtomicUsize>);

impl Reconciler for Slow {
    async fn reconcile(&self, _: &Key, _: &Attempt) -> Result<Action, Error> {
        tokio::time::sleep(Duration::from_secs(10)).await;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_hand_is_finished_before_a_process_stops_and_gives_its_lease_back() {
    let cluster = Cluster::bare().await;
    cluster.apply(config_map("slow")).await;
    let finished = Arc::new(AtomicUsize::new(0));
    let counter = finished.clone();
    let lease = LeaderConfig { namespace: "default".to_owned(), ..LeaderConfig::new("slow", "one") };
    let manager = Manager::new("test", cluster.client(), cluster.clock.clone(), Random::seeded(1)).elect(lease).run(
        "slow",
        move |context| {
            let counter = counter.clone();
            async move {
                let maps = context.informers.of::<ConfigMap>();
                let only = |change: &pintle_runtime::Change<ConfigMap>| match change.key().name() {
                    "slow" => vec![change.key()],
                    _ => Vec::new(),
                };
                Controller::new("slow", &context).watch(&maps, only).run(Slow(counter)).await;
            }
        },
    );
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.until(async { drop(stopped.await) }));
    let leases: Api<Lease> = cluster.api("default");
    let holder = async || {
        let lease = leases.get_opt("slow").await.expect("an answer");
        lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((holder().await.as_str(), finished.load(Ordering::Relaxed)), ("one", 0));
    drop(stop);
    running.await.expect("it ends").expect("and has run well");
    assert_eq!((holder().await.as_str(), finished.load(Ordering::Relaxed)), ("", 1));
}

#[tokio::test(start_paused = true)]
async fn a_loop_whose_view_is_known_to_be_behind_waits_until_it_is_not() {
    let cluster = Cluster::bare().await;
    cluster.run("counting", |context| async move {
        let (maps, secrets) = (context.informers.of::<ConfigMap>(), context.informers.of::<Secret>());
        let of_map = |change: &pintle_runtime::Change<ConfigMap>| match change.key().name() {
            "wanted" => vec![change.key()],
            _ => Vec::new(),
        };
        let counting = Controller::new("counting", &context).watch(&maps, of_map).watch(&secrets, |_| Vec::new());
        counting.run(Counting { secrets }).await;
    });
    let made = async || cluster.api::<Secret>("default").list(&ListParams::default()).await.expect("a list").items;
    cluster.settle().await;
    // Its watch of Secrets ends, and the list that must follow is refused for a while.
    cluster.faults.on("counting").to("secrets").drop_events(Duration::from_secs(1));
    cluster.faults.on("counting").to("secrets").reads().fail(1, 5, 500);
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}}))
        .await
        .expect("it is made");
    cluster.advance(Duration::from_secs(2)).await;
    cluster.apply(config_map("wanted")).await;
    cluster.advance(Duration::from_secs(3)).await;
    assert_eq!(made().await.len(), 1, "nothing is made on a view that lacks the first");
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(made().await.len(), 3);
}

/// What people would lose: a process that looks well and does nothing.
#[tokio::test(start_paused = true)]
async fn a_process_is_ready_when_its_informers_have_synced_and_says_why_they_have_not() {
    let cluster = Cluster::bare().await;
    let nobody = cluster.client_as("nobody", &[]);
    for (client, is_ready) in [(nobody, false), (cluster.client(), true)] {
        let manager =
            Manager::new("test", client, cluster.clock.clone(), Random::seeded(1)).run("maps", |context| async move {
                let maps = context.informers.of::<ConfigMap>();
                Controller::new("maps", &context).watch(&maps, |_| Vec::new()).run(Slow(Arc::default())).await;
            });
        let health = manager.health.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(manager.until(async { drop(stopped.await) }));
        tokio::time::sleep(Duration::from_secs(10)).await;
        match health.not_ready() {
            None => assert!(is_ready),
            Some(why) => {
                assert!(!is_ready, "{why}");
                assert!(why.contains("/api/v1/configmaps") && why.contains("forbidden"), "{why}");
            }
        }
        drop(stop);
        running.await.expect("it ends").expect("and has run well");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_loop_has_ended_does_not_go_on_without_it() {
    let cluster = Cluster::bare().await;
    let manager = Manager::new("test", cluster.client(), cluster.clock.clone(), Random::seeded(1))
        .run("short", |_| async {})
        .run("long", |context| async move { context.shutdown.fired().await });
    let ended = manager.until(std::future::pending()).await.expect_err("a part of it is missing");
    assert_eq!(ended.to_string(), "short ended before the process was told to stop");
}
