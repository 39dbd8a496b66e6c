//! The framework against a cluster in another process, over HTTPS: the example operator runs its command.

mod harness;

use at_operator::cloud::Cloud;
use at_operator::types::{At, Phase};
use harness::eventually;
use harness::program::Place;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use pintle_runtime::{Clock, Context, Random, Shutdown};
use serde_json::json;

async fn client(place: &Place) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(place.path("kubeconfig")).expect("a kubeconfig");
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    kube::Client::try_from(config).expect("a client")
}

#[tokio::test]
async fn an_operator_works_on_a_cluster_elsewhere_as_on_one_in_its_process() {
    let place = Place::new();
    let _program = place.up(&["--ephemeral"]).await;
    let crd = concat!(env!("CARGO_MANIFEST_DIR"), "/../../operators/at/manifests/crd.yaml");
    let applied = place.kubectl().ok(&format!("apply -f {crd}")).await;
    assert!(applied.ends_with(" created\n"), "{applied}");

    let client = client(&place).await;
    let (stop, shutdown) = Shutdown::new();
    let context = Context::new(client.clone(), Clock::system(), Random::system(), shutdown);
    let operator = tokio::spawn(at_operator::reconcile::run(context, Cloud::in_directory(place.path("cloud"))));
    let ats: Api<At> = Api::namespaced(client, "default");
    let at: At = serde_json::from_value(json!({
        "apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
        "metadata": {"name": "now", "annotations": {"simulated.pintle.dev/run-for": "100ms"}},
        "spec": {"schedule": "2020-01-01T00:00:00Z", "command": "echo YAY"},
    }))
    .expect("an At");
    eventually("the resource is served and takes an At", async || {
        ats.create(&PostParams::default(), &at).await.map(drop).map_err(|e| e.to_string())
    })
    .await;
    eventually("the command is done", async || {
        let at = ats.get("now").await.map_err(|e| e.to_string())?;
        let phase = at.status.and_then(|s| s.phase);
        if phase == Some(Phase::Done) { Ok(()) } else { Err(format!("{phase:?}")) }
    })
    .await;
    stop.fire();
    operator.await.expect("the operator ends when told to");
}
