//! The operator's webhooks in a real cluster in virtual time, over TLS, registered by themselves: what people write is completed,
//! refused or converted, and what happens while nobody answers.

use std::time::Duration;

use at_operator::types::{At, Phase, v1beta1};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use pintle_testkit::Lie;
use serde_json::json;

use crate::world::World;

const OPERATOR: &str = "system:serviceaccount:at-operator:at-operator";
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn an_at_without_a_schedule_runs_at_once() {
    let world = World::start_as(OPERATOR).await;
    let _webhook = world.with_webhooks().await;
    let now = world.in_time(Duration::ZERO);
    let at = json!({"apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
        "metadata": {"name": "now", "namespace": "default"}, "spec": {"command": "true"}});
    world.cluster.create(at).await.unwrap();
    assert_eq!(world.at("now").await.spec.schedule, now);
    world.cluster.settle().await;
    assert_eq!(world.phase("now").await, Some(Phase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_mistake_is_told_to_the_person_who_makes_it() {
    let world = World::start_as(OPERATOR).await;
    let _webhook = world.with_webhooks().await;
    world.create("soon", Duration::from_secs(10), json!({"command": "true"})).await;
    world.edit("soon", json!({"spec": {"command": "false"}})).await;
    world.advance(Duration::from_secs(12)).await;
    assert_eq!(world.phase("soon").await, Some(Phase::Running));
    let api = world.cluster.api::<At>("default");
    let late = Patch::Merge(json!({"spec": {"command": "true"}}));
    let error = api.patch("soon", &PatchParams::default(), &late).await.unwrap_err().to_string();
    assert!(error.contains("validate.ats.cnat.programming-kubernetes.info") && error.contains("is running"), "{error}");
    // What is not of the type is refused with the field, before any handler sees it.
    let wrong = json!({"apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
        "metadata": {"name": "wrong", "namespace": "default"}, "spec": {"command": 7}});
    let error = world.cluster.create(wrong).await.unwrap_err().to_string();
    assert!(error.contains("not a valid At") && error.contains("string"), "{error}");
    world.advance(HOUR).await;
    assert_eq!(world.phase("soon").await, Some(Phase::Done), "the operator's own writes pass");
    api.delete("soon", &DeleteParams::default()).await.unwrap();
    world.advance(HOUR).await;
    assert!(api.get_opt("soon").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_at_is_the_same_in_both_versions() {
    let world = World::start_as(OPERATOR).await;
    let _webhook = world.with_webhooks().await;
    let new: Api<v1beta1::At> = world.cluster.api("default");
    let run = v1beta1::Run { command: "true".into(), ..v1beta1::Run::default() };
    let spec = v1beta1::AtSpec { time: world.in_time(HOUR), run };
    let mut at = v1beta1::At::new("new", spec.clone());
    at.annotations_mut().insert("simulated.pintle.dev/run-for".into(), "10s".into());
    new.create(&PostParams::default(), &at).await.unwrap();
    let old = world.at("new").await;
    assert_eq!((old.spec.schedule.as_str(), old.spec.command.as_str()), (spec.time.as_str(), "true"));
    world.create("old", HOUR, json!({"containers": [{"name": "c", "image": "i"}]})).await;
    assert_eq!(new.get("old").await.unwrap().spec.run.containers[0].name, "c");

    // A write in either version is one of the same object, completed and judged in the operator's.
    let sooner = Patch::Merge(json!({"spec": {"time": world.in_time(Duration::from_secs(60))}}));
    new.patch("new", &PatchParams::default(), &sooner).await.unwrap();
    world.advance(Duration::from_secs(90)).await;
    assert_eq!(world.phase("new").await, Some(Phase::Done));
    let late = Patch::Merge(json!({"spec": {"run": {"command": "false"}}}));
    let error = new.patch("new", &PatchParams::default(), &late).await.unwrap_err().to_string();
    assert!(error.contains("is over"), "{error}");
    let status = new.get("new").await.unwrap().status.unwrap();
    assert_eq!(Some(status), world.at("new").await.status);
}

#[tokio::test(start_paused = true)]
async fn while_nobody_answers_no_at_is_written_and_those_that_are_there_run() {
    let world = World::start_as(OPERATOR).await;
    let webhook = world.with_webhooks().await;
    world.create("early", Duration::from_secs(30), json!({"command": "true"})).await;
    world.cluster.settle().await;
    let write = async |name: &str| world.create_at(name, &world.in_time(HOUR), json!({"command": "true"})).await;
    webhook.down();
    let error = write("refused").await.unwrap_err().to_string();
    assert!(error.contains("failed calling webhook"), "{error}");
    world.advance(Duration::from_secs(120)).await;
    assert_eq!(world.phase("early").await, Some(Phase::Done));
    webhook.well();
    webhook.slow(Duration::from_secs(60));
    let error = write("late").await.unwrap_err().to_string();
    assert!(error.contains("context deadline exceeded"), "{error}");
    webhook.well();
    for lie in [Lie::WrongUid, Lie::Nonsense, Lie::Huge, Lie::BadPatch] {
        webhook.lies(lie);
        assert!(write("lied").await.is_err(), "{lie:?}");
    }
    // A yes that is no yes of its own stores nothing that the schema refuses.
    webhook.lies(Lie::Yes);
    let error = world.create_at("empty", &world.in_time(HOUR), json!({})).await.unwrap_err().to_string();
    assert!(error.contains("spec"), "{error}");
    webhook.well();
    write("well").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn webhooks_that_somebody_deletes_or_changes_are_registered_again() {
    let world = World::start_as(OPERATOR).await;
    let _webhook = world.with_webhooks().await;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(world.cluster.client());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(world.cluster.client());
    mutating.delete("at-operator", &DeleteParams::default()).await.unwrap();
    let open = Patch::Merge(json!({"webhooks": []}));
    validating.patch("at-operator", &PatchParams::default(), &open).await.unwrap();
    world
        .cluster
        .eventually("both are back", async || {
            let hooks = mutating.get_opt("at-operator").await.unwrap()?.webhooks?.len();
            let others = validating.get("at-operator").await.unwrap().webhooks?.len();
            (hooks == 1 && others == 1).then_some(())
        })
        .await;
    world.create("after", Duration::from_secs(5), json!({"command": "true"})).await;
    world.advance(HOUR).await;
    let late = Patch::Merge(json!({"spec": {"command": "false"}}));
    let api = world.cluster.api::<At>("default");
    let error = api.patch("after", &PatchParams::default(), &late).await.unwrap_err().to_string();
    assert!(error.contains("is over"), "{error}");
}
