//! Two servers over one etcd: they act as one, and when one of them is killed under load nothing is lost.

use super::clients::{self, Run};
use super::harness::program::Place;
use super::ledger::{Complaints, History, Ledger, Mirror};
use super::{connect, start_again};
use crate::harness::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use pintle_meta::Random;
use pintle_store::etcd::testing::Etcd;

const CLIENTS: usize = 4;

/// Writes through one server and reads through the other, each time at once.
async fn read_through_the_other(one: &Api<ConfigMap>, other: &Api<ConfigMap>, times: usize) {
    for n in 0..times {
        let name = format!("passed-{n}");
        let object = clients::object(&name, "passed on", None);
        let written = one.create(&PostParams::default(), &object).await.expect("a write");
        let read = other.get(&name).await.expect("what was written is there at once");
        assert_eq!(read.resource_version(), written.resource_version());
    }
}

/// Waits until so many more writes were acknowledged.
async fn under_load(run: &Run, writes: usize) {
    let wanted = run.history.count() + writes;
    eventually("the clients write", async || {
        let count = run.history.count();
        if count >= wanted { Ok(()) } else { Err(format!("{count} of {wanted}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_servers_over_one_etcd_one_is_killed_and_nothing_is_lost() {
    let etcd = Etcd::start();
    let url = format!("etcd://{}", etcd.members[0].endpoint);
    let (first, second) = (Place::new(), Place::new());
    let pki = first.path("pki");
    let shared = ["--store", &url, "--pki", pki.to_str().expect("UTF-8")];
    let mut one = first.up(&[&shared[..], &["--nodes", "1"]].concat()).await;
    let mut other = second.up(&[&shared[..], &["--nodes", "0"]].concat()).await;
    let kubectl = second.kubectl();

    let run = Run { history: History::default(), complaints: Complaints::default() };
    let random = Random::seeded(1);
    let api = async |place: &Place| connect(&place.path("kubeconfig")).await.expect("a client");
    read_through_the_other(&api(&first).await, &api(&second).await, 100).await;
    first.kubectl().ok("create deployment web --image=nginx --replicas=2").await;
    kubectl.until("get deployment web -o jsonpath={.status.readyReplicas}", |ready| ready == "2").await;

    // Half of the clients write through each, and one watches through the second all that both write.
    let mut writers = Vec::new();
    for client in 0..2 * CLIENTS {
        let api = api(if client < CLIENTS { &first } else { &second }).await;
        let seeded = Random::seeded(random.next());
        writers.push(tokio::spawn(clients::write(api, client, Ledger::default(), seeded, run.clone())));
    }
    let watcher = tokio::spawn(clients::watch(api(&second).await, Mirror::default(), run.clone()));
    under_load(&run, 200).await;
    one.child.start_kill().expect("the first still runs");
    one.child.wait().await.expect("the state of a child");
    // The second goes on, alone.
    under_load(&run, 200).await;
    other.child.start_kill().expect("the second still runs");
    other.child.wait().await.expect("the state of a child");
    let (mut ledgers, mut acknowledged) = (Vec::new(), Vec::new());
    for writer in writers {
        let ended = tokio::time::timeout(PATIENCE, writer).await.expect("a killed server answers nobody");
        let (ledger, count) = ended.expect("a writer");
        ledgers.push(ledger);
        acknowledged.push(count);
    }
    let mirror =
        tokio::time::timeout(PATIENCE, watcher).await.expect("a killed server tells nobody").expect("a watcher");
    mirror.check(&run.history, &run.complaints);

    let (_again, api, _) = start_again(&second, &shared).await;
    let (found, _) = clients::list(&api, &run).await.expect("a list");
    for ledger in &mut ledgers {
        ledger.reconcile(&found, &mirror, &run.complaints);
    }
    println!(
        "two servers, one etcd: {} acknowledged writes, {} events watched, {} lost, {} gaps",
        acknowledged.iter().sum::<usize>(),
        mirror.events.len(),
        run.complaints.count("lost"),
        run.complaints.count("gap"),
    );
    assert_eq!(run.complaints.summary(), "");
    assert!(acknowledged.iter().all(|count| *count > 0) && !mirror.events.is_empty(), "{acknowledged:?}");
    // The loops that the first had led are led again once its Leases have run out.
    kubectl.ok("scale deployment web --replicas=3").await;
    kubectl.until("get pods -l app=web -o name", |pods| pods.lines().count() == 3).await;
}
