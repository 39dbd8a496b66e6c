//! The At operator in a whole cluster, in virtual time, with a cloud that can be down.

mod webhooks;
mod world;

use std::time::Duration;

use at_operator::types::{At, Outcome, Phase};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use world::World;

const HOUR: Duration = Duration::from_secs(3600);
/// Shorter than events live.
const HALF: Duration = Duration::from_secs(1800);

#[tokio::test(start_paused = true)]
async fn a_command_runs_once_at_its_time_and_is_done() {
    let world = World::start().await;
    world.create("later", HALF, json!({"command": "echo YAY"})).await;
    world.advance(HALF - Duration::from_secs(60)).await;
    assert_eq!((world.phase("later").await, world.pods().await), (Some(Phase::Pending), 0), "its time has not come");
    world.advance(Duration::from_secs(65)).await;
    assert_eq!((world.phase("later").await, world.pods().await), (Some(Phase::Running), 1));
    world.advance(Duration::from_secs(60)).await;
    let at = world.at("later").await;
    let status = at.status.unwrap();
    assert_eq!((status.phase, status.result), (Some(Phase::Done), Some(Outcome::Succeeded)));
    let conditions: Vec<String> = status.conditions.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
    assert_eq!(conditions, ["Reserved=True", "Scheduled=True", "Complete=True"]);
    world.advance(Duration::from_secs(300)).await;
    assert_eq!((world.phase("later").await, world.pods().await), (Some(Phase::Done), 1), "and never again");

    let events = world.cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap();
    let of_at = events.items.iter().filter(|event| event.involved_object.kind.as_deref() == Some("At"));
    let reasons: Vec<&str> = of_at.filter_map(|event| event.reason.as_deref()).collect();
    assert_eq!(reasons, ["Pending", "Running", "Done"], "people read each transition");
}

#[tokio::test(start_paused = true)]
async fn a_time_in_the_past_is_now_and_containers_are_what_a_pod_runs() {
    let world = World::start().await;
    let containers = json!({"containers": [{"name": "one", "image": "a"}, {"name": "two", "image": "b"}]});
    world.create_at("late", "2001-01-01T00:00:00Z", containers).await.unwrap();
    world.cluster.settle().await;
    assert_eq!(world.phase("late").await, Some(Phase::Running));
    let pods = world.cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap();
    let names: Vec<&str> =
        pods.items[0].spec.iter().flat_map(|spec| &spec.containers).map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_refused_with_the_field_that_is_wrong() {
    let world = World::start().await;
    let schedule = "2030-01-01T00:00:00Z";
    for (schedule, what, told) in [
        ("noon", json!({"command": "true"}), "spec.schedule"),
        (schedule, json!({}), "spec"),
        (schedule, json!({"command": "true", "containers": [{"name": "a", "image": "b"}]}), "spec"),
        (schedule, json!({"containers": [{"image": "b"}]}), "spec.containers[0].name"),
        (schedule, json!({"command": ""}), "spec.command"),
        (schedule, json!({"containers": []}), "spec.containers"),
    ] {
        let error = world.create_at("bad", schedule, what.clone()).await.unwrap_err().to_string();
        assert!(error.contains(told), "{what}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_before_the_run_moves_it_and_an_edit_after_changes_nothing() {
    let world = World::start().await;
    world.create("moved", HOUR, json!({"command": "true"})).await;
    world.cluster.settle().await;
    world.edit("moved", json!({"spec": {"schedule": world.in_time(2 * HOUR)}})).await;
    world.advance(HOUR + Duration::from_secs(60)).await;
    assert_eq!(world.phase("moved").await, Some(Phase::Pending), "it was put off");
    world.edit("moved", json!({"spec": {"schedule": world.in_time(Duration::from_secs(1))}})).await;
    world.advance(Duration::from_secs(120)).await;
    assert_eq!(world.phase("moved").await, Some(Phase::Done));
    world.edit("moved", json!({"spec": {"schedule": world.in_time(HOUR), "command": "false"}})).await;
    world.advance(2 * HOUR).await;
    let status = world.at("moved").await.status.unwrap();
    assert_eq!((status.phase, world.pods().await), (Some(Phase::Done), 1));
    assert_eq!(status.observed_generation, Some(4), "the edit was seen");
}

#[tokio::test(start_paused = true)]
async fn deletion_in_any_state_leaves_nothing_behind() {
    for (state, wait) in [(Phase::Pending, 60), (Phase::Running, 3605), (Phase::Done, 3700)] {
        for policy in [DeleteParams::background(), DeleteParams::foreground()] {
            let world = World::start().await;
            world.create("gone", HOUR, json!({"command": "true"})).await;
            world.advance(Duration::from_secs(wait)).await;
            assert_eq!((world.phase("gone").await, world.records()), (Some(state), 1));
            world.cluster.api::<At>("default").delete("gone", &policy).await.unwrap();
            world.advance(Duration::from_secs(120)).await;
            assert!(world.cluster.api::<At>("default").get_opt("gone").await.unwrap().is_none(), "{state:?}");
            assert_eq!((world.pods().await, world.records()), (0, 0), "{state:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_deletes_is_not_started_again() {
    let world = World::start().await;
    world.create("hit", Duration::from_secs(10), json!({"command": "true"})).await;
    world.advance(Duration::from_secs(12)).await;
    let pods = world.cluster.api::<Pod>("default");
    let pod = world.at("hit").await.status.unwrap().pod;
    pods.delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    world.advance(HOUR).await;
    let status = world.at("hit").await.status.unwrap();
    assert_eq!((status.phase, status.result, world.pods().await), (Some(Phase::Done), Some(Outcome::Deleted), 0));
}

#[tokio::test(start_paused = true)]
async fn while_the_cloud_is_down_nothing_runs_and_nothing_goes_and_both_are_made_up_for() {
    let world = World::start().await;
    world.cloud_is(false);
    world.create("patient", Duration::from_secs(10), json!({"command": "true"})).await;
    world.advance(HOUR).await;
    let status = world.at("patient").await.status.unwrap();
    assert_eq!((status.phase, world.pods().await), (Some(Phase::Pending), 0));
    assert!(status.conditions.iter().any(|c| c.type_ == "Reserved" && c.reason == "CloudAway"));
    world.cloud_is(true);
    world.advance(HOUR).await;
    assert_eq!((world.phase("patient").await, world.records()), (Some(Phase::Done), 1));

    world.cloud_is(false);
    world.cluster.api::<At>("default").delete("patient", &DeleteParams::default()).await.unwrap();
    world.advance(HOUR).await;
    assert_eq!(world.records(), 1, "the record waits for the cloud, and the At for the record");
    assert!(world.at("patient").await.metadata.deletion_timestamp.is_some());
    world.cloud_is(true);
    world.advance(HOUR).await;
    assert_eq!(world.records(), 0);
    assert!(world.cluster.api::<At>("default").get_opt("patient").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_operator_needs_no_more_rights_than_its_manifest_gives() {
    let world = World::start_as("system:serviceaccount:at-operator:at-operator").await;
    world.create("modest", Duration::from_secs(10), json!({"command": "true"})).await;
    world.advance(Duration::from_secs(120)).await;
    assert_eq!((world.phase("modest").await, world.records()), (Some(Phase::Done), 1));
    world.cluster.api::<At>("default").delete("modest", &DeleteParams::default()).await.unwrap();
    world.advance(Duration::from_secs(120)).await;
    assert_eq!((world.pods().await, world.records()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_condition_can_be_applied_beside_the_operators_own() {
    let world = World::start().await;
    world.create("shared", HOUR, json!({"command": "true"})).await;
    world.cluster.settle().await;
    let mine = json!({
        "apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
        "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "ByHand", "message": "",
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    let api = world.cluster.api::<At>("default");
    api.patch_status("shared", &PatchParams::apply("approver"), &Patch::Apply(mine)).await.unwrap();
    world.advance(2 * HOUR).await;
    let status = world.at("shared").await.status.unwrap();
    assert!(status.conditions.iter().any(|condition| condition.type_ == "Approved"), "{:?}", status.conditions);
    assert_eq!(status.phase, Some(Phase::Done));
}

#[test]
fn the_manifest_is_what_the_types_say() {
    let written = include_str!("../manifests/crd.yaml");
    let read: serde_json::Value = serde_saphyr::from_str(written).unwrap();
    let made = serde_json::to_value(at_operator::definition::definition().unwrap()).unwrap();
    assert_eq!(read, made, "write it anew: cargo run -p at-operator -- crd");
}
