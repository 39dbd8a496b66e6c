//! What someone whose namespace has a quota would lose.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use pintle_rules::quota::Evaluator;
use serde_json::{Value, json};

use super::plan;

fn quota(hard: Value, status: Value) -> ResourceQuota {
    serde_json::from_value(json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": status})).unwrap()
}

#[test]
fn a_new_quota_finds_what_is_there() {
    let new = quota(json!({"pods": "5", "requests.cpu": "2", "count/widgets.example.com": "1"}), json!({}));
    let hard = plan::hard(&new);
    let evaluators = plan::evaluators(&hard);
    assert_eq!(evaluators, [Evaluator::of("", "pods").unwrap(), Evaluator::of("example.com", "widgets").unwrap()]);
    let pod = |phase: &str| {
        json!({"status": {"phase": phase},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}}}]}})
    };
    let pods = [pod("Running"), pod("Pending"), pod("Succeeded")];
    let used = plan::used_by(pods.iter(), &evaluators[0], (&hard, &[]), Timestamp::UNIX_EPOCH);
    assert_eq!(used.to_string(), "pods=2,requests.cpu=600m");
    let status = plan::status(&new, &used).unwrap();
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({"hard": {"pods": "5", "requests.cpu": "2", "count/widgets.example.com": "1"},
            "used": {"pods": "2", "requests.cpu": "600m"}}),
        "nobody knows of widgets yet"
    );
    let told = ResourceQuota { status: Some(status), ..new };
    assert_eq!(plan::status(&told, &used), None, "not told twice");
}

#[test]
fn what_is_limited_no_longer_is_counted_no_longer() {
    let told = json!({"hard": {"pods": "5", "secrets": "1"}, "used": {"pods": "2", "secrets": "1"}});
    let changed = quota(json!({"pods": "7"}), told);
    let status = plan::status(&changed, &[("pods", "2")].into_iter().map(amount).collect()).unwrap();
    assert_eq!(serde_json::to_value(&status).unwrap(), json!({"hard": {"pods": "7"}, "used": {"pods": "2"}}));
}

#[test]
fn only_what_quotas_name_is_watched() {
    let named = |hard: Value| plan::named(&quota(hard, json!({})));
    assert_eq!(named(json!({"pods": "1", "services.nodeports": "1", "requests.storage": "1Gi"})), []);
    let pair = |group: &str, plural: &str| (group.to_owned(), plural.to_owned());
    assert_eq!(
        named(json!({"configmaps": "1", "count/deployments.apps": "1"})),
        [pair("", "configmaps"), pair("apps", "deployments")]
    );
}

#[test]
fn a_quota_in_a_scope_counts_only_what_is_in_it() {
    let mut scoped = quota(json!({"pods": "5"}), json!({}));
    scoped.spec.as_mut().unwrap().scopes = Some(vec!["Terminating".to_owned()]);
    let (hard, scopes) = (plan::hard(&scoped), plan::scopes_of(&scoped));
    let pods = [json!({"spec": {"activeDeadlineSeconds": 5}}), json!({"spec": {}})];
    let evaluator = Evaluator::of("", "pods").unwrap();
    let used = plan::used_by(pods.iter(), &evaluator, (&hard, &scopes), Timestamp::UNIX_EPOCH);
    assert_eq!(used.to_string(), "pods=1");
}

fn amount((name, text): (&str, &str)) -> (String, pintle_meta::quantity::Quantity) {
    (name.to_owned(), pintle_meta::quantity::Quantity::parse(text).unwrap())
}
