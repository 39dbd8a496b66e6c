//! What a user of `ttlSecondsAfterFinished` would lose.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::plan::plan;

/// A Job that ended at second 1000 by this condition.
fn job(condition: &str, seconds: Value, deleted: Value) -> Job {
    serde_json::from_value(json!({
        "metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "7", "deletionTimestamp": deleted},
        "spec": {"ttlSecondsAfterFinished": seconds, "template": {}},
        "status": {"conditions": [
            {"type": condition, "status": "True", "lastTransitionTime": "1970-01-01T00:16:40Z"}]},
    }))
    .unwrap()
}

/// What is done at this second, and after how many seconds the next look comes.
fn planned(job: &Job, at: i64) -> (Vec<String>, Option<u64>) {
    let plan = plan(job, Timestamp::from_second(at).unwrap());
    (plan.writes.iter().map(ToString::to_string).collect(), plan.again.map(|again| again.as_secs()))
}

#[test]
fn a_job_goes_when_its_time_is_over_and_not_before() {
    let gone = || (vec!["delete jobs/j".to_owned()], None);
    let nothing = || (Vec::new(), None);
    let cases = [
        ("succeeded, not yet", job("Complete", json!(60), Value::Null), 1001, (Vec::new(), Some(59))),
        ("succeeded, now", job("Complete", json!(60), Value::Null), 1060, gone()),
        ("failed, long ago", job("Failed", json!(60), Value::Null), 5000, gone()),
        ("at once", job("Failed", json!(0), Value::Null), 1000, gone()),
        ("for ever", job("Complete", Value::Null, Value::Null), 5000, nothing()),
        ("still running", job("Suspended", json!(0), Value::Null), 5000, nothing()),
        ("only going to end", job("SuccessCriteriaMet", json!(0), Value::Null), 5000, nothing()),
        ("going already", job("Complete", json!(0), json!("1970-01-01T00:17:00Z")), 5000, nothing()),
    ];
    for (why, job, at, expected) in cases {
        assert_eq!(planned(&job, at), expected, "{why}");
    }
    let plan = plan(&job("Complete", json!(i32::MAX), Value::Null), Timestamp::from_second(1000).unwrap());
    assert_eq!(plan.again, Some(Duration::from_secs(2_147_483_647)));
}
