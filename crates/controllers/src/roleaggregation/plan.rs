//! Which rules an aggregating role must show.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use pintle_meta::labels::Selector;
use serde_json::Value;

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
