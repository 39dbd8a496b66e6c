//! The framework against a cluster in another process, over HTTPS through a kubeconfig: one operator, and a pair.
//!
//! `PINTLE_OTHER_KUBECONFIG` names a cluster that is not ours, such as a kube-apiserver: the same operators then run there,
//! unchanged, one test after the other. If it has no nodes, give it `--disable-admission-plugins=ServiceAccount`; the tests
//! end its Pods themselves.

mod harness;

use std::collections::BTreeMap;
use std::time::Duration;

use at_operator::cloud::Cloud;
use at_operator::types::{At, Phase};
use harness::eventually;
use harness::program::{Place, Program};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use pintle_runtime::{Clock, LeaderConfig, Manager, Random};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, oneshot};

async fn client(place: &Place) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(place.path("kubeconfig")).expect("a kubeconfig");
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    kube::Client::try_from(config).expect("a client")
}

/// An At whose time has come, in a cluster that serves them.
async fn create(ats: &Api<At>, name: &str) {
    let at: At = serde_json::from_value(json!({
        "apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
        "metadata": {"name": name, "annotations": {"simulated.pintle.dev/run-for": "100ms"}},
        "spec": {"schedule": "2020-01-01T00:00:00Z", "command": "echo YAY"},
    }))
    .expect("an At");
    eventually("the resource is served and takes an At", async || {
        ats.create(&PostParams::default(), &at).await.map(drop).map_err(|e| e.to_string())
    })
    .await;
}

async fn is_done(ats: &Api<At>, name: &str) {
    eventually("the command is done", async || {
        let at = ats.get(name).await.map_err(|e| e.to_string())?;
        let phase = at.status.and_then(|s| s.phase);
        if phase == Some(Phase::Done) { Ok(()) } else { Err(format!("{phase:?}")) }
    })
    .await;
}

/// An operator that is not elected acts on every At of a cluster, so one test at a time has the other cluster for itself.
static OTHER: Mutex<()> = Mutex::const_new(());

/// What a test has until it is dropped: a cluster of its own, or its turn.
type Host = (Option<Program>, Option<MutexGuard<'static, ()>>);

/// Whoever ran there before may have left an At of that name.
fn fresh(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

async fn cluster(place: &Place) -> (Host, kube::Client) {
    let other = std::env::var_os("PINTLE_OTHER_KUBECONFIG");
    let host = match &other {
        Some(file) => {
            let turn = OTHER.lock().await;
            std::fs::copy(file, place.path("kubeconfig")).expect("its kubeconfig");
            (None, Some(turn))
        }
        None => (Some(place.up(&["--ephemeral"]).await), None),
    };
    for manifest in ["crd", "rbac"] {
        let file = format!("{}/../../operators/at/manifests/{manifest}.yaml", env!("CARGO_MANIFEST_DIR"));
        place.kubectl().ok(&format!("apply -f {file}")).await;
    }
    let client = client(place).await;
    if other.is_some() {
        tokio::spawn(end_pods(client.clone()));
    }
    (host, client)
}

/// What a node would do: every Pod has run well.
async fn end_pods(client: kube::Client) {
    let pods: Api<Pod> = Api::namespaced(client, "default");
    loop {
        let all = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        for pod in all {
            let name = pod.metadata.name.unwrap_or_default();
            if pod.status.and_then(|status| status.phase).as_deref() == Some("Pending") {
                let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
                // Looked at again in a moment.
                let _ = pods.patch_status(&name, &PatchParams::default(), &patch).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn an_operator_works_on_a_cluster_elsewhere_as_on_one_in_its_process() {
    let place = Place::new();
    let (_host, client) = cluster(&place).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let cloud = Cloud::in_directory(place.path("cloud"));
    let manager = Manager::new("at", client.clone(), Clock::system(), Random::system())
        .run("at-operator", move |context| at_operator::reconcile::run(context, cloud.clone()));
    let operator = tokio::spawn(manager.until(async { drop(stopped.await) }));
    let ats: Api<At> = Api::namespaced(client, "default");
    let now = fresh("now");
    create(&ats, &now).await;
    is_done(&ats, &now).await;
    drop(stop);
    operator.await.expect("the operator ends when told to").expect("and has run well");
}

#[tokio::test]
async fn of_two_operators_one_acts_and_when_it_is_lost_the_other_goes_on() {
    let place = Place::new();
    let (_host, client) = cluster(&place).await;
    let start = |identity: &str| {
        let lease = LeaderConfig {
            namespace: "at-operator".to_owned(),
            lease_duration: Duration::from_secs(3),
            renew_deadline: Duration::from_secs(2),
            retry: Duration::from_millis(300),
            ..LeaderConfig::new("at-operator", identity)
        };
        let cloud = Cloud::in_directory(place.path("cloud"));
        let manager = Manager::new("at", client.clone(), Clock::system(), Random::system())
            .elect(lease)
            .run("at-operator", move |context| at_operator::reconcile::run(context, cloud.clone()));
        tokio::spawn(manager.until(std::future::pending()))
    };
    let mut pair = BTreeMap::from(["one", "two"].map(|identity| (identity.to_owned(), start(identity))));
    let ats: Api<At> = Api::namespaced(client.clone(), "default");
    let (first, second) = (fresh("first"), fresh("second"));
    create(&ats, &first).await;
    is_done(&ats, &first).await;

    let leases: Api<Lease> = Api::namespaced(client.clone(), "at-operator");
    let before = leases.get("at-operator").await.expect("the Lease").spec.expect("a spec");
    let lost = before.holder_identity.and_then(|leader| pair.remove(&leader)).expect("one of the two leads");
    lost.abort();
    create(&ats, &second).await;
    is_done(&ats, &second).await;

    let pods: Api<Pod> = Api::namespaced(client, "default");
    let all = pods.list(&ListParams::default()).await.expect("a list").items;
    let of_pair = |pod: &&Pod| {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| [&first, &second].contains(&&owner.name))
    };
    assert_eq!(all.iter().filter(of_pair).count(), 2, "each command ran once");
    let spec = leases.get("at-operator").await.expect("the Lease").spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_ref(), pair.keys().next(), "the other leads");
    let transitions = before.lease_transitions.unwrap_or_default() + 1;
    assert_eq!(spec.lease_transitions, Some(transitions), "it changed hands once");
}
