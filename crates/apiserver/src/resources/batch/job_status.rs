//! Which changes of a Job's status are refused. Only what a write changes is checked, as the spec may have changed before.

use super::indexes;
use crate::resources::check::{NOT_NEGATIVE, same};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeSet;

/// A Job before and after the write.
struct Change<'a> {
    job: &'a Value,
    old: &'a Value,
}

pub fn check(job: &Value, old: &Value, errors: &mut Errors) {
    let change = Change { job, old };
    check_numbers(&change, errors);
    check_notes(&change, errors);
    check_end(&change, errors);
    check_times(&change, errors);
    check_indexes(&change, errors);
}

impl Change<'_> {
    fn differs(&self, key: &str) -> bool {
        let value = |of: &Value| object::at(of, &["status", key]).cloned().unwrap_or_default();
        !same(&value(self.job), &value(self.old))
    }

    fn number(&self, key: &str) -> i64 {
        object::integer(self.job, &["status", key]).unwrap_or(0)
    }

    fn has(&self, key: &str) -> bool {
        object::at(self.job, &["status", key]).is_some_and(|value| !value.is_null())
    }

    fn holds(&self, kind: &str) -> bool {
        is(self.job, kind, "True")
    }

    fn held(&self, kind: &str) -> bool {
        is(self.old, kind, "True")
    }

    fn turns(&self, kind: &str) -> bool {
        self.holds(kind) != self.held(kind)
    }

    fn is_finished(&self) -> bool {
        self.holds("Complete") || self.holds("Failed")
    }

    fn finishes(&self) -> bool {
        self.is_finished() != (self.held("Complete") || self.held("Failed"))
    }

    fn spec(&self, key: &str) -> Option<i64> {
        object::integer(self.job, &["spec", key])
    }

    fn is_indexed(&self) -> bool {
        object::text(self.job, &["spec", "completionMode"]) == "Indexed"
    }
}

fn is(job: &Value, kind: &str, status: &str) -> bool {
    object::list(job, &["status", "conditions"]).iter().any(|c| c["type"] == kind && c["status"] == status)
}

fn path(key: &str) -> Path {
    Path::new("status").child(key)
}

fn check_numbers(change: &Change<'_>, errors: &mut Errors) {
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        let number = change.number(key);
        if number < 0 {
            errors.push(Error::invalid(&path(key), number, NOT_NEGATIVE));
        }
    }
    let before = |key: &str| object::integer(change.old, &["status", key]).unwrap_or(0);
    let can_shrink = change.is_indexed() && change.spec("completions") == change.spec("parallelism");
    for (key, may) in [("failed", false), ("succeeded", can_shrink)] {
        let now = change.number(key);
        if now < before(key) && !may {
            errors.push(Error::invalid(&path(key), now, format!("cannot decrease the {key} counter")));
        }
    }
    let ready = change.number("ready");
    if (change.differs("ready") || change.differs("active")) && ready > change.number("active") {
        errors.push(Error::invalid(&path("ready"), ready, "cannot set more ready pods than active"));
    }
    for key in ["active", "terminating"] {
        let number = change.number(key);
        if change.is_finished() && number > 0 && (change.finishes() || change.differs(key)) {
            errors.push(Error::invalid(&path(key), number, format!("{key}>0 is invalid for finished job")));
        }
    }
}

fn check_notes(change: &Change<'_>, errors: &mut Errors) {
    let here = path("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for key in ["succeeded", "failed"] {
        let uids = object::list(change.job, &["status", "uncountedTerminatedPods", key]);
        for (at, uid) in uids.iter().filter_map(Value::as_str).enumerate() {
            if uid.is_empty() {
                errors.push(Error::invalid(&here.child(key).index(at), uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(Error::duplicate(&here.child(key).index(at), uid));
            }
        }
    }
    let counts = change.finishes() || change.differs("uncountedTerminatedPods");
    if change.is_finished() && counts && !seen.is_empty() {
        let shown = change.job["status"]["uncountedTerminatedPods"].clone();
        errors.push(Error::invalid(&here, shown, "must be empty for finished job"));
    }
}

fn check_end(change: &Change<'_>, errors: &mut Errors) {
    let (complete, failed) = (change.holds("Complete"), change.holds("Failed"));
    let (met, target) = (change.holds("SuccessCriteriaMet"), change.holds("FailureTarget"));
    let any = |kinds: &[&str]| kinds.iter().any(|kind| change.turns(kind));
    let mut refuse = |detail: String| errors.push(Error::invalid(&path("conditions"), Value::Null, detail));
    let cases = [
        (complete && failed && any(&["Complete", "Failed"]), "cannot set Complete=True and Failed=true conditions"),
        (
            complete && target && any(&["Complete", "FailureTarget"]),
            "cannot set Complete=True and FailureTarget=true conditions",
        ),
        (
            failed && !target && (any(&["Failed"]) || change.differs("failedIndexes")),
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            complete && !met && any(&["Complete", "SuccessCriteriaMet"]),
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        (met && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        (met && target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
    ];
    for (is_wrong, detail) in cases {
        if is_wrong {
            refuse(detail.to_owned());
        }
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if change.held(kind) && !change.holds(kind) {
            refuse(format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    if change.held("SuccessCriteriaMet") && !met {
        refuse("cannot disable the SuccessCriteriaMet=True condition".to_owned());
    }
}

fn check_times(change: &Change<'_>, errors: &mut Errors) {
    let time = |key: &str| object::text(change.job, &["status", key]).parse::<jiff::Timestamp>().ok();
    let shown = |key: &str| change.job["status"][key].clone();
    let complete = change.holds("Complete");
    let completes = change.turns("Complete") || change.differs("completionTime");
    if change.has("completionTime") && !complete && completes {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.push(Error::invalid(&path("completionTime"), shown("completionTime"), detail));
    }
    if !change.has("completionTime") && complete && completes {
        errors.push(Error::required(&path("completionTime"), "completionTime is required for Complete jobs"));
    }
    let moves = change.differs("startTime") || change.differs("completionTime");
    if moves && time("completionTime").zip(time("startTime")).is_some_and(|(end, start)| end < start) {
        let detail = "must be equal to or after `startTime`";
        errors.push(Error::invalid(&path("completionTime"), shown("completionTime"), detail));
    }
    let had = |key: &str| !object::text(change.old, &["status", key]).is_empty();
    if change.has("completionTime") && had("completionTime") && change.differs("completionTime") {
        errors.push(Error::invalid(&path("completionTime"), shown("completionTime"), "field is immutable"));
    }
    let suspended = object::flag(change.job, &["spec", "suspend"]);
    let resumes = change.held("Suspended") && is(change.job, "Suspended", "False");
    if had("startTime") && change.differs("startTime") && !suspended && !resumes {
        let detail = "field is immutable for unsuspended job once set";
        errors.push(Error::invalid(&path("startTime"), shown("startTime"), detail));
    }
    let never_starts = suspended && change.spec("completions") == Some(0);
    let counts = change.finishes() || change.differs("startTime");
    if change.is_finished() && !change.has("startTime") && counts && !never_starts {
        errors.push(Error::required(&path("startTime"), "startTime is required for finished job"));
    }
}

fn check_indexes(change: &Change<'_>, errors: &mut Errors) {
    let text = |key: &str| object::text(change.job, &["status", key]);
    let per_index = change.spec("backoffLimitPerIndex").is_some();
    let mut refuse = |key: &str, detail: String| errors.push(Error::invalid(&path(key), text(key), detail));
    let mut read = |key: &str| match indexes::read(text(key), change.spec("completions").unwrap_or(i64::MAX)) {
        Ok(read) => read,
        Err(problem) => {
            if change.differs(key) && (key == "completedIndexes" || per_index) {
                refuse(key, format!("error parsing {key}: {problem}"));
            }
            Vec::new()
        }
    };
    let (completed, failed) = (read("completedIndexes"), read("failedIndexes"));
    if change.differs("completedIndexes") && !text("completedIndexes").is_empty() && !change.is_indexed() {
        refuse("completedIndexes", "cannot set non-empty completedIndexes when non-indexed completion mode".to_owned());
    }
    if change.differs("failedIndexes") && change.has("failedIndexes") && !per_index {
        refuse("failedIndexes", "cannot set non-null failedIndexes when backoffLimitPerIndex is null".to_owned());
    }
    let moves = change.differs("failedIndexes") || change.differs("completedIndexes");
    if let Some(index) = indexes::overlap(&failed, &completed).filter(|_| moves) {
        refuse("failedIndexes", format!("failedIndexes and completedIndexes overlap at index: {index}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(spec: Value, old: Value, new: Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(&json!({"spec": spec, "status": new}), &json!({"spec": spec, "status": old}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn conditions(kinds: &[&str]) -> Value {
        kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
    }

    #[test]
    fn a_status_that_contradicts_itself_is_refused() {
        let (plain, indexed) = (json!({}), json!({"completionMode": "Indexed", "completions": 5, "parallelism": 2}));
        let per_index =
            json!({"completionMode": "Indexed", "completions": 5, "parallelism": 2, "backoffLimitPerIndex": 1});
        let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z");
        let ended = json!({"startTime": start, "completionTime": end, "conditions": conditions(&["SuccessCriteriaMet", "Complete"])});
        let met = json!({"startTime": start, "conditions": conditions(&["SuccessCriteriaMet"])});
        let mut busy = ended.clone();
        busy["active"] = json!(1);
        let mut early = ended.clone();
        early["completionTime"] = json!("2025-01-01T00:00:00Z");
        let cases = [
            (&plain, met.clone(), ended.clone(), None),
            (&plain, met.clone(), busy, Some("status.active: Invalid value: 1: active>0 is invalid for finished job")),
            (
                &plain,
                met.clone(),
                early,
                Some(
                    "status.completionTime: Invalid value: \"2025-01-01T00:00:00Z\": must be equal to or after `startTime`",
                ),
            ),
            (
                &plain,
                ended.clone(),
                met,
                Some("status.conditions: Invalid value: null: cannot disable the terminal Complete=True condition"),
            ),
            (
                &plain,
                json!({"failed": 3}),
                json!({"failed": 2}),
                Some("status.failed: Invalid value: 2: cannot decrease the failed counter"),
            ),
            (
                &plain,
                json!({"succeeded": 3}),
                json!({"succeeded": 2}),
                Some("status.succeeded: Invalid value: 2: cannot decrease the succeeded counter"),
            ),
            (
                &plain,
                json!({}),
                json!({"active": 1, "ready": 2}),
                Some("status.ready: Invalid value: 2: cannot set more ready pods than active"),
            ),
            (
                &plain,
                json!({}),
                json!({"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}}),
                Some("status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\""),
            ),
            (
                &plain,
                json!({"startTime": start}),
                json!({"startTime": end}),
                Some(
                    "status.startTime: Invalid value: \"2026-01-01T00:00:05Z\": field is immutable for unsuspended job once set",
                ),
            ),
            (
                &plain,
                json!({}),
                json!({"startTime": start, "conditions": conditions(&["Failed"])}),
                Some(
                    "status.conditions: Invalid value: null: cannot set Failed=True condition without the FailureTarget=true condition",
                ),
            ),
            (
                &plain,
                json!({}),
                json!({"completedIndexes": "1"}),
                Some(
                    "status.completedIndexes: Invalid value: \"1\": cannot set non-empty completedIndexes when non-indexed completion mode",
                ),
            ),
            (&indexed, json!({}), json!({"completedIndexes": "0-4"}), None),
            (
                &indexed,
                json!({}),
                json!({"completedIndexes": "0-5"}),
                Some(
                    "status.completedIndexes: Invalid value: \"0-5\": error parsing completedIndexes: too large index: \"5\"",
                ),
            ),
            (&indexed, json!({"completedIndexes": "0-9"}), json!({"completedIndexes": "0-9", "active": 1}), None),
            (
                &indexed,
                json!({}),
                json!({"failedIndexes": ""}),
                Some(
                    "status.failedIndexes: Invalid value: \"\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
                ),
            ),
            (&per_index, json!({}), json!({"failedIndexes": "1", "completedIndexes": "0,2"}), None),
            (
                &per_index,
                json!({}),
                json!({"failedIndexes": "1", "completedIndexes": "0-2"}),
                Some(
                    "status.failedIndexes: Invalid value: \"1\": failedIndexes and completedIndexes overlap at index: 1",
                ),
            ),
        ];
        for (spec, old, new, expected) in cases {
            assert_eq!(problems(spec.clone(), old, new.clone()).first().map(String::as_str), expected, "{new}");
        }
    }
}
