//! What the owner of a Pod on a tainted node would lose.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Taint};
use pintle_runtime::Plan;
use serde_json::{Value, json};

use super::plan;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn fate(plan: &Plan) -> String {
    match (plan.writes.is_empty(), plan.again) {
        (false, _) => "goes".to_owned(),
        (true, Some(left)) => format!("looks again in {} s", left.as_secs()),
        (true, None) => "stays".to_owned(),
    }
}

#[test]
fn a_pod_stays_as_long_as_it_tolerates() {
    let taint =
        |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), time_added: Some(at(0).into()), value: None };
    let pod = |tolerations: Value| -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "web", "namespace": "shop", "uid": "p", "resourceVersion": "4"},
            "spec": {"containers": [], "tolerations": tolerations}}),
        )
        .unwrap()
    };
    let seconds = |seconds: i64| {
        let mut toleration = json!({"key": "down", "operator": "Exists", "effect": "NoExecute"});
        toleration["tolerationSeconds"] = json!(seconds);
        toleration
    };
    let cases = [
        (json!([]), 0, "goes"),
        (json!([seconds(300)]), 100, "looks again in 200 s"),
        (json!([seconds(300)]), 300, "goes"),
        (json!([seconds(0)]), 0, "goes"),
        (json!([{"operator": "Exists"}]), 9999, "stays"),
        (json!([{"key": "down", "operator": "Exists", "effect": "NoSchedule"}]), 0, "goes"),
        (json!([{"key": "down", "operator": "Equal", "value": "x"}]), 0, "goes"),
        (json!([{"key": "other", "operator": "Exists"}]), 0, "goes"),
    ];
    for (tolerations, now, expected) in cases {
        let plan = plan::plan(&pod(tolerations.clone()), &[taint("down")], at(0), at(now));
        assert_eq!(fate(&plan), expected, "{tolerations} after {now} s");
    }
    let both = [taint("down"), taint("other")];
    let plan = plan::plan(&pod(json!([seconds(300), {"key": "other", "operator": "Exists"}])), &both, at(0), at(0));
    assert_eq!(fate(&plan), "looks again in 300 s");
}

#[test]
fn a_pod_that_is_driven_away_says_that_it_did_not_fail_before_it_goes() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "p", "resourceVersion": "4"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap();
    let taint = Taint { key: "down".into(), effect: "NoExecute".into(), ..Taint::default() };
    let plan = plan::plan(&pod, &[taint], at(0), at(0));
    assert_eq!(plan.to_string(), "patch pods/web/status, delete pods/web");
    let patch = plan.writes[0].body();
    assert_eq!(patch["metadata"], json!({"uid": "p", "resourceVersion": "4"}), "conditions of others are not lost");
    assert_eq!(patch["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(patch["status"]["conditions"][1]["reason"], "DeletionByTaintManager");
}
