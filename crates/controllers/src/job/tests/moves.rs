//! Which Pods are made and deleted, and when.

use std::time::Duration;

use super::*;
use crate::job::orphans::is_left_over;

#[test]
fn as_many_pods_run_as_may_and_as_are_needed() {
    let running = |n: usize| -> Vec<Arc<Pod>> { (0..n).map(|n| pod(&format!("r{n}"), "Running", json!({}))).collect() };
    let cases: Vec<(&str, Value, Value, usize, &[&str])> = vec![
        ("all at once", json!({"parallelism": 3, "completions": 5}), json!({}), 0, &["create 3 pods"]),
        ("one is missing", json!({"parallelism": 3, "completions": 5}), json!({}), 2, &["create pods"]),
        ("few are left", json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 4}), 0, &["create pods"]),
        ("the rest runs", json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 4}), 1, &[]),
        (
            "scaled down",
            json!({"parallelism": 1, "completions": 5}),
            json!({}),
            2,
            &["patch pods/r0", "delete pods/r0"],
        ),
        ("paused", json!({"parallelism": 0, "completions": 5}), json!({}), 0, &[]),
        ("without number", json!({"parallelism": 3, "completions": null}), json!({}), 1, &["create 2 pods"]),
        (
            "without number, one is done",
            json!({"parallelism": 3, "completions": null}),
            json!({"succeeded": 1}),
            1,
            &[],
        ),
        ("in pieces", json!({"parallelism": 9000, "completions": 9000}), json!({}), 0, &["create 500 pods"]),
        ("below zero", json!({"parallelism": -1, "completions": 5}), json!({}), 0, &[]),
    ];
    for (why, spec, status, active, expected) in cases {
        assert_eq!(writes(&planned(&job(spec, status), &running(active))), expected, "{why}");
    }
}

#[test]
fn the_pod_that_has_come_least_far_goes_first() {
    let job = job(json!({"parallelism": 1}), json!({}));
    let settled = || {
        pod(
            "settled",
            "Running",
            json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": ago(80)}]}}),
        )
    };
    let cases = [
        ("no node", pod("x", "Pending", json!({"spec": {"nodeName": null}}))),
        ("pending", pod("x", "Pending", json!({}))),
        ("not ready", pod("x", "Running", json!({}))),
        (
            "just ready",
            pod(
                "x",
                "Running",
                json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": ago(1)}]}}),
            ),
        ),
    ];
    for (why, victim) in cases {
        let plan = planned(&job, &[settled(), victim]);
        assert_eq!(writes(&plan), ["patch pods/x", "delete pods/x"], "{why}");
    }
}

#[test]
fn a_failed_pod_is_replaced_after_a_time_that_doubles() {
    let wait = |failures: &[i64], success: Option<i64>| {
        let job = job(json!({"parallelism": 1, "completions": 9, "backoffLimit": 99}), json!({}));
        let failed = failures.iter().map(|at| pod(&format!("f{at}"), "Failed", exited(1, *at)));
        let succeeded = success.into_iter().map(|at| pod("s", "Succeeded", exited(0, at)));
        let plan = planned(&job, &failed.chain(succeeded).collect::<Vec<_>>());
        assert_eq!(plan.again.is_none(), writes(&plan).contains(&"create pods".to_owned()));
        plan.again.map(|again| again.as_secs())
    };
    type Case = (&'static str, &'static [i64], Option<i64>, Option<u64>);
    let cases: Vec<Case> = vec![
        ("just now", &[0], None, Some(10)),
        ("a while ago", &[4], None, Some(6)),
        ("long enough ago", &[10], None, None),
        ("never less than a second", &[9], None, Some(1)),
        ("twice", &[0, 30], None, Some(20)),
        ("three times", &[5, 30, 60], None, Some(35)),
        ("seven times", &[0, 1, 2, 3, 4, 5, 6], None, Some(600)),
        (
            "a hundred times would be longer",
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
            None,
            Some(600),
        ),
        ("a success in between", &[0, 30, 60], Some(20), Some(10)),
        ("a success afterwards", &[5, 30], Some(2), None),
    ];
    for (why, failures, success, expected) in cases {
        assert_eq!(wait(failures, success), expected, "{why}");
    }
}

#[test]
fn a_failure_is_taken_into_account_once_and_not_forgotten_with_the_pod() {
    let job = job(json!({"backoffLimit": 99}), json!({}));
    let first = vec![pod("a", "Failed", exited(1, 3))];
    let once = Backoff::after(None, &job, &first);
    assert_eq!(Backoff::after(Some(&once), &job, &first), once, "the same Pod again");
    let later = Backoff::after(Some(&once), &job, &[pod("a", "Failed", counted())]);
    assert_eq!(later.remaining(now()), Some(Duration::from_secs(7)), "it is counted");
    let gone = Backoff::after(Some(&later), &job, &[]);
    assert_eq!(gone.remaining(now()), Some(Duration::from_secs(7)), "it is gone");
    let twice = Backoff::after(Some(&gone), &job, &[pod("b", "Failed", exited(1, 0))]);
    assert_eq!(twice.remaining(now()), Some(Duration::from_secs(20)));
    let mut known = counted();
    merge(&mut known, exited(1, 3));
    let restarted = Backoff::after(None, &job, &[pod("a", "Failed", known)]);
    assert_eq!(restarted.remaining(now()), Some(Duration::from_secs(7)), "the process was lost");
    let succeeded = Backoff::after(Some(&twice), &job, &[pod("c", "Succeeded", exited(0, 0))]);
    assert_eq!(succeeded.remaining(now()), None);
}

#[test]
fn when_a_pod_ended_is_told_by_the_best_witness() {
    let job = job(json!({"backoffLimit": 99}), json!({}));
    let cases = [
        ("containers", exited(1, 2), Some(8)),
        (
            "not ready since",
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": ago(3)}]}}),
            Some(7),
        ),
        ("deleted", json!({"metadata": {"deletionTimestamp": ago(-26), "deletionGracePeriodSeconds": 30}}), Some(6)),
        ("created", json!({"metadata": {"creationTimestamp": ago(5)}}), Some(5)),
        ("created long ago", json!({}), None),
    ];
    for (why, change, expected) in cases {
        let backoff = Backoff::after(None, &job, &[pod("f", "Failed", change)]);
        assert_eq!(backoff.remaining(now()).map(|left| left.as_secs()), expected, "{why}");
    }
}

#[test]
fn a_pod_is_made_from_the_template_and_held_until_it_is_counted() {
    let template = json!({"metadata": {"finalizers": ["shop/own"], "annotations": {"a": "b"}}});
    let plan = planned(&job(json!({"template": template}), json!({})), &[]);
    let made = plan.writes[0].body();
    assert_eq!(made["metadata"]["generateName"], "work-");
    assert_eq!(made["metadata"]["finalizers"], json!(["shop/own", "batch.kubernetes.io/job-tracking"]));
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"], &owner["controller"]), (&json!("Job"), &json!("j"), &json!(true)));
    assert_eq!(
        (&made["metadata"]["labels"]["job"], &made["metadata"]["annotations"]["a"]),
        (&json!("work"), &json!("b"))
    );
}

#[test]
fn a_pod_without_a_job_is_let_go() {
    let owned = |kind: &str, api: &str| {
        pod(
            "p",
            "Running",
            json!({"metadata": {"ownerReferences": [
        {"apiVersion": api, "kind": kind, "name": "work", "uid": "j", "controller": true}]}}),
        )
    };
    let running = Arc::new(job(json!({}), json!({})));
    let finished = Arc::new(job(json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]})));
    let elsewhere = Arc::new(job(
        json!({"managedBy": "else/where"}),
        json!({"conditions": [{"type": "Failed", "status": "True"}]}),
    ));
    let mut successor = job(json!({}), json!({}));
    successor.metadata.uid = Some("other".into());
    let successor = Arc::new(successor);
    let jobs_pod = owned("Job", "batch/v1");
    let cases = [
        ("its Job runs", &jobs_pod, Some(&running), false),
        ("its Job is gone", &jobs_pod, None, true),
        ("another Job has the name", &jobs_pod, Some(&successor), true),
        ("its Job has ended", &jobs_pod, Some(&finished), true),
        ("another program sees to its Job", &jobs_pod, Some(&elsewhere), false),
        ("it is nobody's", &pod("p", "Running", json!({})), None, true),
        ("it is somebody else's", &owned("Gang", "other/v1"), None, false),
        ("it was let go before", &pod("p", "Running", counted()), None, false),
    ];
    for (why, pod, job, expected) in cases {
        assert_eq!(is_left_over(pod, job), expected, "{why}");
    }
}
