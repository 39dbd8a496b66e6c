//! Where a Pod may run: tolerations, affinity, spreading.

use crate::resources::check;
use crate::resources::rules::items;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

pub fn check(spec: &Value, path: &Path, errors: &mut Errors) {
    for (here, toleration) in items(spec, path, "tolerations") {
        check_toleration(toleration, &here, errors);
    }
    let affinity = path.child("affinity");
    if let Some(node) = object::at(spec, &["affinity", "nodeAffinity"]) {
        check_node_affinity(node, &affinity.child("nodeAffinity"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if let Some(pods) = object::at(spec, &["affinity", kind]) {
            check_weights(pods, &affinity.child(kind), errors);
        }
    }
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (here, constraint) in items(spec, path, "topologySpreadConstraints") {
        let pair = (object::text(constraint, &["topologyKey"]), object::text(constraint, &["whenUnsatisfiable"]));
        if seen.contains(&pair) {
            let shown = format!("{{{}, {}}}", pair.0, pair.1);
            errors.push(Error::duplicate(&here.child("{topologyKey, whenUnsatisfiable}"), shown));
        }
        seen.push(pair);
    }
    for (here, gate) in items(spec, path, "schedulingGates") {
        check::text(object::text(gate, &["name"]), &here.child("name"), rules::qualified_name, errors);
    }
}

fn check_toleration(toleration: &Value, path: &Path, errors: &mut Errors) {
    let text = |key: &str| object::text(toleration, &[key]);
    let (key, operator, value, effect) = (text("key"), text("operator"), text("value"), text("effect"));
    if key.is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(Error::invalid(&path.child("operator"), operator, detail));
    }
    if object::integer(toleration, &["tolerationSeconds"]).is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(Error::invalid(&path.child("effect"), effect, detail));
    }
    match operator {
        "" | "Equal" => {
            let problems = rules::label_value(value);
            if !problems.is_empty() {
                errors.push(Error::invalid(&path.child("operator"), value, problems.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            errors.push(Error::invalid(
                &path.child("operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            ));
        }
        "Exists" => {}
        other => errors.push(Error::not_supported(&path.child("operator"), other, &["Equal", "Exists"])),
    }
}

fn check_node_affinity(affinity: &Value, path: &Path, errors: &mut Errors) {
    let required = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    if let Some(selector) = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") {
        for (here, term) in items(selector, &required, "nodeSelectorTerms") {
            check_node_term(term, &here, errors);
        }
    }
    for (here, term) in items(affinity, path, "preferredDuringSchedulingIgnoredDuringExecution") {
        check_weight(term, &here, errors);
        if let Some(preference) = term.get("preference") {
            check_node_term(preference, &here.child("preference"), errors);
        }
    }
}

/// Also the terms of a volume's node affinity.
pub fn check_node_term(term: &Value, path: &Path, errors: &mut Errors) {
    for (here, requirement) in items(term, path, "matchExpressions") {
        let values = object::list(requirement, &["values"]);
        let at = here.child("values");
        match object::text(requirement, &["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(Error::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&at, detail));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.push(Error::required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(Error::invalid(&here.child("operator"), other, "not a valid selector operator")),
        }
        check::text(object::text(requirement, &["key"]), &here.child("key"), rules::qualified_name, errors);
    }
}

fn check_weights(affinity: &Value, path: &Path, errors: &mut Errors) {
    for (here, term) in items(affinity, path, "preferredDuringSchedulingIgnoredDuringExecution") {
        check_weight(term, &here, errors);
    }
}

fn check_weight(term: &Value, path: &Path, errors: &mut Errors) {
    let weight = object::integer(term, &["weight"]).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(Error::invalid(&path.child("weight"), weight, "must be in the range 1-100"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_toleration_that_means_nothing_is_refused() {
        for (toleration, fine) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "a", "value": "b", "effect": "NoSchedule"}), true),
            (json!({"value": "b"}), false),
            (json!({"key": "a", "operator": "Exists", "value": "b"}), false),
            (json!({"key": "a", "operator": "Exists", "tolerationSeconds": 1}), false),
        ] {
            let mut errors = Errors::new();
            check_toleration(&toleration, &Path::new("t"), &mut errors);
            assert_eq!(errors.is_empty(), fine, "{toleration}");
        }
    }
}
