//! What a user would lose if Pods that nobody ends stayed, or if Pods that somebody will end went.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_runtime::Plan;
use serde_json::{Value, json};

use super::plan::{self, Facts, NodeState, Step};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(phase: &str, grace_if_going: Option<i64>) -> Pod {
    let deleted = grace_if_going.map_or(Value::Null, |_| json!("1970-01-01T00:16:40Z"));
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3, "deletionTimestamp": deleted,
                     "deletionGracePeriodSeconds": grace_if_going},
        "status": {"phase": phase},
    }))
    .unwrap()
}

/// What is done, whether only if the node is gone, and when the next look comes.
fn planned(pod: &Pod, node: NodeState) -> (Vec<String>, bool, Option<Duration>) {
    let shown = |plan: Plan| (plan.writes.iter().map(ToString::to_string).collect(), plan.again);
    match plan::plan(&Facts { pod, node, now: at(1100) }) {
        Step::Done(plan) => {
            let (writes, again) = shown(plan);
            (writes, false, again)
        }
        Step::IfNodeIsGone(plan) => {
            let (writes, again) = shown(plan);
            (writes, true, again)
        }
    }
}

#[test]
fn only_what_nobody_else_will_end_goes() {
    let (fails, goes) = ("patch pods/p/status".to_owned(), "delete pods/p".to_owned());
    let cases = [
        ("waits for a node", pod("Pending", None), NodeState::None, vec![], false),
        (
            "was never bound and is going",
            pod("Pending", Some(30)),
            NodeState::None,
            vec![fails.clone(), goes.clone()],
            false,
        ),
        ("has gone as far as it can", pod("Failed", Some(0)), NodeState::None, vec![], false),
        ("runs", pod("Running", None), NodeState::There, vec![], false),
        ("is ended by its node", pod("Running", Some(30)), NodeState::There, vec![], false),
        ("runs on a node that is given up", pod("Running", None), NodeState::OutOfService, vec![], false),
        ("is going there", pod("Running", Some(30)), NodeState::OutOfService, vec![fails.clone(), goes.clone()], false),
        ("has lost its node", pod("Running", None), NodeState::MissingSince(at(1060)), vec![fails, goes.clone()], true),
        ("had ended before", pod("Succeeded", None), NodeState::MissingSince(at(1060)), vec![goes], true),
    ];
    for (why, pod, node, writes, if_gone) in cases {
        assert_eq!(planned(&pod, node), (writes, if_gone, None), "{why}");
    }
    let waits = planned(&pod("Running", None), NodeState::MissingSince(at(1090)));
    assert_eq!(waits, (Vec::new(), false, Some(Duration::from_secs(30))), "the node may come back");
}

#[test]
fn a_pod_says_that_it_failed_because_its_node_is_gone() {
    let facts = Facts { pod: &pod("Running", None), node: NodeState::MissingSince(at(0)), now: at(1100) };
    let Step::IfNodeIsGone(plan) = plan::plan(&facts) else { panic!("the server must be asked") };
    let patch = plan.writes[0].body();
    assert_eq!((&patch["status"]["phase"], &patch["metadata"]["uid"]), (&json!("Failed"), &json!("u")));
    let condition = &patch["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("DisruptionTarget"), &json!("DeletionByPodGC")));
    assert_eq!(condition["message"], "PodGC: node no longer exists");
}

#[test]
fn of_too_many_ended_pods_the_evicted_and_then_the_oldest_go() {
    let ended = |name: String, created: i64, reason: Value| {
        let pod = json!({
            "metadata": {"name": name, "namespace": "n", "creationTimestamp": at(created).to_string()},
            "status": {"phase": "Failed", "reason": reason},
        });
        Arc::new(serde_json::from_value::<Pod>(pod).unwrap())
    };
    let mut pods: Vec<Arc<Pod>> = (0..12_499).map(|n| ended(format!("p{n}"), 1000 + n, Value::Null)).collect();
    pods.push(ended("evicted".to_owned(), 900_000, json!("Evicted")));
    assert!(plan::too_many(pods.clone(), at(0)).writes.is_empty());
    pods.push(ended("oldest".to_owned(), 10, Value::Null));
    pods.push(ended("young".to_owned(), 900_001, Value::Null));
    let plan = plan::too_many(pods, at(0));
    let writes: Vec<String> = plan.writes.iter().map(ToString::to_string).collect();
    assert_eq!(writes, ["delete pods/evicted", "delete pods/oldest"]);
}

#[test]
fn a_node_is_given_up_only_by_the_taint_and_when_it_is_not_ready() {
    let node = |ready: &str, taint: &str| {
        serde_json::from_value::<Node>(json!({
            "metadata": {"name": "n"},
            "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    };
    let taint = "node.kubernetes.io/out-of-service";
    assert!(plan::is_out_of_service(&node("Unknown", taint)));
    assert!(!plan::is_out_of_service(&node("True", taint)));
    assert!(!plan::is_out_of_service(&node("Unknown", "node.kubernetes.io/unreachable")));
}
