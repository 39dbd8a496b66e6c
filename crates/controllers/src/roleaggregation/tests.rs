//! What somebody who reads an aggregating role would miss.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::{Value, json};

use super::plan::rules;

fn role(name: &str, label: &str, verbs: &[&str]) -> ClusterRole {
    let rules: Vec<Value> =
        verbs.iter().map(|verb| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]})).collect();
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"to": label}}, "rules": rules})).unwrap()
}

fn shown(rules: Option<Vec<PolicyRule>>) -> Option<String> {
    let verbs = |rule: &PolicyRule| rule.verbs.join("+");
    rules.map(|rules| rules.iter().map(verbs).collect::<Vec<_>>().join(" "))
}

#[test]
fn an_aggregating_role_shows_the_rules_of_those_it_selects_in_their_order_and_each_once() {
    let select = |label: &str| json!({"matchLabels": {"to": label}});
    let aggregating = |selectors: &[Value], rules: Value| -> ClusterRole {
        let object = json!({"metadata": {"name": "all", "labels": {"to": "view"}}, "rules": rules,
            "aggregationRule": {"clusterRoleSelectors": selectors}});
        serde_json::from_value(object).unwrap()
    };
    let others =
        [role("c", "view", &["get", "watch"]), role("a", "view", &["list", "get"]), role("b", "edit", &["create"])];
    let of = |role: &ClusterRole| shown(rules(role, others.iter().chain([role])));
    let own = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    assert_eq!(of(&aggregating(&[select("view")], own.clone())).as_deref(), Some("list get watch"));
    let both = [select("edit"), select("view")];
    assert_eq!(of(&aggregating(&both, Value::Null)).as_deref(), Some("create list get watch"));
    assert_eq!(of(&aggregating(&[select("none")], own)).as_deref(), Some(""));
    assert_eq!(of(&aggregating(&[select("none")], json!([]))), None, "nothing to write");
    let odd = json!({"matchExpressions": [{"key": "to", "operator": "Near", "values": ["x"]}]});
    assert_eq!(of(&aggregating(&[odd], Value::Null)), None, "a selector that cannot be read");
    let done = aggregating(
        &[select("view")],
        serde_json::to_value(
            others[1].rules.iter().flatten().chain(others[0].rules.iter().flatten().skip(1)).collect::<Vec<_>>(),
        )
        .unwrap(),
    );
    assert_eq!(of(&done), None, "it shows them already");
    assert_eq!(of(&others[0]), None, "it does not aggregate");
}
