//! Policies about failed Pods and succeeded indexes.

use super::super::plan::indexes::Intervals;
use super::super::plan::policy::{Judgement, judge, succeeded_early};
use super::*;

fn judged(rules: Value, change: Value) -> Judgement {
    let policy = serde_json::from_value(json!({"rules": rules})).unwrap();
    judge(Some(&policy), &pod("p", "Failed", change))
}

fn on_codes(action: &str, operator: &str, values: Value) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": values}})
}

#[test]
fn the_first_rule_that_matches_decides() {
    let disrupted = json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}});
    let on_disruption =
        |action: &str| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let fail = |text: &str| Judgement::FailJob(text.to_owned());
    let cases = [
        ("no rule", json!([]), exited(1, 0), Judgement::Count),
        ("in", json!([on_codes("Ignore", "In", json!([1, 2]))]), exited(2, 0), Judgement::Ignore),
        ("not in the list", json!([on_codes("Ignore", "In", json!([1, 2]))]), exited(3, 0), Judgement::Count),
        ("not in", json!([on_codes("FailIndex", "NotIn", json!([1, 2]))]), exited(3, 0), Judgement::FailIndex),
        ("zero is no failure", json!([on_codes("FailIndex", "NotIn", json!([1, 2]))]), exited(0, 0), Judgement::Count),
        (
            "the first one",
            json!([on_codes("Count", "In", json!([1])), on_codes("Ignore", "In", json!([1]))]),
            exited(1, 0),
            Judgement::Count,
        ),
        (
            "the second one",
            json!([on_codes("Count", "In", json!([2])), on_codes("Ignore", "In", json!([1]))]),
            exited(1, 0),
            Judgement::Ignore,
        ),
        ("condition", json!([on_disruption("Ignore")]), disrupted.clone(), Judgement::Ignore),
        (
            "condition of another truth",
            json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]}]),
            disrupted.clone(),
            Judgement::Count,
        ),
        ("still running", json!([on_codes("Ignore", "NotIn", json!([1]))]), json!({}), Judgement::Count),
        ("unknown action", json!([on_codes("Dance", "In", json!([1]))]), exited(1, 0), Judgement::Count),
        (
            "code fails the Job",
            json!([on_codes("FailJob", "In", json!([9]))]),
            exited(9, 0),
            fail("Container c for pod shop/p failed with exit code 9 matching FailJob rule at index 0"),
        ),
        (
            "condition fails the Job",
            json!([on_codes("Count", "In", json!([9])), on_disruption("FailJob")]),
            disrupted,
            fail("Pod shop/p has condition DisruptionTarget matching FailJob rule at index 1"),
        ),
    ];
    for (why, rules, change, expected) in cases {
        assert_eq!(judged(rules, change), expected, "{why}");
    }
}

#[test]
fn a_rule_may_be_about_one_container() {
    let rule = |name: &str| json!([{"action": "Ignore", "onExitCodes": {"containerName": name, "operator": "In", "values": [1]}}]);
    assert_eq!(judged(rule("c"), exited(1, 0)), Judgement::Ignore);
    assert_eq!(judged(rule("other"), exited(1, 0)), Judgement::Count);
    let init = json!({"status": {"initContainerStatuses": [{"name": "first", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"terminated": {"exitCode": 1}}}]}});
    assert_eq!(judged(rule("first"), init), Judgement::Ignore);
}

#[test]
fn a_job_succeeds_early_when_a_rule_of_its_policy_is_met() {
    let cases = [
        ("no rule", json!([]), "0-9", None),
        ("all of them", json!([{"succeededIndexes": "0,2"}]), "0-2", Some(0)),
        ("not all of them", json!([{"succeededIndexes": "0,5"}]), "0-2", None),
        ("enough", json!([{"succeededCount": 3}]), "0,5,7", Some(0)),
        ("not enough", json!([{"succeededCount": 4}]), "0,5,7", None),
        ("enough of them", json!([{"succeededIndexes": "0-4", "succeededCount": 2}]), "1,3,9", Some(0)),
        ("enough, but of others", json!([{"succeededIndexes": "0-4", "succeededCount": 2}]), "1,8,9", None),
        ("the second rule", json!([{"succeededCount": 9}, {"succeededIndexes": "1"}]), "1", Some(1)),
        ("nothing has succeeded", json!([{"succeededCount": 0}]), "", None),
        ("a rule that cannot be read", json!([{"succeededIndexes": "x"}]), "1", None),
    ];
    for (why, rules, done, expected) in cases {
        let policy = serde_json::from_value(json!({"rules": rules})).unwrap();
        let message = expected.map(|at| format!("Matched rules at index {at}"));
        assert_eq!(succeeded_early(Some(&policy), &Intervals::parse(done, 10), 10), message, "{why}");
    }
}
