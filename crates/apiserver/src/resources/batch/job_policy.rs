//! Which policies of Jobs are refused: about failed Pods, and about when enough indexes have succeeded.

use super::indexes;
use crate::resources::check::NOT_NEGATIVE;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

const MAX_RULES: usize = 20;
const MAX_PATTERNS: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

pub fn check_failure_policy(spec: &Value, path: &Path, errors: &mut Errors) {
    let all = object::list(spec, &["podFailurePolicy", "rules"]);
    let here = path.child("rules");
    if all.len() > MAX_RULES {
        errors.push(Error::too_many(&here, all.len(), MAX_RULES));
    }
    for (at, rule) in all.iter().enumerate() {
        check_failure_rule(spec, rule, &here.index(at), errors);
    }
}

fn check_failure_rule(spec: &Value, rule: &Value, path: &Path, errors: &mut Errors) {
    let needs_limit = object::text(rule, &["action"]) == "FailIndex";
    if needs_limit && object::integer(spec, &["backoffLimitPerIndex"]).is_none() {
        let detail = "requires the backoffLimitPerIndex to be set";
        errors.push(Error::invalid(&path.child("action"), "FailIndex", detail));
    }
    let codes = object::at(rule, &["onExitCodes"]).filter(|codes| !codes.is_null());
    let patterns = object::list(rule, &["onPodConditions"]);
    if let Some(codes) = codes {
        check_exit_codes(spec, codes, &path.child("onExitCodes"), errors);
    }
    check_patterns(patterns, &path.child("onPodConditions"), errors);
    let detail = match (codes.is_some(), !patterns.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(Error::invalid(path, Value::Null, detail));
}

fn check_exit_codes(spec: &Value, wanted: &Value, path: &Path, errors: &mut Errors) {
    let operator = object::text(wanted, &["operator"]);
    match operator {
        "In" | "NotIn" => {}
        "" => errors.push(Error::required(&path.child("operator"), "valid values: [\"In\" \"NotIn\"]")),
        other => errors.push(Error::not_supported(&path.child("operator"), other, &["In", "NotIn"])),
    }
    if let Some(name) = wanted.get("containerName").and_then(Value::as_str) {
        let lists = ["containers", "initContainers"].map(|key| object::list(spec, &["template", "spec", key]));
        if !lists.into_iter().flatten().any(|container| object::text(container, &["name"]) == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.push(Error::invalid(&path.child("containerName"), name, detail));
        }
    }
    let here = path.child("values");
    let values: Vec<i64> = object::list(wanted, &["values"]).iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.push(Error::invalid(&here, wanted["values"].clone(), "at least one value is required"));
    }
    if values.len() > MAX_EXIT_CODES {
        errors.push(Error::too_many(&here, values.len(), MAX_EXIT_CODES));
    }
    for (at, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.push(Error::invalid(&here.index(at), 0, "must not be 0 for the In operator"));
        }
        if values[..at].contains(value) {
            errors.push(Error::duplicate(&here.index(at), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(Error::invalid(&here, wanted["values"].clone(), "must be ordered"));
    }
}

fn check_patterns(patterns: &[Value], path: &Path, errors: &mut Errors) {
    if patterns.len() > MAX_PATTERNS {
        errors.push(Error::too_many(path, patterns.len(), MAX_PATTERNS));
    }
    for (at, pattern) in patterns.iter().enumerate() {
        let here = path.index(at);
        let kind = object::text(pattern, &["type"]);
        let problems = rules::qualified_name(kind).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&here.child("type"), kind, problem)));
        match object::text(pattern, &["status"]) {
            "True" | "False" | "Unknown" => {}
            "" => errors.push(Error::required(&here.child("status"), "valid values: [\"False\" \"True\" \"Unknown\"]")),
            other => errors.push(Error::not_supported(&here.child("status"), other, &["False", "True", "Unknown"])),
        }
    }
}

pub fn check_success_policy(spec: &Value, completions: i64, path: &Path, errors: &mut Errors) {
    if object::at(spec, &["successPolicy"]).is_none_or(Value::is_null) {
        return;
    }
    let all = object::list(spec, &["successPolicy", "rules"]);
    let here = path.child("rules");
    if all.is_empty() {
        errors.push(Error::required(&here, "at least one rules must be specified when the successPolicy is specified"));
    }
    if all.len() > MAX_RULES {
        errors.push(Error::too_many(&here, all.len(), MAX_RULES));
    }
    for (at, rule) in all.iter().enumerate() {
        check_success_rule(rule, completions, &here.index(at), errors);
    }
}

fn check_success_rule(rule: &Value, completions: i64, path: &Path, errors: &mut Errors) {
    let count = object::integer(rule, &["succeededCount"]);
    let text = rule.get("succeededIndexes").and_then(Value::as_str);
    if count.is_none() && text.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(path, detail));
    }
    let mut total = 0;
    if let Some(text) = text {
        let here = path.child("succeededIndexes");
        if text.len() > MAX_INDEXES_BYTES {
            errors.push(Error::too_long(&here, MAX_INDEXES_BYTES));
        }
        match indexes::read(text, completions) {
            Ok(read) => total = indexes::total(&read),
            Err(problem) => {
                errors.push(Error::invalid(&here, text, format!("error parsing succeededIndexes: {problem}")));
            }
        }
    }
    let Some(count) = count else { return };
    let here = path.child("succeededCount");
    if count < 0 {
        errors.push(Error::invalid(&here, count, NOT_NEGATIVE));
    }
    if count > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(Error::invalid(&here, count, detail));
    }
    if text.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(Error::invalid(&here, count, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_that_says_nothing_clear_is_refused() {
        let codes = |more: Value| {
            let mut codes = json!({"operator": "In", "values": [1, 2]});
            codes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"action": "FailJob", "onExitCodes": codes})
        };
        let path = "spec.podFailurePolicy.rules[0]";
        let cases = [
            (codes(json!({})), None),
            (codes(json!({"containerName": "c"})), None),
            (
                codes(json!({"containerName": "d"})),
                Some(
                    ".onExitCodes.containerName: Invalid value: \"d\": must be one of the container or initContainer names in the pod template",
                ),
            ),
            (
                codes(json!({"values": [0]})),
                Some(".onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"),
            ),
            (codes(json!({"values": [2, 1]})), Some(".onExitCodes.values: Invalid value: [2,1]: must be ordered")),
            (codes(json!({"values": [1, 1]})), Some(".onExitCodes.values[1]: Duplicate value: 1")),
            (
                codes(json!({"values": []})),
                Some(".onExitCodes.values: Invalid value: []: at least one value is required"),
            ),
            (
                codes(json!({"operator": "Like"})),
                Some(".onExitCodes.operator: Unsupported value: \"Like\": supported values: \"In\", \"NotIn\""),
            ),
            (
                json!({"action": "FailIndex", "onPodConditions": [{"type": "T", "status": "True"}]}),
                Some(".action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"),
            ),
            (
                json!({"action": "Ignore", "onPodConditions": [{"type": "T", "status": "Maybe"}]}),
                Some(
                    ".onPodConditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
                ),
            ),
        ];
        for (rule, expected) in cases {
            let spec =
                json!({"podFailurePolicy": {"rules": [rule]}, "template": {"spec": {"containers": [{"name": "c"}]}}});
            let mut errors = Errors::new();
            check_failure_policy(&spec, &Path::new("spec").child("podFailurePolicy"), &mut errors);
            let expected = expected.map(|expected| format!("{path}{expected}"));
            assert_eq!(errors.first().map(ToString::to_string), expected, "{spec}");
        }
        for rule in [json!({"action": "Ignore"}), {
            let mut both = codes(json!({}));
            both["onPodConditions"] = json!([{"type": "T", "status": "True"}]);
            both
        }] {
            let mut errors = Errors::new();
            check_failure_policy(&json!({"podFailurePolicy": {"rules": [rule]}}), &Path::new("p"), &mut errors);
            assert_eq!(errors.len(), 1, "{errors:?}");
        }
    }

    #[test]
    fn a_success_that_cannot_come_is_refused() {
        let cases = [
            (json!([{"succeededIndexes": "0-2", "succeededCount": 3}]), None),
            (
                json!([]),
                Some(
                    "p.rules: Required value: at least one rules must be specified when the successPolicy is specified",
                ),
            ),
            (
                json!([{}]),
                Some(
                    "p.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                ),
            ),
            (
                json!([{"succeededIndexes": "0-5"}]),
                Some(
                    "p.rules[0].succeededIndexes: Invalid value: \"0-5\": error parsing succeededIndexes: too large index: \"5\"",
                ),
            ),
            (
                json!([{"succeededCount": 6}]),
                Some(
                    "p.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)",
                ),
            ),
            (
                json!([{"succeededIndexes": "0,1", "succeededCount": 3}]),
                Some(
                    "p.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
                ),
            ),
        ];
        for (rules, expected) in cases {
            let mut errors = Errors::new();
            check_success_policy(&json!({"successPolicy": {"rules": rules}}), 5, &Path::new("p"), &mut errors);
            assert_eq!(errors.first().map(ToString::to_string).as_deref(), expected, "{rules}");
        }
    }
}
