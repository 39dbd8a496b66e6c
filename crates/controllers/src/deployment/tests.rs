//! What a user of a Deployment would lose.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus};
use pintle_runtime::plan::What;
use pintle_runtime::{Plan, conditions};
use serde_json::{Value, json};

use super::plan::{Facts, plan};

/// A Deployment and its ReplicaSets, without a server: writes are taken in, and Pods come up when told to.
struct World {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    now: Timestamp,
    events: Vec<String>,
    running: BTreeSet<String>,
    made: u32,
}

impl World {
    fn new(replicas: i32, strategy: Value) -> Self {
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 1},
            "spec": {"replicas": replicas, "strategy": strategy, "progressDeadlineSeconds": 600,
                     "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "web"}},
                     "template": {"metadata": {"labels": {"app": "web"}},
                                  "spec": {"containers": [{"name": "c", "image": "one"}]}}},
        });
        World {
            deployment: serde_json::from_value(deployment).unwrap(),
            sets: Vec::new(),
            now: Timestamp::from_second(1000).unwrap(),
            events: Vec::new(),
            running: BTreeSet::new(),
            made: 0,
        }
    }

    fn rolling(replicas: i32, surge: Value, unavailable: Value) -> Self {
        let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        World::new(replicas, json!({"type": "RollingUpdate", "rollingUpdate": limits}))
    }

    /// Changes the spec as a user would.
    fn edit(&mut self, change: impl FnOnce(&mut k8s_openapi::api::apps::v1::DeploymentSpec)) {
        change(self.deployment.spec.as_mut().unwrap());
        *self.deployment.metadata.generation.as_mut().unwrap() += 1;
    }

    fn image(&mut self, image: &str) {
        self.edit(|spec| spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into()));
    }

    /// One pass of the loop.
    fn pass(&mut self) -> Plan {
        self.now += SignedDuration::from_secs(1);
        let mut plan = plan(Facts {
            deployment: self.deployment.clone(),
            sets: self.sets.clone(),
            with_running_pods: self.running.clone(),
            now: self.now,
        });
        for write in std::mem::take(&mut plan.writes) {
            let mut set: ReplicaSet = serde_json::from_value(write.body()).unwrap_or_default();
            match write.what {
                What::Create { .. } => {
                    self.made += 1;
                    set.metadata.uid = Some(format!("set-{}", self.made));
                    set.metadata.creation_timestamp = Some(self.now.into());
                    self.sets.push(set);
                }
                What::Replace { .. } => {
                    let index = self.sets.iter().position(|present| present.metadata.uid == set.metadata.uid);
                    self.sets[index.unwrap()] = set;
                }
                What::Delete { .. } => self.sets.retain(|set| set.metadata.name.as_ref() != Some(&write.name)),
                other => panic!("{other:?}"),
            }
            self.events.extend(write.said.if_done.map(|(_, message)| message));
        }
        let update = plan.status.as_ref().unwrap();
        self.deployment.status = serde_json::from_value(update.wanted().clone()).unwrap();
        for (key, value) in update.annotations().into_iter().flat_map(|all| all.as_object().unwrap()) {
            let annotations = self.deployment.metadata.annotations.get_or_insert_default();
            annotations.insert(key.clone(), value.as_str().unwrap().to_owned());
        }
        plan
    }

    /// Every set has the Pods it asks for, and all of them serve.
    fn pods_come_up(&mut self) {
        for set in &mut self.sets {
            let replicas = size(set);
            set.status = Some(counted(replicas, replicas));
        }
    }

    /// Passes until nothing is written; checks the limits at every step.
    fn roll_out(&mut self, most: i32, least: i32) {
        for _ in 0..100 {
            let changed = changes_status(&self.pass());
            let total: i32 = self.sets.iter().map(size).sum();
            assert!(total <= most, "{total} Pods were asked for, of {most} at most");
            let lost: i32 = self.sets.iter().map(|set| (serving(set) - size(set)).max(0)).sum();
            let left = self.sets.iter().map(serving).sum::<i32>() - lost;
            assert!(left >= least, "{left} serve, of {least} at least");
            self.pods_come_up();
            if !changed {
                return;
            }
        }
        panic!("the rollout never ends");
    }

    fn status(&self) -> DeploymentStatus {
        self.deployment.status.clone().unwrap_or_default()
    }

    fn reason(&self, kind: &str) -> String {
        let status = self.status();
        let condition = conditions::find(status.conditions.as_deref().unwrap_or_default(), kind);
        condition.and_then(|condition| condition.reason.clone()).unwrap_or_default()
    }

    fn sizes(&self) -> Vec<i32> {
        self.sets.iter().map(size).collect()
    }

    fn annotation(&self, set: usize, key: &str) -> String {
        let key = format!("deployment.kubernetes.io/{key}");
        self.sets[set].metadata.annotations.as_ref().and_then(|all| all.get(&key)).cloned().unwrap_or_default()
    }

    fn revision(&self) -> String {
        self.deployment.metadata.annotations.as_ref().unwrap()["deployment.kubernetes.io/revision"].clone()
    }
}

fn changes_status(plan: &Plan) -> bool {
    plan.status.as_ref().is_some_and(|update| update.changes().is_some() || update.annotations().is_some())
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().unwrap().replicas.unwrap()
}

fn serving(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

fn counted(replicas: i32, available: i32) -> ReplicaSetStatus {
    ReplicaSetStatus {
        replicas,
        ready_replicas: Some(available),
        available_replicas: Some(available),
        terminating_replicas: Some(0),
        observed_generation: Some(1),
        ..ReplicaSetStatus::default()
    }
}

#[test]
fn a_new_deployment_gets_its_pods_and_says_so() {
    let mut world = World::rolling(3, json!("25%"), json!("25%"));
    world.pass();
    assert_eq!(world.sizes(), [3]);
    assert_eq!(
        (world.reason("Progressing"), world.reason("Available")),
        ("NewReplicaSetCreated".into(), "MinimumReplicasUnavailable".into())
    );
    let name = world.sets[0].metadata.name.clone().unwrap();
    assert_eq!(world.events, [format!("Scaled up replica set {name} from 0 to 3")]);
    world.pods_come_up();
    world.roll_out(4, 3);
    assert_eq!(
        (world.reason("Progressing"), world.reason("Available")),
        ("NewReplicaSetAvailable".into(), "MinimumReplicasAvailable".into())
    );
    let status = world.status();
    assert_eq!((status.replicas, status.updated_replicas, status.unavailable_replicas), (Some(3), Some(3), None));
    assert_eq!((status.observed_generation, status.terminating_replicas), (Some(1), Some(0)));
    assert_eq!(
        (
            world.revision().as_str(),
            world.annotation(0, "desired-replicas").as_str(),
            world.annotation(0, "max-replicas").as_str()
        ),
        ("1", "3", "4")
    );
}

#[test]
fn a_rolling_update_never_serves_less_nor_costs_more_than_allowed() {
    let cases = [
        (10, json!(3), json!(2), 13, 8),
        (10, json!("25%"), json!("25%"), 13, 8),
        (3, json!(0), json!(1), 3, 2),
        (4, json!(1), json!(0), 5, 4),
        (1, json!("25%"), json!("25%"), 2, 1),
        (5, json!(0), json!(0), 5, 4),
        (7, json!("100%"), json!("100%"), 14, 0),
    ];
    for (replicas, surge, unavailable, most, least) in cases {
        let mut world = World::rolling(replicas, surge, unavailable);
        world.pass();
        world.pods_come_up();
        world.roll_out(most, least);
        world.image("two");
        world.roll_out(most, least);
        assert_eq!(world.sizes(), [0, replicas]);
        assert_eq!(world.reason("Progressing"), "NewReplicaSetAvailable");
    }
}

#[test]
fn a_broken_new_version_stops_before_it_takes_the_service_down() {
    let mut world = World::rolling(10, json!(3), json!(2));
    world.pass();
    world.pods_come_up();
    world.roll_out(13, 8);
    world.image("broken");
    for _ in 0..10 {
        world.pass();
        world.sets[0].status = Some(counted(size(&world.sets[0]), size(&world.sets[0])));
        world.sets[1].status = Some(counted(size(&world.sets[1]), 0));
    }
    assert_eq!(world.sizes(), [8, 5]);
    world.now += SignedDuration::from_secs(601);
    world.pass();
    assert_eq!(world.reason("Progressing"), "ProgressDeadlineExceeded");
    world.image("one");
    world.pass();
    assert!(world.sizes()[1] < 5, "rolled back, the broken Pods go first: {:?}", world.sizes());
}

#[test]
fn an_undone_rollout_reuses_the_old_set_under_a_new_number() {
    let mut world = World::rolling(2, json!(1), json!(0));
    for image in ["one", "two", "one"] {
        world.image(image);
        world.pass();
        world.pods_come_up();
        world.roll_out(3, 2);
    }
    assert_eq!(world.sizes(), [2, 0]);
    assert_eq!((world.annotation(0, "revision"), world.annotation(0, "revision-history")), ("3".into(), "1".into()));
    assert_eq!(world.revision(), "3");
}

#[test]
fn recreate_ends_every_old_pod_before_the_first_new_one() {
    let mut world = World::new(3, json!({"type": "Recreate"}));
    world.pass();
    world.pods_come_up();
    world.image("two");
    world.pass();
    assert_eq!(world.sizes(), [0]);
    world.pass();
    assert_eq!(world.sizes(), [0], "its Pods are still counted");
    world.pods_come_up();
    world.running.insert("set-1".into());
    world.pass();
    assert_eq!(world.sizes(), [0], "a Pod is still ending");
    world.running.clear();
    world.pass();
    assert_eq!(world.sizes(), [0, 3]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::rolling(2, json!(1), json!(0));
    world.pass();
    world.pods_come_up();
    world.edit(|spec| spec.paused = Some(true));
    world.image("two");
    world.edit(|spec| spec.replicas = Some(5));
    world.pass();
    assert_eq!((world.sizes(), world.reason("Progressing")), (vec![5], "DeploymentPaused".into()));
    world.edit(|spec| spec.paused = Some(false));
    world.pass();
    assert_eq!(world.sizes(), [5, 1]);
}

#[test]
fn scaling_during_a_rollout_keeps_the_proportion() {
    let mut world = World::rolling(10, json!(3), json!(2));
    world.pass();
    world.pods_come_up();
    world.roll_out(13, 8);
    world.image("two");
    world.pass();
    assert_eq!(world.sizes(), [8, 3]);
    world.edit(|spec| spec.replicas = Some(20));
    world.pass();
    assert_eq!(world.sizes(), [18, 5], "23 in all, as 8 to 3");
    assert_eq!(world.annotation(0, "desired-replicas"), "20");
    world.edit(|spec| spec.replicas = Some(0));
    world.pass();
    assert_eq!(world.sizes(), [0, 0]);
}

#[test]
fn history_is_kept_up_to_its_limit() {
    let mut world = World::rolling(1, json!(1), json!(0));
    world.edit(|spec| spec.revision_history_limit = Some(2));
    for image in ["one", "two", "three", "four", "five"] {
        world.image(image);
        world.pass();
        world.pods_come_up();
        world.roll_out(2, 1);
        world.pass();
    }
    let revisions: Vec<String> = (0..world.sets.len()).map(|set| world.annotation(set, "revision")).collect();
    assert_eq!(revisions, ["3", "4", "5"]);
}

#[test]
fn a_settled_deployment_is_left_alone() {
    let mut world = World::rolling(3, json!(1), json!(1));
    world.pass();
    world.pods_come_up();
    world.roll_out(4, 2);
    let plan = world.pass();
    assert!(!changes_status(&plan) && plan.again.is_none(), "{plan:?}");
}

#[test]
fn a_stuck_rollout_is_looked_at_when_its_deadline_passes() {
    let mut world = World::rolling(1, json!(1), json!(0));
    world.pass();
    let plan = world.pass();
    assert_eq!(plan.again.map(|wait| wait.as_secs()), Some(600));
}
