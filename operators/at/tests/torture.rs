//! The operator crashed before and after each of its writes, and under faults that seeds draw: the end must be the end of a
//! fault-free run, with one Pod and one record in the cloud per At, and then no more writes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use at_operator::cloud::Cloud;
use at_operator::types::At;
use kube::api::DeleteParams;
use pintle_testkit::{Cluster, Scenario};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The clouds of all runs, looked at when the last is over.
type Clouds = Arc<Mutex<Vec<Arc<TempDir>>>>;

fn at(name: &str, schedule: &str, run_for: &str) -> Value {
    json!({
        "apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
        "metadata": {"name": name, "namespace": "default", "annotations": {"simulated.pintle.dev/run-for": run_for}},
        "spec": {"schedule": schedule, "command": "true"},
    })
}

async fn start(cluster: Arc<Cluster>, clouds: Clouds) {
    let crd: Value = serde_saphyr::from_str(include_str!("../manifests/crd.yaml")).unwrap();
    cluster.apply(crd).await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    clouds.lock().unwrap().push(directory.clone());
    cluster
        .run("at-operator", move |context| at_operator::reconcile::run(context, Cloud::in_directory(directory.path())));
}

/// One that runs and stays, one deleted before its time, one that is late and is deleted while it runs.
async fn story(cluster: Arc<Cluster>) {
    let soon = pintle_meta::clock::rfc3339(cluster.clock.now() + Duration::from_secs(5));
    let later = pintle_meta::clock::rfc3339(cluster.clock.now() + Duration::from_secs(3600));
    for object in [at("kept", &soon, "2s"), at("dropped", &later, "1s"), at("cut", "2020-01-01T00:00:00Z", "100s")] {
        cluster.create(object).await.unwrap();
    }
    cluster.advance(Duration::from_secs(12)).await;
    for name in ["dropped", "cut"] {
        cluster.api::<At>("default").delete(name, &DeleteParams::default()).await.unwrap();
    }
    cluster.advance(Duration::from_secs(20)).await;
}

fn scenario(clouds: &Clouds) -> Scenario {
    let clouds = clouds.clone();
    Scenario::of("at-operator")
        // Without its service account no Pod would be admitted, and nothing would be tested.
        .on(Cluster::builder().loops(&["garbage", "serviceaccount"]))
        .setup(move |cluster| start(cluster, clouds.clone()))
        .steps(story)
        .patience(Duration::from_secs(120))
}

fn nothing_leaked(clouds: &Clouds) {
    for cloud in clouds.lock().unwrap().iter() {
        let records = std::fs::read_dir(cloud.path()).unwrap().count();
        assert_eq!(records, 1, "one At is left, and so is its record: {}", cloud.path().display());
    }
}

#[test]
fn no_crash_runs_a_command_twice_or_leaves_a_record_behind() {
    let clouds = Clouds::default();
    let swept = scenario(&clouds).sweep();
    nothing_leaked(&clouds);
    println!("{} writes, {} crashes", swept.writes, swept.crashes);
}

#[test]
fn no_fault_of_the_server_or_its_watches_changes_how_it_ends() {
    let clouds = Clouds::default();
    let count = std::env::var("PINTLE_CONTROLLER_SEEDS").ok().and_then(|count| count.parse().ok());
    let explored = scenario(&clouds).explore(1..1 + count.unwrap_or(6));
    nothing_leaked(&clouds);
    println!("{explored} seeds");
}
