//! What someone whose node dies, or merely stutters, would lose.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use serde_json::{Value, json};

use super::plan::{self, Fate, Heard, Verdict};

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

#[test]
fn a_silent_node_gets_no_new_pods_and_loses_its_old_ones() {
    let taints = plan::wanted_taints(&node("Unknown", json!([])), true, at(0)).unwrap();
    assert_eq!(keys(&taints), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    assert!(taints[1].time_added.is_some());
    let taints = plan::wanted_taints(&node("False", json!(taints)), true, at(0)).unwrap();
    assert_eq!(keys(&taints), ["not-ready:NoSchedule", "not-ready:NoExecute"]);
    assert_eq!(plan::wanted_taints(&node("True", json!(taints)), true, at(0)), Some(Vec::new()));
}

#[test]
fn when_no_node_is_healthy_no_pod_is_driven_away() {
    let taints = plan::wanted_taints(&node("Unknown", json!([])), false, at(0)).unwrap();
    assert_eq!(keys(&taints), ["unreachable:NoSchedule"]);
}

#[test]
fn a_users_taints_are_left_alone() {
    let own = json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]);
    assert_eq!(plan::wanted_taints(&node("True", own.clone()), true, at(0)), None);
    let taints = plan::wanted_taints(&node("False", own), true, at(0)).unwrap();
    assert_eq!(taints[0].key, "dedicated");
}

#[test]
fn a_pod_stays_as_long_as_it_tolerates() {
    let taint =
        |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), time_added: Some(at(0).into()), value: None };
    let pod = |tolerations: Value| -> Pod {
        serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap()
    };
    let seconds = |seconds: i64| {
        let mut toleration = json!({"key": "down", "operator": "Exists", "effect": "NoExecute"});
        toleration["tolerationSeconds"] = json!(seconds);
        toleration
    };
    let cases = [
        (json!([]), 0, Fate::GoesNow),
        (json!([seconds(300)]), 100, Fate::GoesIn(Duration::from_secs(200))),
        (json!([seconds(300)]), 300, Fate::GoesNow),
        (json!([seconds(0)]), 0, Fate::GoesNow),
        (json!([{"operator": "Exists"}]), 9999, Fate::Stays),
        (json!([{"key": "down", "operator": "Exists", "effect": "NoSchedule"}]), 0, Fate::GoesNow),
        (json!([{"key": "down", "operator": "Equal", "value": "x"}]), 0, Fate::GoesNow),
        (json!([{"key": "other", "operator": "Exists"}]), 0, Fate::GoesNow),
    ];
    for (tolerations, now, expected) in cases {
        let fate = plan::fate(&pod(tolerations.clone()), &[taint("down")], at(0), at(now));
        assert_eq!(fate, expected, "{tolerations} after {now} s");
    }
    let both = [taint("down"), taint("other")];
    let fate = plan::fate(&pod(json!([seconds(300), {"key": "other", "operator": "Exists"}])), &both, at(0), at(0));
    assert_eq!(fate, Fate::GoesIn(Duration::from_secs(300)));
}

#[test]
fn pods_of_a_silent_node_get_no_traffic() {
    let pod = |status: &str| -> Pod {
        serde_json::from_value(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})).unwrap()
    };
    assert_eq!(plan::not_ready_now(&pod("True"), at(0)).unwrap()[0].status, "False");
    assert_eq!(plan::not_ready_now(&pod("False"), at(0)), None);
    let conditions = plan::evicted(&pod("False"), at(0));
    assert_eq!(conditions[1].reason.as_deref(), Some("DeletionByTaintManager"));
}
