//! A Pod that has ended is counted once.

use super::*;

fn uncounted(succeeded: &[&str], failed: &[&str]) -> Value {
    json!({"uncountedTerminatedPods": {"succeeded": succeeded, "failed": failed}})
}

#[test]
fn a_pod_is_noted_then_freed_then_counted() {
    let job = job(json!({"completions": 5}), json!({}));
    let pods =
        vec![pod("ok", "Succeeded", json!({})), pod("bad", "Failed", exited(1, 3)), pod("runs", "Running", json!({}))];
    let first = planned(&job, &pods);
    assert!(
        writes(&first).is_empty(),
        "a finalizer goes only when the stored status has the Pod: {:?}",
        writes(&first)
    );
    let noted = status(&job, &first);
    assert_eq!(noted["uncountedTerminatedPods"], json!({"succeeded": ["ok"], "failed": ["bad"]}));
    assert!(noted["succeeded"].is_null() || noted["succeeded"] == 0);

    let (job, pods) = carried_out(&job, &pods, &first);
    let second = planned(&job, &pods);
    assert_eq!(writes(&second), ["patch pods/ok", "patch pods/bad"]);
    let counted = status(&job, &second);
    assert_eq!((&counted["succeeded"], &counted["failed"]), (&json!(1), &json!(1)));
    assert_eq!(counted["uncountedTerminatedPods"], json!({"succeeded": null, "failed": null}));

    let (job, pods) = carried_out(&job, &pods, &second);
    let third = planned(&job, &pods);
    let counted = status(&job, &third);
    assert_eq!((&counted["succeeded"], &counted["failed"]), (&json!(1), &json!(1)), "and never again");
}

#[test]
fn a_crash_between_any_two_writes_changes_no_count() {
    // The finalizers are gone, or the Pods are, and the status was not written any more.
    let cases = [
        ("freed", vec![pod("ok", "Succeeded", counted()), pod("bad", "Failed", counted())]),
        ("deleted", vec![]),
        ("one of two freed", vec![pod("ok", "Succeeded", counted()), pod("bad", "Failed", json!({}))]),
    ];
    for (why, pods) in cases {
        let job = job(json!({"completions": 5}), uncounted(&["ok"], &["bad"]));
        let plan = planned(&job, &pods);
        let status = status(&job, &plan);
        assert_eq!((&status["succeeded"], &status["failed"]), (&json!(1), &json!(1)), "{why}");
    }
}

#[test]
fn if_a_write_fails_only_what_is_certain_is_counted() {
    let job = job(json!({"completions": 5, "parallelism": 3}), uncounted(&["gone", "still"], &[]));
    let pods = vec![pod("gone", "Succeeded", counted()), pod("still", "Succeeded", json!({}))];
    let plan = planned(&job, &pods);
    assert_eq!(writes(&plan), ["patch pods/still", "create 3 pods"]);
    let failed = plan.status.as_ref().unwrap().changes_if_failed().unwrap();
    assert_eq!(failed["succeeded"], 1);
    assert_eq!(failed["uncountedTerminatedPods"]["succeeded"], json!(["still"]));
    assert!(failed["active"].is_null() || failed["active"] == 0, "no Pod that may not be there is told of: {failed}");
}

#[test]
fn a_status_does_not_grow_without_bounds() {
    let pods: Vec<Arc<Pod>> = (0..1200).map(|n| pod(&format!("p{n:04}"), "Succeeded", json!({}))).collect();
    let (mut job, mut pods) = (job(json!({"completions": 2000, "parallelism": 0}), json!({})), pods);
    let mut most = 0;
    for _ in 0..8 {
        let plan = planned(&job, &pods);
        (job, pods) = carried_out(&job, &pods, &plan);
        let noted = job.status.as_ref().unwrap().uncounted_terminated_pods.clone().unwrap_or_default();
        most = most.max(noted.succeeded.map_or(0, |uids| uids.len()));
    }
    assert_eq!(most, 500);
    assert_eq!(job.status.unwrap().succeeded, Some(1200), "and all are counted in the end");
}

#[test]
fn pods_of_an_index_are_counted_by_it() {
    let job = indexed(json!({"completions": 6, "parallelism": 0}), json!({"completedIndexes": "0,2", "succeeded": 2}));
    let mut pods = vec![
        pod_of(0, "again", "Succeeded"),
        pod_of(1, "new", "Succeeded"),
        pod_of(9, "beyond", "Succeeded"),
        pod_of(3, "failed", "Failed"),
        pod("none", "Failed", json!({})),
    ];
    let plan = planned(&job, &pods);
    let noted = status(&job, &plan);
    assert_eq!((&noted["completedIndexes"], &noted["succeeded"]), (&json!("0-2"), &json!(3)));
    assert_eq!(noted["uncountedTerminatedPods"]["failed"], json!(["failed"]), "what has no index is not counted");
    assert_eq!(writes(&plan), ["patch pods/beyond", "patch pods/none", "patch pods/again"]);
    let job;
    (job, pods) = carried_out(&self::indexed(json!({"completions": 6, "parallelism": 0}), noted.clone()), &pods, &plan);
    assert_eq!(writes(&planned(&job, &pods)), ["patch pods/new", "patch pods/failed"]);
}

#[test]
fn what_the_policy_ignores_is_freed_and_not_counted() {
    let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let job = job(json!({"podFailurePolicy": {"rules": [rule]}}), json!({}));
    let mut disrupted = json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}});
    merge(&mut disrupted, exited(137, 60));
    let plan = planned(&job, &[pod("evicted", "Failed", disrupted), pod("runs", "Running", json!({}))]);
    assert_eq!(
        writes(&plan),
        ["patch pods/evicted", "create 1 pods"].map(|text| text.replace("create 1 pods", "create pods"))
    );
    assert!(status(&job, &plan)["failed"].as_i64().unwrap_or(0) == 0);
}

#[test]
fn a_deleted_pod_has_failed_unless_only_ended_ones_count() {
    let cases = [("TerminatingOrFailed", json!(["gone"]), Some("create pods")), ("Failed", Value::Null, None)];
    for (policy, failed, made) in cases {
        let job = job(json!({"podReplacementPolicy": policy, "parallelism": 1}), json!({}));
        let mut gone = going();
        gone["metadata"]["deletionTimestamp"] = json!(ago(60));
        let plan = planned(&job, &[pod("gone", "Running", gone)]);
        let status = status(&job, &plan);
        assert_eq!(status["uncountedTerminatedPods"]["failed"], failed, "{policy}");
        assert_eq!(status["terminating"], 1);
        assert_eq!(plan.writes.first().map(ToString::to_string).as_deref(), made, "{policy}");
    }
}

#[test]
fn a_job_that_is_deleted_lets_its_pods_go_and_makes_no_more() {
    let mut job = job(json!({}), json!({}));
    job.metadata.deletion_timestamp = serde_json::from_value(json!(ago(1))).unwrap();
    let plan = planned(&job, &[pod("runs", "Running", json!({}))]);
    assert_eq!(writes(&plan), ["patch pods/runs"]);
}
