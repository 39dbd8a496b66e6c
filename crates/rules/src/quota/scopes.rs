//! The scopes of a quota: what of a kind it is about.

use crate::pod::{Quality, quality};
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeSet;

/// Who has scopes, and what the scope is about.
pub const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// One scope that a quota names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub scope: String,
    pub operator: String,
    pub values: Vec<String>,
}

/// All scopes of a quota: the plain ones, and those that it selects.
pub fn of(quota: &Value) -> Vec<Requirement> {
    let text = |value: &Value, key: &str| object::text(value, &[key]).to_owned();
    let plain = object::list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let plain = plain.map(|scope| Requirement { scope: scope.into(), operator: "Exists".into(), values: Vec::new() });
    let selected = object::list(quota, &["spec", "scopeSelector", "matchExpressions"]).iter().map(|term| Requirement {
        scope: text(term, "scopeName"),
        operator: text(term, "operator"),
        values: object::list(term, &["values"]).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect(),
    });
    plain.chain(selected).collect()
}

/// Will the Pod end by itself?
pub fn ends(pod: &Value) -> bool {
    object::integer(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

pub(super) fn has_pod(scope: &Requirement, pod: &Value) -> bool {
    match scope.scope.as_str() {
        "Terminating" => ends(pod),
        "NotTerminating" => !ends(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = object::text(pod, &["spec", "priorityClassName"]);
            selects(scope, &[class].into_iter().filter(|class| !class.is_empty()).collect())
        }
        "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
        _ => false,
    }
}

pub(super) fn has_volume_claim(scope: &Requirement, claim: &Value) -> bool {
    scope.scope == "VolumeAttributesClass" && selects(scope, &attributes_classes(claim))
}

/// The attributes that a claim has, is getting and wants.
pub(super) fn attributes_classes(claim: &Value) -> BTreeSet<&str> {
    let paths: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    paths.into_iter().map(|path| object::text(claim, path)).filter(|class| !class.is_empty()).collect()
}

/// Does any of the classes that an object has satisfy the requirement? One without a class is in none.
fn selects(scope: &Requirement, classes: &BTreeSet<&str>) -> bool {
    let listed = |class: &&str| scope.values.iter().any(|value| value == class);
    match scope.operator.as_str() {
        "Exists" => !classes.is_empty(),
        "DoesNotExist" => classes.is_empty(),
        "In" => classes.iter().any(listed),
        "NotIn" => classes.is_empty() || classes.iter().any(|class| !listed(class)),
        _ => false,
    }
}

/// What was recorded when the Pod was made counts: its resources may have been changed since.
fn is_best_effort(pod: &Value) -> bool {
    match object::text(pod, &["status", "qosClass"]) {
        "" => quality(pod) == Quality::BestEffort,
        class => class == Quality::BestEffort.name(),
    }
}

fn looks_into_other_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !object::list(term, &["namespaces"]).is_empty() || term.get("namespaceSelector").is_some_and(|s| !s.is_null())
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = |when: &str| object::list(pod, &["spec", "affinity", kind, when]).iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|term| term.get("podAffinityTerm").is_some_and(crosses))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scope(name: &str, operator: &str, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Requirement { scope: name.into(), operator: operator.into(), values }
    }

    #[test]
    fn a_pod_is_in_the_scopes_that_its_spec_says() {
        let pod = json!({"spec": {"activeDeadlineSeconds": 10, "priorityClassName": "high", "affinity": {"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaceSelector": {}}}]}}}});
        let plain = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
        for (requirement, rich, poor) in [
            (scope("Terminating", "Exists", &[]), true, false),
            (scope("NotTerminating", "Exists", &[]), false, true),
            (scope("BestEffort", "Exists", &[]), true, false),
            (scope("NotBestEffort", "Exists", &[]), false, true),
            (scope("PriorityClass", "Exists", &[]), true, false),
            (scope("PriorityClass", "DoesNotExist", &[]), false, true),
            (scope("PriorityClass", "In", &["high"]), true, false),
            (scope("PriorityClass", "NotIn", &["high"]), false, true),
            (scope("PriorityClass", "NotIn", &["low"]), true, true),
            (scope("CrossNamespacePodAffinity", "Exists", &[]), true, false),
            (scope("VolumeAttributesClass", "Exists", &[]), false, false),
        ] {
            assert_eq!(has_pod(&requirement, &pod), rich, "{requirement:?}");
            assert_eq!(has_pod(&requirement, &plain), poor, "{requirement:?}");
        }
    }

    #[test]
    fn a_claim_is_in_the_scope_of_each_class_that_it_has_or_wants() {
        let claim = json!({"spec": {"volumeAttributesClassName": "fast"}, "status": {"currentVolumeAttributesClassName": "slow"}});
        for class in ["fast", "slow"] {
            assert!(has_volume_claim(&scope("VolumeAttributesClass", "In", &[class]), &claim));
        }
        assert!(!has_volume_claim(&scope("VolumeAttributesClass", "In", &["other"]), &claim));
        assert!(!has_volume_claim(&scope("VolumeAttributesClass", "Exists", &[]), &json!({})));
    }

    #[test]
    fn both_ways_to_name_a_scope_count() {
        let quota = json!({"spec": {"scopes": ["BestEffort"],
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}}});
        assert_eq!(of(&quota), [scope("BestEffort", "Exists", &[]), scope("PriorityClass", "In", &["a"])]);
    }
}
