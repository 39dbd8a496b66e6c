//! A ResourceQuota: how much a namespace may have of everything.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use pintle_rules::quota::scopes::SCOPES;
use pintle_rules::{Amounts, resources};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Request", "", |quota, _| used(quota, false).into()),
    text("Limit", "", |quota, _| used(quota, true).into()),
    AGE,
];

/// Scopes that a thing is in or not, whatever its values.
const WITHOUT_VALUES: [&str; 5] =
    ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];

const NO_VALUES_HERE: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn validate(&self, quota: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        check_amounts(quota, ["spec", "hard"], errors);
        let hard: Vec<&str> = amounts(quota, ["spec", "hard"]).map(|(name, _)| name.as_str()).collect();
        check_scopes(object::list(quota, &["spec", "scopes"]), &hard, &spec.child("scopes"), errors);
        check_selector(&quota["spec"], &hard, &spec.child("scopeSelector").child("matchExpressions"), errors);
    }

    fn validate_update(&self, quota: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        let scopes = |quota| -> BTreeSet<&str> {
            object::list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect()
        };
        if scopes(quota) != scopes(old) {
            check::immutable(quota, old, &["spec", "scopes"], errors);
        }
    }

    fn validate_status(&self, quota: &Value, _old: &Value, errors: &mut Errors) {
        check_amounts(quota, ["status", "hard"], errors);
        check_amounts(quota, ["status", "used"], errors);
    }

    fn warnings(&self, quota: &Value, old: Option<&Value>) -> Vec<String> {
        let hard = Amounts::of(object::at(quota, &["spec", "hard"])).only(|_| old.is_none());
        let more_than_limit = |resource: &&str| {
            let prefixed = format!("requests.{resource}");
            let bare = || [resources::CPU, resources::MEMORY].into_iter().find(|bare| bare == resource);
            let name = if hard.contains(&prefixed) { &prefixed } else { bare()? };
            let limit_name = format!("limits.{resource}");
            let (request, limit) = (hard.get(name)?, hard.get(&limit_name)?);
            let sentence = format!("ResourceQuota {name} ({request}) should be less than {limit_name} ({limit})");
            (request > limit).then_some(sentence)
        };
        let known = [resources::CPU, resources::MEMORY, resources::STORAGE, resources::EPHEMERAL_STORAGE];
        known.iter().filter_map(more_than_limit).collect()
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn amounts<'a>(quota: &'a Value, at: [&str; 2]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object::at(quota, &at).and_then(Value::as_object).into_iter().flatten()
}

fn check_amounts(quota: &Value, at: [&str; 2], errors: &mut Errors) {
    let path = Path::new(at[0]).child(at[1]);
    for (name, amount) in amounts(quota, at) {
        let here = path.key(name);
        check_name(name, &here, errors);
        let whole = check::amount(amount, &here, errors).is_none_or(|amount| amount.milli() % 1000 == 0);
        if resources::is_whole(name) && !whole {
            errors.push(Error::invalid(&here, amount.clone(), "must be an integer"));
        }
    }
}

fn check_name(name: &str, path: &Path, errors: &mut Errors) {
    let before = errors.len();
    check::text(name, path, rules::qualified_name, errors);
    if name.contains('/') {
        return;
    }
    let standard = resources::is_standard_for_quotas(name);
    if errors.len() == before && !standard && name != resources::STORAGE {
        errors.push(Error::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    if !standard {
        errors.push(Error::invalid(path, name, "must be a standard resource for quota"));
    }
}

fn check_scopes(scopes: &[Value], hard: &[&str], path: &Path, errors: &mut Errors) {
    let named: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
    let mut invalid = |detail: &str| errors.push(Error::invalid(path, scopes.to_vec(), detail));
    for scope in &named {
        if !SCOPES.contains(scope) {
            invalid("unsupported scope");
        }
        hard.iter().filter(|name| !suits(scope, name)).for_each(|_| invalid("unsupported scope applied to resource"));
    }
    conflicts(&named).for_each(|()| invalid("conflicting scopes"));
}

fn check_selector(spec: &Value, hard: &[&str], path: &Path, errors: &mut Errors) {
    let terms = object::list(spec, &["scopeSelector", "matchExpressions"]);
    for term in terms {
        let scope = object::text(term, &["scopeName"]);
        let (operator, values) = (object::text(term, &["operator"]), object::list(term, &["values"]));
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(&path.child("scopeName"), scope, "unsupported scope"));
        }
        for _ in hard.iter().filter(|name| !suits(scope, name)) {
            errors.push(Error::invalid(path, shown_selector(terms), "unsupported scope applied to resource"));
        }
        if WITHOUT_VALUES.contains(&scope) && operator != "Exists" {
            errors.push(Error::invalid(&path.child("operator"), operator, NO_VALUES_HERE));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(Error::required(&path.child("values"), why));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(Error::invalid(&path.child("values"), values.to_vec(), why));
            }
            "Exists" | "DoesNotExist" => {}
            _ => errors.push(Error::invalid(&path.child("operator"), operator, "not a valid selector operator")),
        }
    }
    let named: Vec<&str> = terms.iter().map(|term| object::text(term, &["scopeName"])).collect();
    let plain = object::list(spec, &["scopes"]).to_vec();
    conflicts(&named).for_each(|()| errors.push(Error::invalid(path, plain.clone(), "conflicting scopes")));
}

/// Once for each pair of scopes that nothing can be in.
fn conflicts(scopes: &[&str]) -> impl Iterator<Item = ()> {
    let pairs = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
    let count = pairs.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count();
    std::iter::repeat_n((), count)
}

/// Is there anything of the resource in the scope?
fn suits(scope: &str, resource: &str) -> bool {
    const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    if !resources::is_standard_for_quotas(resource) {
        return true;
    }
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        scope if SCOPES.contains(&scope) => resource == "pods" || COMPUTE.contains(&resource),
        _ => true,
    }
}

/// As errors show it: with the names that the fields have in Kubernetes' own types.
fn shown_selector(terms: &[Value]) -> Value {
    let shown = |term: &Value| {
        let mut fields = Map::new();
        for (name, key) in [("ScopeName", "scopeName"), ("Operator", "operator"), ("Values", "values")] {
            fields.insert(name.to_owned(), term.get(key).cloned().unwrap_or_default());
        }
        Value::Object(fields)
    };
    json!({"MatchExpressions": terms.iter().map(shown).collect::<Vec<_>>()})
}

/// `pods: 1/10, requests.cpu: 1/2`
fn used(quota: &Value, limits: bool) -> String {
    let hard = object::at(quota, &["status", "hard"]).and_then(Value::as_object).into_iter().flatten();
    let all: Vec<String> = hard
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, hard)| {
            let used = object::text(quota, &["status", "used", name]);
            format!("{name}: {}/{}", if used.is_empty() { "0" } else { used }, hard.as_str().unwrap_or_default())
        })
        .collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(spec: Value) -> Vec<String> {
        let mut errors = Errors::new();
        ResourceQuota.validate(&json!({"spec": spec}), None, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_quota_that_could_never_count_is_refused() {
        assert_eq!(
            problems(json!({"hard": {"pods": "5", "count/a.b": "1", "requests.example.com/gpu": "2"}})),
            [""; 0]
        );
        assert_eq!(
            problems(json!({"hard": {"foo": "-1", "pods": "1500m", "storage": "1"}})),
            [
                "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota",
                "spec.hard[foo]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            ]
        );
        assert_eq!(
            problems(json!({"hard": {"cpu": "5"}, "scopes": ["BestEffort", "NotBestEffort"]})),
            [
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes",
            ]
        );
        let selector =
            |term: Value| problems(json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [term]}}));
        assert_eq!(
            selector(json!({"scopeName": "PriorityClass", "operator": "In"})),
            [
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            ]
        );
        assert_eq!(selector(json!({"scopeName": "Other", "operator": "Near"})).len(), 2);
    }

    #[test]
    fn more_requested_than_the_limit_is_odd() {
        let quota = |hard: Value| ResourceQuota.warnings(&json!({"spec": {"hard": hard}}), None);
        assert_eq!(
            quota(json!({"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "2Gi"})),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
    }
}
