//! What a loop would do wrong if its plan were carried out wrongly.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::*;
use crate::plan::Note;
use crate::shutdown::{Shutdown, Trigger};
use crate::testing::scripted;
use crate::{Action, Clock, Context, Random};

type Lines = Arc<Mutex<Vec<String>>>;

/// An executor over a server that answers as the script says, and the requests that it got, without those about Events.
struct Rig {
    executor: Executor,
    requests: Lines,
    events: Lines,
    _trigger: Trigger,
}

fn rig(answer: impl Fn(&str, &str, &Value) -> (u16, Value) + Send + Sync + 'static) -> Rig {
    let (requests, events) = (Lines::default(), Lines::default());
    let (asked, told) = (requests.clone(), events.clone());
    let client = scripted(move |method, path, body| {
        let path = path.split('?').next().unwrap_or_default();
        if path.contains("/events") {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            // A PATCH counts one that is known.
            if method == "POST" {
                told.lock().unwrap().push(format!("{} {}: {}", text("type"), text("reason"), text("message")));
            }
            return (201, body);
        }
        asked.lock().unwrap().push(format!("{method} {path}"));
        answer(method, path, &body)
    });
    let (trigger, shutdown) = Shutdown::new();
    let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    let context = Context::new(client, clock, Random::seeded(1), shutdown);
    Rig { executor: Executor::new(&context, "test"), requests, events, _trigger: trigger }
}

impl Rig {
    async fn run(&self, plan: Plan) -> Result<Action, Failed> {
        let result = self.executor.execute(&set(), plan).await;
        // Events are written by a task of their own.
        tokio::time::sleep(Duration::from_secs(1)).await;
        result
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

fn set() -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "rs", "resourceVersion": "7"},
        "status": {"replicas": 1, "observedGeneration": 1},
    }))
    .unwrap()
}

fn pod(name: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned()).filter(|name| !name.is_empty());
    pod.metadata.generate_name = name.is_empty().then(|| "web-".to_owned());
    pod.metadata.namespace = Some("shop".to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    pod
}

fn refusal(code: u16, reason: &str, details: Value) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                        "reason": reason, "message": format!("{reason}!"), "details": details});
    (code, status)
}

fn accepted(path: &str, body: &Value) -> (u16, Value) {
    let name = body["metadata"]["name"].as_str().unwrap_or("web-x1");
    (200, json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "9"}, "path": path}))
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_refuses_a_thousand_pods_costs_one_refused_round() {
    let made = Arc::new(Mutex::new(0));
    let rig = rig(move |_, path, body| {
        let mut made = made.lock().unwrap();
        *made += 1;
        if *made <= 2 { accepted(path, body) } else { refusal(403, "Forbidden", Value::Null) }
    });
    let write = Write::create(&pod("")).times(1000).saying("Made", "made {name}").warning("NotMade", "no: {error}");
    let failed = rig.run(Plan::of(vec![write])).await.unwrap_err();
    assert_eq!(failed.write, Some(0));
    // Rounds of 1, 2 and no more: the second one met the quota.
    assert_eq!(rig.requests(), ["POST /api/v1/namespaces/shop/pods"; 3]);
    assert_eq!(rig.events(), ["Normal Made: made web-x1", "Warning NotMade: no: Forbidden!"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_already_is_as_good_as_deleted_and_its_successor_is_left_alone() {
    let rig = rig(|method, path, _| match (method, path.rsplit('/').next()) {
        ("DELETE", Some("gone")) => refusal(404, "NotFound", Value::Null),
        ("DELETE", Some("successor")) => refusal(409, "Conflict", Value::Null),
        ("PATCH", Some("gone")) => refusal(404, "NotFound", Value::Null),
        _ => refusal(422, "Invalid", json!({"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid"}]})),
    });
    let deletion = |name: &str| Write::delete(&pod(name)).paced(Pace::Together).saying("Deleted", "{name}");
    let patch = |name: &str| Write::merge(&pod(name), json!({"metadata": {"labels": {"a": "b"}}}));
    let writes = vec![deletion("gone"), deletion("successor"), patch("gone"), patch("successor")];
    assert!(rig.run(Plan::of(writes)).await.is_ok());
    assert_eq!(rig.requests().len(), 4);
    assert!(rig.events().is_empty(), "nothing was deleted: {:?}", rig.events());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_at_a_version_is_not_taken_for_done_when_somebody_else_has_written() {
    let rig = rig(|_, _, _| refusal(409, "Conflict", Value::Null));
    let at_version = Write::delete(&pod("a")).at_version_of(&set().metadata).warning("Failed", "{error}");
    assert!(rig.run(Plan::of(vec![at_version])).await.is_err());
    assert!(rig.events().is_empty(), "a conflict is usual");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_is_going_away_and_nobody_is_told() {
    let terminating = json!({"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]});
    let rig = rig(move |_, _, _| refusal(403, "Forbidden", terminating.clone()));
    let write = Write::create(&pod("")).saying("Made", "{name}").warning("NotMade", "{error}");
    assert!(rig.run(Plan::of(vec![write])).await.is_ok());
    assert!(rig.events().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_a_failure_unless_the_plan_expects_it() {
    let rig = rig(|_, _, _| refusal(409, "AlreadyExists", Value::Null));
    let create = || Write::create(&pod("web-0"));
    assert!(rig.run(Plan::of(vec![create()])).await.is_err());
    assert!(rig.run(Plan::of(vec![create().unless_there()])).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_failed_write_is_not_done_but_its_neighbours_are() {
    let rig = rig(|method, path, body| match path.ends_with("/bad") {
        true => refusal(500, "InternalError", Value::Null),
        false if method == "DELETE" => (200, json!({"kind": "Status", "metadata": {}, "details": {"uid": "u"}})),
        false => accepted(path, body),
    });
    let deletion = |name: &str| Write::delete(&pod(name)).paced(Pace::Together);
    let writes = vec![deletion("bad"), deletion("good"), Write::create(&pod("later"))];
    let mut plan = Plan { events: vec![Note::normal("Done", "all of it")], ..Plan::of(writes) };
    plan.set_status(&set(), set().status.as_ref(), &ReplicaSetStatus { replicas: 2, ..Default::default() });
    assert_eq!(rig.run(plan).await.unwrap_err().write, Some(0));
    let pods = "/api/v1/namespaces/shop/pods";
    assert_eq!(rig.requests(), [format!("DELETE {pods}/bad"), format!("DELETE {pods}/good")]);
    assert!(rig.events().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_status_tells_what_failed() {
    let written: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = written.clone();
    let rig = rig(move |method, path, body| match method {
        "POST" => refusal(403, "Forbidden", Value::Null),
        _ => {
            seen.lock().unwrap().push(body.clone());
            accepted(path, body)
        }
    });
    let status = |message: &str| {
        serde_json::from_value::<ReplicaSetStatus>(json!({"replicas": 1, "observedGeneration": 1,
            "conditions": [{"type": "ReplicaFailure", "status": "True", "message": message}]}))
        .unwrap()
    };
    let (set, mut plan) = (set(), Plan::of(vec![Write::create(&pod(""))]));
    let update = StatusUpdate::of(&set, set.status.as_ref(), &set.status.clone().unwrap());
    plan.status = Some(update.if_failed(&status("not made: {error}")));
    assert!(rig.run(plan).await.is_err());
    let written = written.lock().unwrap();
    assert_eq!(written[0]["metadata"], json!({"uid": "rs", "resourceVersion": "7"}), "guarded by what was read");
    assert_eq!(written[0]["status"]["conditions"][0]["message"], "not made: Forbidden!");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_differs_only_in_what_the_server_leaves_out_is_not_written() {
    let rig = rig(|_, path, body| accepted(path, body));
    let (set, mut plan) = (set(), Plan { again: Some(Duration::from_secs(5)), ..Plan::default() });
    let same =
        ReplicaSetStatus { ready_replicas: Some(0), conditions: Some(Vec::new()), ..set.status.clone().unwrap() };
    plan.set_status(&set, set.status.as_ref(), &same);
    assert_eq!(rig.run(plan).await.unwrap(), Action::requeue_after(Duration::from_secs(5)));
    assert!(rig.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_adopted_by_an_owner_that_is_going() {
    let rig = rig(|_, path, _| match path.ends_with("/web") {
        true => (200, json!({"metadata": {"name": "web", "uid": "rs", "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        false => (200, json!({"metadata": {"name": "p"}})),
    });
    let adoption = Write::strategic(&pod("p"), json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(rig.run(Plan::of(vec![Write::still_there(&set()), adoption])).await.unwrap_err().write, Some(0));
    assert_eq!(rig.requests(), ["GET /apis/apps/v1/namespaces/shop/replicasets/web"]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_made_after_the_claims_that_they_mount_also_when_both_go_together() {
    let rig = rig(|_, path, body| accepted(path, body));
    let claim = |name: &str| {
        let mut claim = PersistentVolumeClaim::default();
        (claim.metadata.name, claim.metadata.namespace) = (Some(name.to_owned()), Some("shop".to_owned()));
        Write::create(&claim).paced(Pace::Together)
    };
    let pod = |name: &str| Write::create(&pod(name)).paced(Pace::Together);
    rig.run(Plan::of(vec![claim("a"), claim("b"), pod("a"), pod("b")])).await.unwrap();
    let kinds: Vec<String> = rig.requests().iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["persistentvolumeclaims", "persistentvolumeclaims", "pods", "pods"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_already_is_not_applied_again() {
    let rig = rig(|_, _, body| (200, body.clone()));
    let pod = |image: &str, more: bool| -> Pod {
        let mut containers = json!([{"name": "c", "image": image}]);
        if more {
            containers[0]["terminationMessagePath"] = "/dev/termination-log".into();
        }
        serde_json::from_value(
            json!({"metadata": {"name": "x", "namespace": "shop"}, "spec": {"containers": containers}}),
        )
        .unwrap()
    };
    let apply = async |wanted: &Pod, observed: Option<&Pod>| {
        rig.run(Plan::of(vec![Write::apply(wanted, "test").over(observed)])).await.unwrap();
        rig.requests().len()
    };
    assert_eq!(apply(&pod("a:1", false), None).await, 1);
    assert_eq!(
        apply(&pod("a:1", false), Some(&pod("a:1", true))).await,
        1,
        "more fields than are wanted do not matter"
    );
    assert_eq!(apply(&pod("a:1", false), Some(&pod("b:1", true))).await, 2, "somebody changed it");
    assert_eq!(apply(&pod("a:2", false), Some(&pod("a:2", true))).await, 3, "this process has not applied this yet");
    assert_eq!(apply(&pod("a:2", false), Some(&pod("a:2", true))).await, 3);
    let fewer: Pod = serde_json::from_value(json!({"metadata": {"name": "x", "namespace": "shop"}})).unwrap();
    assert_eq!(apply(&fewer, Some(&pod("a:2", true))).await, 4, "a field that is no longer wanted has to go");
}
