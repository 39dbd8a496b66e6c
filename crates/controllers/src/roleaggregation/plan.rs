//! Which rules an aggregating role must show.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_meta::labels::Selector;
use pintle_runtime::{Plan, Write};
use serde_json::Value;

/// Under this name Kubernetes' own loop owns the rules.
pub(super) const MANAGER: &str = "clusterrole-aggregation-controller";

/// Applies the rules that the role must show, if it does not.
pub(super) fn plan<'a>(role: &ClusterRole, all: impl Iterator<Item = &'a ClusterRole> + Clone) -> Plan {
    let Some(rules) = rules(role, all) else { return Plan::default() };
    // With the UID of the role that was seen: one that is gone is not made again.
    let (name, uid) = (role.metadata.name.clone(), role.metadata.uid.clone());
    let metadata = ObjectMeta { name, uid, ..ObjectMeta::default() };
    let wanted = ClusterRole { metadata, rules: Some(rules), ..ClusterRole::default() };
    Plan::of(vec![Write::apply(&wanted, MANAGER)])
}

/// The rules of every selected role, selector by selector, each in the order of the roles' names, each rule once. None if that
/// is what the role shows already, if it does not aggregate, or if one of its selectors cannot be read.
pub(super) fn rules<'a>(
    role: &ClusterRole,
    all: impl Iterator<Item = &'a ClusterRole> + Clone,
) -> Option<Vec<PolicyRule>> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.iter().flatten();
    let mut wanted: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let selector = serde_json::to_value(selector).ok()?;
        let selector = Selector::from_label_selector(Some(&selector))?;
        let matches = |other: &&ClusterRole| {
            let labels = other.metadata.labels.as_ref();
            let labels = labels.and_then(|labels| serde_json::to_value(labels).ok()).unwrap_or(Value::Null);
            selector.matches_labels(Some(&labels)) && other.metadata.name != role.metadata.name
        };
        let mut selected: Vec<&ClusterRole> = all.clone().filter(matches).collect();
        selected.sort_by_key(|other| other.metadata.name.as_deref());
        for rule in selected.iter().flat_map(|other| other.rules.iter().flatten()) {
            if !wanted.contains(rule) {
                wanted.push(rule.clone());
            }
        }
    }
    (wanted != role.rules.as_deref().unwrap_or_default()).then_some(wanted)
}
