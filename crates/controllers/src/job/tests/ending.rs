//! How a Job ends, and what it says about it.

use super::*;

fn held(kind: &str, reason: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True", "reason": reason, "message": "as said before"}]})
}

#[test]
fn a_job_says_how_it_will_end_before_it_says_that_it_has() {
    let job = job(json!({}), json!({}));
    let pods = vec![pod("a", "Succeeded", json!({})), pod("b", "Succeeded", json!({}))];
    let first = planned(&job, &pods);
    assert_eq!(holding(&status(&job, &first)), ["SuccessCriteriaMet CompletionsReached"]);
    assert!(events(&first).is_empty());
    let (job, pods) = carried_out(&job, &pods, &first);
    let second = planned(&job, &pods);
    let ended = status(&job, &second);
    assert_eq!(holding(&ended), ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]);
    assert_eq!((&ended["succeeded"], &ended["completionTime"]), (&json!(2), &json!(now().to_string())));
    assert_eq!(events(&second), ["Completed"]);
}

#[test]
fn what_ends_a_job() {
    let fail = json!({"podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}});
    let per_index = |most: Value| {
        json!({"completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": most,
                                         "backoffLimit": i32::MAX})
    };
    let early = json!({"completions": 4, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}});
    let restarting = json!({"status": {"containerStatuses": [
        {"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 3}]}});
    let on_failure = json!({"backoffLimit": 3, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    let failed = |n: usize| -> Vec<Arc<Pod>> { (0..n).map(|n| pod(&n.to_string(), "Failed", exited(1, 60))).collect() };
    type Case = (&'static str, Job, Vec<Arc<Pod>>, Option<&'static str>);
    let cases: Vec<Case> = vec![
        ("as often as allowed", job(json!({"backoffLimit": 2}), json!({})), failed(2), None),
        (
            "too often",
            job(json!({"backoffLimit": 2}), json!({})),
            failed(3),
            Some("FailureTarget BackoffLimitExceeded"),
        ),
        (
            "counted before",
            job(json!({"backoffLimit": 2}), json!({"failed": 3})),
            vec![],
            Some("FailureTarget BackoffLimitExceeded"),
        ),
        (
            "restarts",
            job(on_failure.clone(), json!({})),
            vec![pod("r", "Running", restarting)],
            Some("FailureTarget BackoffLimitExceeded"),
        ),
        (
            "too long",
            job(json!({"activeDeadlineSeconds": 100}), json!({})),
            vec![],
            Some("FailureTarget DeadlineExceeded"),
        ),
        ("not yet too long", job(json!({"activeDeadlineSeconds": 101}), json!({})), vec![], None),
        (
            "too long but suspended",
            job(json!({"activeDeadlineSeconds": 100, "suspend": true}), json!({})),
            vec![],
            Some("Suspended JobSuspended"),
        ),
        (
            "by policy",
            job(fail.clone(), json!({})),
            vec![pod("f", "Failed", exited(42, 60))],
            Some("FailureTarget PodFailurePolicy"),
        ),
        ("not by policy", job(fail, json!({})), vec![pod("f", "Failed", exited(41, 60))], None),
        (
            "too many indexes",
            indexed(per_index(json!(0)), json!({})),
            vec![pod_of(1, "f", "Failed")],
            Some("FailureTarget MaxFailedIndexesExceeded"),
        ),
        ("not all indexes", indexed(per_index(Value::Null), json!({})), vec![pod_of(1, "f", "Failed")], None),
        (
            "all indexes ended",
            indexed(per_index(Value::Null), json!({"completedIndexes": "0,2"})),
            vec![pod_of(1, "f", "Failed")],
            Some("FailureTarget FailedIndexes"),
        ),
        (
            "enough indexes",
            indexed(early.clone(), json!({})),
            vec![pod_of(1, "s", "Succeeded")],
            Some("SuccessCriteriaMet SuccessPolicy"),
        ),
        ("other indexes", indexed(early, json!({})), vec![pod_of(2, "s", "Succeeded")], None),
        (
            "nothing to do",
            job(json!({"completions": 0}), json!({})),
            vec![],
            Some("SuccessCriteriaMet CompletionsReached"),
        ),
        (
            "one is enough",
            job(json!({"completions": null}), json!({})),
            vec![pod("s", "Succeeded", json!({}))],
            Some("SuccessCriteriaMet CompletionsReached"),
        ),
        (
            "one is enough, another runs",
            job(json!({"completions": null}), json!({})),
            vec![pod("s", "Succeeded", json!({})), pod("r", "Running", json!({}))],
            None,
        ),
    ];
    for (why, job, pods, expected) in cases {
        let plan = planned(&job, &pods);
        assert_eq!(holding(&status(&job, &plan)).first().map(String::as_str), expected, "{why}");
    }
}

#[test]
fn a_failed_job_stops_its_pods_and_counts_them_as_failed() {
    let job = job(json!({"activeDeadlineSeconds": 10}), json!({}));
    let pods = vec![pod("a", "Running", json!({})), pod("b", "Pending", json!({}))];
    let first = planned(&job, &pods);
    assert_eq!(writes(&first), ["delete pods/a", "delete pods/b"]);
    let failing = status(&job, &first);
    assert_eq!(holding(&failing), ["FailureTarget DeadlineExceeded"]);
    assert_eq!(failing["uncountedTerminatedPods"]["failed"], json!(["a", "b"]));
    assert_eq!((&failing["active"], &failing["terminating"]), (&json!(0), &json!(2)));
    let unsure = first.status.as_ref().unwrap().changes_if_failed().cloned().unwrap_or_default();
    assert!(unsure["conditions"].is_null(), "if a Pod could not be deleted the Job is not said to fail: {unsure}");

    let (job, pods) = carried_out(&job, &pods, &first);
    let second = planned(&job, &pods);
    assert_eq!(writes(&second), ["patch pods/a", "patch pods/b"]);
    assert_eq!(holding(&status(&job, &second)), ["FailureTarget DeadlineExceeded"], "Pods are still on their way out");
    let (job, _) = carried_out(&job, &pods, &second);
    let third = planned(&job, &[]);
    let failed = status(&job, &third);
    assert_eq!(holding(&failed), ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
    assert_eq!((&failed["failed"], &failed["completionTime"]), (&json!(2), &Value::Null));
    assert_eq!(third.events[0].message, "Job was active longer than specified deadline");
}

#[test]
fn what_a_succeeded_job_stops_has_not_failed() {
    let policy = json!({"completions": 4, "parallelism": 4, "successPolicy": {"rules": [{"succeededCount": 1}]}});
    let job = indexed(policy, json!({}));
    let pods = vec![pod_of(0, "done", "Succeeded"), pod_of(1, "runs", "Running"), pod_of(2, "broke", "Failed")];
    let first = planned(&job, &pods);
    assert_eq!(writes(&first), ["patch pods/runs", "delete pods/runs"], "freed before it goes");
    let (job, pods) = carried_out(&job, &pods, &first);
    let second = planned(&job, &pods);
    assert_eq!(writes(&second), ["patch pods/done", "patch pods/broke"]);
    let (job, _) = carried_out(&job, &pods, &second);
    let third = planned(&job, &[]);
    let ended = status(&job, &third);
    assert_eq!(holding(&ended)[1], "Complete SuccessPolicy");
    assert_eq!((&ended["succeeded"], &ended["failed"]), (&json!(1), &json!(1)));
    // A crash after the deletion, before the finalizer went.
    let mut stopped = of_index(1);
    merge(&mut stopped, going());
    let plan = planned(&job, &[pod("runs", "Running", stopped)]);
    assert_eq!(status(&job, &plan)["failed"], 1);
}

#[test]
fn a_job_is_not_over_while_a_pod_is_on_its_way_out() {
    let job = job(json!({}), held("FailureTarget", "BackoffLimitExceeded"));
    let mut gone = counted();
    merge(&mut gone, going());
    assert_eq!(holding(&status(&job, &planned(&job, &[pod("p", "Running", gone)]))).len(), 1);
    assert_eq!(holding(&status(&job, &planned(&job, &[pod("p", "Failed", counted())]))).len(), 2);
}

#[test]
fn a_job_looks_again_when_its_time_is_over() {
    let job = job(json!({"activeDeadlineSeconds": 160}), json!({}));
    assert_eq!(planned(&job, &[]).again.unwrap().as_secs(), 60);
    assert_eq!(planned(&self::job(json!({"activeDeadlineSeconds": i64::MAX}), json!({})), &[]).writes.len(), 1);
}

#[test]
fn a_suspended_job_stops_its_pods_uncounted_and_forgets_when_it_began() {
    let job = job(json!({"suspend": true}), json!({}));
    let pods = vec![pod("a", "Running", json!({})), pod("b", "Running", json!({}))];
    let plan = planned(&job, &pods);
    assert_eq!(writes(&plan), ["patch pods/a", "patch pods/b", "delete pods/a", "delete pods/b"]);
    let asleep = status(&job, &plan);
    assert_eq!(holding(&asleep), ["Suspended JobSuspended"]);
    assert_eq!((&asleep["startTime"], &asleep["active"]), (&Value::Null, &json!(0)));
    assert_eq!(events(&plan), ["Suspended"]);
    let (job, pods) = carried_out(&job, &pods, &plan);
    let again = planned(&job, &pods);
    assert!(events(&again).is_empty() && writes(&again).is_empty(), "it is told once");

    let mut awake = job;
    awake.spec.as_mut().unwrap().suspend = Some(false);
    let plan = planned(&awake, &[]);
    let status = status(&awake, &plan);
    assert_eq!(status["conditions"][0]["status"], "False");
    assert_eq!(
        (&status["startTime"], &status["conditions"][0]["reason"]),
        (&json!(now().to_string()), &json!("JobResumed"))
    );
    assert_eq!((events(&plan), writes(&plan)), (vec!["Resumed"], vec!["create 2 pods".to_owned()]));
}

#[test]
fn a_job_of_an_unknown_mode_is_left_alone() {
    let plan = planned(&job(json!({"completionMode": "Sideways"}), json!({})), &[]);
    assert_eq!((events(&plan), plan.writes.len()), (vec!["UnknownCompletionMode"], 0));
    assert!(plan.status.is_none());
}
