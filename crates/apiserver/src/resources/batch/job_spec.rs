//! Which specs of Jobs are refused, also those in the templates of CronJobs.

use super::job_policy;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

/// The greatest parallelism and number of failed indexes of an indexed Job, and the completions from which less is allowed.
const MAX_INDEXED: i64 = 100_000;
/// The greatest of both if each index has a limit and there are more completions than that.
const MAX_WITH_MANY_COMPLETIONS: i64 = 10_000;
const MAX_MANAGED_BY_BYTES: usize = 63;

/// What several fields decide together.
pub fn check(spec: &Value, path: &Path, errors: &mut Errors) {
    check_restart_policy(spec, path, errors);
    let given = |key: &str| spec.get(key).is_some_and(|v| !v.is_null());
    match object::text(spec, &["completionMode"]) == "Indexed" {
        true => check_indexed(spec, path, errors),
        false => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
                if given(key) {
                    errors.push(Error::invalid(
                        &path.child(key),
                        spec[key].clone(),
                        "requires indexed completion mode",
                    ));
                }
            }
        }
    }
    if given("maxFailedIndexes") && !given("backoffLimitPerIndex") {
        errors.push(Error::required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    let replacement = object::text(spec, &["podReplacementPolicy"]);
    if given("podFailurePolicy") && !matches!(replacement, "" | "Failed") {
        errors.push(Error::not_supported(&path.child("podReplacementPolicy"), replacement, &["Failed"]));
    }
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        check_manager(manager, &path.child("managedBy"), errors);
    }
    job_policy::check_failure_policy(spec, &path.child("podFailurePolicy"), errors);
}

fn check_restart_policy(spec: &Value, path: &Path, errors: &mut Errors) {
    let here = path.child("template").child("spec").child("restartPolicy");
    let has_policy = spec.get("podFailurePolicy").is_some_and(|policy| !policy.is_null());
    match object::text(spec, &["template", "spec", "restartPolicy"]) {
        "Never" => {}
        "OnFailure" if has_policy => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(Error::invalid(&here, "OnFailure", detail));
        }
        "OnFailure" => {}
        "" | "Always" => errors.push(Error::required(&here, "valid values: \"OnFailure\", \"Never\"")),
        other => errors.push(Error::not_supported(&here, other, &["Never", "OnFailure"])),
    }
}

fn check_indexed(spec: &Value, path: &Path, errors: &mut Errors) {
    let number = |key: &str| object::integer(spec, &[key]);
    let mut at_most = |key: &str, limit: i64, detail: String| {
        if let Some(value) = number(key).filter(|value| *value > limit) {
            errors.push(Error::invalid(&path.child(key), value, detail));
        }
    };
    let detail = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
    at_most("parallelism", MAX_INDEXED, detail);
    if let Some(completions) = number("completions") {
        at_most("maxFailedIndexes", completions, "must be less than or equal to completions".to_owned());
    }
    at_most("maxFailedIndexes", MAX_INDEXED, format!("must be less than or equal to {MAX_INDEXED}"));
    let is_large = number("completions").is_some_and(|completions| completions > MAX_INDEXED);
    if is_large && number("backoffLimitPerIndex").is_some() {
        let detail = format!(
            "must be less than or equal to {MAX_WITH_MANY_COMPLETIONS} when completions are above {MAX_INDEXED} and used with backoff limit per index"
        );
        for key in ["parallelism", "maxFailedIndexes"] {
            at_most(key, MAX_WITH_MANY_COMPLETIONS, detail.clone());
        }
        if number("maxFailedIndexes").is_none() {
            let detail = format!("must be specified when completions is above {MAX_INDEXED}");
            errors.push(Error::required(&path.child("maxFailedIndexes"), detail));
        }
    }
    match number("completions") {
        None => errors.push(Error::required(&path.child("completions"), "when completion mode is Indexed")),
        Some(completions) => job_policy::check_success_policy(spec, completions, &path.child("successPolicy"), errors),
    }
}

fn check_manager(manager: &str, path: &Path, errors: &mut Errors) {
    match manager.split_once('/') {
        None if manager.is_empty() => errors.push(Error::required(path, "")),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            errors.extend(rules::dns_subdomain(host).into_iter().map(|problem| Error::invalid(path, host, problem)));
        }
        _ => errors.push(Error::invalid(path, manager, "must be a domain-prefixed path (such as \"acme.io/foo\")")),
    }
    if manager.len() > MAX_MANAGED_BY_BYTES {
        errors.push(Error::too_long(path, MAX_MANAGED_BY_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is refused of a spec, as texts.
    fn problems(mut spec: Value) -> Vec<String> {
        if spec["template"].is_null() {
            spec["template"] = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}});
        }
        let mut errors = Errors::new();
        check(&spec, &Path::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn indexed(more: Value) -> Value {
        let mut spec = json!({"completionMode": "Indexed", "completions": 5});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    }

    #[test]
    fn a_job_that_could_not_run_as_asked_is_refused() {
        let always = json!({"template": {"spec": {"restartPolicy": "Always"}}});
        let cases = [
            (json!({}), None),
            (always, Some("spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"")),
            (
                json!({"podFailurePolicy": {"rules": []}, "template": {"spec": {"restartPolicy": "OnFailure"}}}),
                Some(
                    "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
                ),
            ),
            (
                json!({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"}),
                Some(
                    "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
                ),
            ),
            (
                json!({"completionMode": "Indexed"}),
                Some("spec.completions: Required value: when completion mode is Indexed"),
            ),
            (indexed(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 5})), None),
            (
                indexed(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 6})),
                Some("spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"),
            ),
            (
                indexed(json!({"maxFailedIndexes": 1})),
                Some("spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"),
            ),
            (
                indexed(json!({"parallelism": 100_001})),
                Some(
                    "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
                ),
            ),
            (
                indexed(json!({"completions": 100_001, "backoffLimitPerIndex": 1})),
                Some("spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"),
            ),
            (
                json!({"backoffLimitPerIndex": 1}),
                Some("spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
            ),
            (json!({"managedBy": "kubernetes.io/job-controller"}), None),
            (
                json!({"managedBy": "me"}),
                Some("spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")"),
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(problems(spec.clone()).first().map(String::as_str), expected, "{spec}");
        }
    }
}
