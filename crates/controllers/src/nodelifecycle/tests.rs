//! What someone whose node dies, or merely stutters, would lose.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use super::plan::{self, Facts, Heard, Turn, Verdict, Zones};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node(ready: &str, taints: Value) -> Node {
    let conditions = match ready {
        "" => json!([]),
        status => json!([{"type": "Ready", "status": status, "lastHeartbeatTime": at(0).to_string()}]),
    };
    serde_json::from_value(json!({
        "metadata": {"name": "n1", "creationTimestamp": at(0).to_string()},
        "spec": {"taints": taints}, "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn lease(second: i64) -> Lease {
    serde_json::from_value(json!({"spec": {"renewTime": format!("{}", at(second).strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))}}))
        .unwrap()
}

fn keys(taints: &[Taint]) -> Vec<String> {
    let short = |taint: &Taint| format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect);
    taints.iter().map(short).collect()
}

#[test]
fn a_node_is_given_fifty_seconds_from_its_last_sign_of_life() {
    let healthy = node("True", json!([]));
    let heard = Heard::listen(None, &healthy, Some(&lease(0)), at(100));
    assert_eq!(plan::judge(&healthy, &heard, at(110)), Verdict::Alive(Duration::from_millis(40_001)));
    let renewed = Heard::listen(Some(&heard), &healthy, Some(&lease(10)), at(140));
    assert_eq!(renewed.at, at(140), "what counts is when it was seen here");
    let silent = Heard::listen(Some(&renewed), &healthy, Some(&lease(10)), at(191));
    let Verdict::Silent(conditions) = plan::judge(&healthy, &silent, at(191)) else { panic!("still thought alive") };
    assert!(conditions.iter().all(|condition| condition.status == "Unknown"));
    assert_eq!(conditions[0].reason.as_deref(), Some("NodeStatusUnknown"));
    assert_eq!(conditions[1].reason.as_deref(), Some("NodeStatusNeverUpdated"));
}

#[test]
fn a_node_whose_lease_holds_for_longer_is_given_longer() {
    let (healthy, mut lasting) = (node("True", json!([])), lease(0));
    for (seconds, grace) in [(40, 50), (10, 50), (3600, 4500)] {
        lasting.spec.get_or_insert_default().lease_duration_seconds = Some(seconds);
        let heard = Heard::listen(None, &healthy, Some(&lasting), at(0));
        assert!(matches!(plan::judge(&healthy, &heard, at(grace)), Verdict::Alive(_)), "{seconds}");
        assert!(matches!(plan::judge(&healthy, &heard, at(grace + 1)), Verdict::Silent(_)), "{seconds}");
    }
}

#[test]
fn a_node_that_never_reported_is_timed_from_its_creation() {
    let fresh = node("", json!([]));
    let heard = Heard::listen(None, &fresh, None, at(30));
    assert!(matches!(plan::judge(&fresh, &heard, at(60)), Verdict::Alive(_)));
    assert!(matches!(plan::judge(&fresh, &heard, at(61)), Verdict::Silent(_)));
}

/// The taints that the plan puts on the node; nothing if it writes none.
fn tainted(node: &Node, turn: Turn) -> Option<Vec<Taint>> {
    let facts = Facts { verdict: Verdict::KnownSilent, was_ready: false, turn, pods: Vec::new(), now: at(0) };
    let plan = plan::plan(node, facts);
    plan.writes.first().map(|write| serde_json::from_value(write.body()["spec"]["taints"].clone()).unwrap())
}

#[test]
fn a_silent_node_gets_no_new_pods_and_loses_its_old_ones() {
    let taints = tainted(&node("Unknown", json!([])), Turn::Now).unwrap();
    assert_eq!(keys(&taints), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    assert!(taints[1].time_added.is_some());
    let taints = tainted(&node("False", json!(taints)), Turn::Now).unwrap();
    assert_eq!(keys(&taints), ["not-ready:NoSchedule", "not-ready:NoExecute"]);
    let later = tainted(&node("Unknown", json!(taints)), Turn::After(None)).unwrap();
    assert_eq!(keys(&later), ["unreachable:NoSchedule", "unreachable:NoExecute"], "it is being emptied already");
    assert_eq!(tainted(&node("True", json!(taints)), Turn::Now), Some(Vec::new()));
}

#[test]
fn when_no_node_is_healthy_no_pod_is_driven_away() {
    let taints = tainted(&node("Unknown", json!([])), Turn::Never).unwrap();
    assert_eq!(keys(&taints), ["unreachable:NoSchedule"]);
    let driven = tainted(&node("Unknown", json!([])), Turn::Now).unwrap();
    assert_eq!(keys(&tainted(&node("Unknown", json!(driven)), Turn::Never).unwrap()), ["unreachable:NoSchedule"]);
}

#[test]
fn a_users_taints_are_left_alone() {
    let own = json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]);
    assert_eq!(tainted(&node("True", own.clone()), Turn::Now), None);
    assert_eq!(tainted(&node("False", own), Turn::Now).unwrap()[0].key, "dedicated");
}

#[test]
fn a_silent_node_is_said_to_be_so_before_anything_follows_from_it() {
    let facts = |verdict| {
        let pod = json!({"metadata": {"name": "p", "namespace": "shop", "uid": "p"},
                         "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let pods = vec![Arc::new(serde_json::from_value(pod).unwrap())];
        Facts { verdict, was_ready: true, turn: Turn::Now, pods, now: at(0) }
    };
    let silent = plan::plan(&node("True", json!([])), facts(Verdict::Silent(Vec::new())));
    assert_eq!((silent.to_string().as_str(), silent.events.len()), ("patch nodes/n1/status", 0));
    let known = plan::plan(&node("Unknown", json!([])), facts(Verdict::KnownSilent));
    assert_eq!(known.to_string(), "patch pods/p/status, patch nodes/n1");
    assert_eq!(known.writes[0].body()["status"]["conditions"][0]["status"], "False", "it gets no traffic");
    let reasons: Vec<&str> = known.events.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(reasons, ["Node n1 status is now: NodeNotReady", "Node is not ready"]);
}

/// Nodes of a zone, so many of which are ready.
fn zone(name: &str, size: usize, ready: usize) -> Vec<Arc<Node>> {
    let node = |index: usize| {
        let mut node = node(if index < ready { "True" } else { "Unknown" }, json!([]));
        node.metadata.name = Some(format!("{name}-{index}"));
        node.metadata.labels = Some([("topology.kubernetes.io/zone".to_owned(), name.to_owned())].into());
        Arc::new(node)
    };
    (0..size).map(node).collect()
}

#[test]
fn a_partition_does_not_empty_most_of_a_cluster_at_once() {
    let seconds = |seconds: u64| Turn::After(Some(Duration::from_secs(seconds)));
    let cases = [
        // Size, ready ones, and what the second node of the zone gets right after the first.
        ("some are silent", 10, 8, Turn::Now, seconds(10)),
        ("two of three are silent", 3, 1, Turn::Now, seconds(10)),
        ("most of a small zone is silent", 10, 4, Turn::After(None), Turn::After(None)),
        ("most of a large zone is silent", 100, 45, Turn::Now, seconds(100)),
        ("all of one zone is silent", 10, 0, Turn::Now, seconds(10)),
    ];
    for (why, size, ready, first, second) in cases {
        let mut nodes = zone("b", size, ready);
        nodes.extend(zone("a", 3, 3));
        let mut zones = Zones::default();
        assert_eq!(zones.turn(&nodes[size - 1], &nodes, at(0)), first, "{why}");
        assert_eq!(zones.turn(&nodes[size - 2], &nodes, at(0)), second, "{why}");
    }
}

#[test]
fn no_node_is_emptied_while_none_is_healthy_and_each_gets_its_time_again_after() {
    let (down, mut zones) = (zone("a", 3, 0), Zones::default());
    assert!(!zones.recovered(&down));
    assert_eq!(zones.turn(&down[0], &down, at(0)), Turn::Never);
    let up = zone("a", 3, 1);
    assert!(zones.recovered(&up), "the first one that answers");
    assert!(!zones.recovered(&up));
    assert_eq!(zones.turn(&up[2], &up, at(1)), Turn::Now);
}
