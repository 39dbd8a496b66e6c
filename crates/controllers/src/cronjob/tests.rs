//! What a user of a CronJob would lose.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use pintle_runtime::Plan;
use serde_json::{Value, json};

use super::plan::{self, Facts};

/// A Monday.
const NOW: &str = "2026-03-02T10:00:10Z";

fn merge(target: &mut Value, change: Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change,
    }
}

/// A CronJob of every hour that was last met at nine, changed by merges of spec and status.
fn hourly(spec: Value, status: Value) -> CronJob {
    let mut cron_job = json!({
        "metadata": {"name": "tick", "namespace": "shop", "uid": "c", "resourceVersion": "7",
                     "creationTimestamp": "2026-03-01T00:30:00Z"},
        "spec": {"schedule": "0 * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"template": {"spec": {"containers": []}}}}},
        "status": {"lastScheduleTime": "2026-03-02T09:00:00Z"},
    });
    merge(&mut cron_job["spec"], spec);
    merge(&mut cron_job["status"], status);
    serde_json::from_value(cron_job).unwrap()
}

/// A Job of the time, which ended by this condition if any.
fn job(time: &str, end: Option<&str>) -> Arc<Job> {
    let at: Timestamp = time.parse().unwrap();
    let name = format!("tick-{}", at.as_second() / 60);
    let conditions: Vec<Value> = end.map(|kind| json!({"type": kind, "status": "True"})).into_iter().collect();
    let completed = end.filter(|kind| *kind == "Complete").map(|_| time);
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5",
                         "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": time}},
            "spec": {"template": {}},
            "status": {"conditions": conditions, "startTime": time, "completionTime": completed},
        }))
        .unwrap(),
    )
}

fn active(jobs: &[&Arc<Job>]) -> Value {
    let reference = |job: &&Arc<Job>| json!({"name": job.metadata.name, "uid": job.metadata.uid});
    json!({"active": jobs.iter().map(reference).collect::<Vec<_>>()})
}

fn planned(cron_job: &CronJob, jobs: &[Arc<Job>]) -> Plan {
    planned_at(cron_job, jobs, NOW, None)
}

fn planned_at(cron_job: &CronJob, jobs: &[Arc<Job>], now: &str, changed_at: Option<&str>) -> Plan {
    let changed_at = changed_at.map(|at| at.parse().unwrap());
    plan::plan(&Facts { cron_job, jobs: jobs.to_vec(), changed_at, now: now.parse().unwrap() })
}

fn writes(plan: &Plan) -> Vec<String> {
    plan.writes.iter().map(ToString::to_string).collect()
}

fn events(plan: &Plan) -> Vec<&'static str> {
    plan.events.iter().map(|note| note.reason).collect()
}

fn changes(plan: &Plan) -> Value {
    plan.status.as_ref().and_then(|status| status.changes()).cloned().unwrap_or_default()
}

/// Seconds until the next look.
fn again(plan: &Plan) -> Option<f64> {
    plan.again.map(|again| again.as_secs_f64())
}

#[test]
fn a_job_is_made_when_its_time_has_come() {
    let plan = planned(&hourly(json!({}), json!({})), &[]);
    assert_eq!(writes(&plan), [format!("create jobs/tick-{}", minute(NOW))]);
    let job = plan.writes[0].body();
    assert_eq!((&job["metadata"]["labels"], &job["metadata"]["annotations"]["c"]), (&json!({"a": "b"}), &json!("d")));
    let scheduled = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(scheduled, "2026-03-02T10:00:00Z");
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("CronJob"), &json!(true)));
    assert_eq!(again(&plan), Some(3590.1), "a moment after eleven");
}

fn minute(time: &str) -> i64 {
    time.parse::<Timestamp>().unwrap().as_second() / 60
}

#[test]
fn a_job_that_was_made_enters_the_status_and_is_not_made_again() {
    let job = job("2026-03-02T10:00:00Z", None);
    let cron_job = hourly(json!({}), json!({}));
    let plan = planned(&cron_job, std::slice::from_ref(&job));
    assert!(writes(&plan).is_empty() && events(&plan).is_empty(), "{plan:?}");
    let status = changes(&plan);
    assert_eq!(status["lastScheduleTime"], "2026-03-02T10:00:00Z");
    assert_eq!(
        (&status["active"][0]["name"], &status["active"][0]["uid"]),
        (&json!(job.metadata.name), &json!(job.metadata.uid))
    );
    // It ended before anybody looked.
    let ended = self::job("2026-03-02T10:00:00Z", Some("Complete"));
    let plan = planned(&cron_job, &[ended]);
    assert_eq!((writes(&plan).len(), events(&plan)), (0, vec!["SawCompletedJob"]));
    assert_eq!(changes(&plan)["lastSuccessfulTime"], "2026-03-02T10:00:00Z");
}

#[test]
fn what_keeps_a_job_from_being_made() {
    let running = job("2026-03-02T09:00:00Z", None);
    let forbid = json!({"concurrencyPolicy": "Forbid"});
    let deadline = |seconds: i64| json!({"startingDeadlineSeconds": seconds});
    type Case = (&'static str, Value, Value, Vec<Arc<Job>>, usize, Vec<&'static str>);
    let cases: Vec<Case> = vec![
        ("nothing", json!({}), json!({}), vec![], 1, vec![]),
        (
            "it is not time",
            json!({"schedule": "30 * * * *"}),
            json!({"lastScheduleTime": "2026-03-02T09:30:00Z"}),
            vec![],
            0,
            vec![],
        ),
        ("it was met", json!({}), json!({"lastScheduleTime": "2026-03-02T10:00:00Z"}), vec![], 0, vec![]),
        ("it is suspended", json!({"suspend": true}), json!({}), vec![], 0, vec![]),
        ("one runs, which is allowed", json!({}), active(&[&running]), vec![running.clone()], 1, vec![]),
        (
            "one runs, which is forbidden",
            forbid.clone(),
            active(&[&running]),
            vec![running.clone()],
            0,
            vec!["JobAlreadyActive"],
        ),
        (
            "one has ended",
            forbid,
            active(&[&running]),
            vec![job("2026-03-02T09:00:00Z", Some("Failed"))],
            1,
            vec!["SawCompletedJob"],
        ),
        ("it is a little late", deadline(11), json!({}), vec![], 1, vec![]),
        ("it is too late", deadline(9), json!({}), vec![], 0, vec![]),
        (
            "the time zone is unknown",
            json!({"timeZone": "Middle/Earth"}),
            json!({}),
            vec![],
            0,
            vec!["UnknownTimeZone"],
        ),
        ("the schedule cannot be read", json!({"schedule": "soon"}), json!({}), vec![], 0, vec!["UnparseableSchedule"]),
        ("the schedule has no sense", json!({"schedule": "0 0 31 2 *"}), json!({}), vec![], 0, vec!["InvalidSchedule"]),
        (
            "the zone is in the schedule",
            json!({"schedule": "TZ=Asia/Tokyo 0 19 * * *"}),
            json!({}),
            vec![],
            1,
            vec!["UnsupportedSchedule"],
        ),
        ("it was never met", json!({}), json!({"lastScheduleTime": null}), vec![], 1, vec![]),
    ];
    for (why, spec, status, jobs, made, told) in cases {
        let plan = planned(&hourly(spec, status), &jobs);
        let creations = writes(&plan).iter().filter(|write| write.starts_with("create")).count();
        assert_eq!((creations, events(&plan)), (made, told), "{why}");
    }
}

#[test]
fn after_the_deadline_the_next_time_is_waited_for() {
    let cron_job = hourly(json!({"startingDeadlineSeconds": 0}), json!({}));
    let plan = planned_at(&cron_job, &[], "2026-03-02T10:00:00.5Z", None);
    assert_eq!(writes(&plan).len(), 0, "{plan:?}");
    assert_eq!(again(&plan), Some(3599.6));
}

#[test]
fn of_missed_times_only_the_last_one_is_made_up_for() {
    let every_minute = |last: &str| hourly(json!({"schedule": "* * * * *"}), json!({"lastScheduleTime": last}));
    let cases = [
        ("2026-03-02T09:50:00Z", vec![]),
        ("2026-03-02T08:21:00Z", vec![]),
        ("2026-03-02T08:19:00Z", vec!["TooManyMissedTimes"]),
        ("2020-01-01T00:00:00Z", vec!["TooManyMissedTimes"]),
    ];
    for (last, told) in cases {
        let plan = planned(&every_minute(last), &[]);
        assert_eq!(writes(&plan), [format!("create jobs/tick-{}", minute(NOW))], "{last}");
        assert_eq!((events(&plan), again(&plan)), (told, Some(50.1)), "{last}");
    }
    let limited = hourly(
        json!({"schedule": "* * * * *", "startingDeadlineSeconds": 200}),
        json!({"lastScheduleTime": "2020-01-01T00:00:00Z"}),
    );
    assert!(events(&planned(&limited, &[])).is_empty(), "a deadline keeps the number small");
    // The schedule is not regular: nights and the weekend lie between.
    let office = hourly(json!({"schedule": "30 8-9 * * 1-5"}), json!({"lastScheduleTime": "2026-02-26T09:30:00Z"}));
    let plan = planned(&office, &[]);
    assert_eq!(writes(&plan), [format!("create jobs/tick-{}", minute("2026-03-02T09:30:00Z"))]);
}

#[test]
fn a_changed_schedule_counts_from_the_change() {
    let cron_job = hourly(json!({"schedule": "*/5 * * * *"}), json!({}));
    let plan = planned_at(&cron_job, &[], NOW, Some(NOW));
    assert_eq!((writes(&plan).len(), again(&plan)), (0, Some(290.1)));
    let plan = planned_at(&cron_job, &[], "2026-03-02T10:05:00.1Z", Some(NOW));
    assert_eq!(writes(&plan).len(), 1);
}

#[test]
fn a_time_zone_decides_and_is_told_to_the_job() {
    let berlin = json!({"schedule": "0 11 * * *", "timeZone": "Europe/Berlin"});
    let plan = planned(&hourly(berlin, json!({})), &[]);
    let annotations = &plan.writes[0].body()["metadata"]["annotations"];
    assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2026-03-02T11:00:00+01:00");
    let london = json!({"schedule": "0 10 * * *", "timeZone": "Europe/London"});
    let annotations = planned(&hourly(london, json!({})), &[]).writes[0].body()["metadata"]["annotations"].clone();
    assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2026-03-02T10:00:00Z");
}

#[test]
fn a_running_job_gives_way_if_it_is_to_be_replaced() {
    let running = job("2026-03-02T09:00:00Z", None);
    let cron_job = hourly(json!({"concurrencyPolicy": "Replace"}), active(&[&running]));
    let plan = planned(&cron_job, std::slice::from_ref(&running));
    let name = running.metadata.name.clone().unwrap();
    assert_eq!(writes(&plan), [format!("delete jobs/{name}"), format!("create jobs/tick-{}", minute(NOW))]);
    assert_eq!(changes(&plan)["active"], Value::Null);
}

#[test]
fn of_the_jobs_that_have_ended_the_last_ones_stay() {
    let jobs: Vec<Arc<Job>> = (0..5)
        .flat_map(|hour| {
            let failed = job(&format!("2026-03-02T0{hour}:30:00Z"), Some("Failed"));
            [job(&format!("2026-03-02T0{hour}:00:00Z"), Some("Complete")), failed]
        })
        .collect();
    let suspended = |good: Value, bad: Value| {
        let status = json!({"lastScheduleTime": "2026-03-02T04:30:00Z", "lastSuccessfulTime": "2026-03-02T05:00:00Z"});
        hourly(json!({"suspend": true, "successfulJobsHistoryLimit": good, "failedJobsHistoryLimit": bad}), status)
    };
    let expected = |times: &[&str]| -> Vec<String> {
        times.iter().map(|time| format!("delete jobs/tick-{}", minute(&format!("2026-03-02T{time}:00Z")))).collect()
    };
    let cases = [
        (json!(3), json!(4), expected(&["00:00", "01:00", "00:30"])),
        (json!(5), json!(5), vec![]),
        (Value::Null, Value::Null, vec![]),
        (Value::Null, json!(3), expected(&["00:30", "01:30"])),
        (json!(0), json!(9), expected(&["00:00", "01:00", "02:00", "03:00", "04:00"])),
    ];
    for (good, bad, deleted) in cases {
        assert_eq!(writes(&planned(&suspended(good.clone(), bad.clone()), &jobs)), deleted, "{good} {bad}");
    }
}

#[test]
fn a_job_goes_only_after_the_status_says_that_it_succeeded() {
    let ended = job("2026-03-02T09:00:00Z", Some("Complete"));
    let keeps_none = json!({"suspend": true, "successfulJobsHistoryLimit": 0});
    let first = planned(&hourly(keeps_none.clone(), active(&[&ended])), std::slice::from_ref(&ended));
    assert_eq!(writes(&first), Vec::<String>::new());
    assert!(changes(&first)["lastSuccessfulTime"].is_string() && first.again.is_some(), "{first:?}");
    let stored = first.status.as_ref().unwrap().wanted().clone();
    let second = planned(&hourly(keeps_none, stored), std::slice::from_ref(&ended));
    assert_eq!(writes(&second).len(), 1, "{second:?}");
}

#[test]
fn a_job_that_went_missing_is_forgotten_and_one_that_came_from_elsewhere_is_told() {
    let gone = job("2026-03-02T09:00:00Z", None);
    let plan = planned(&hourly(json!({"suspend": true}), active(&[&gone])), &[]);
    assert_eq!(events(&plan), ["MissingJob"]);
    assert_eq!(changes(&plan)["active"], Value::Null);
    let mut strange = job("2026-03-02T09:00:00Z", None).as_ref().clone();
    strange.metadata.name = Some("by-hand".into());
    let plan = planned(&hourly(json!({"suspend": true}), json!({})), &[Arc::new(strange)]);
    assert_eq!(events(&plan), ["UnexpectedJob"]);
    assert!(plan.status.unwrap().changes().is_none());
}

#[test]
fn a_cron_job_that_is_deleted_starts_nothing() {
    let mut cron_job = hourly(json!({}), json!({}));
    cron_job.metadata.deletion_timestamp = serde_json::from_value(json!(NOW)).unwrap();
    let plan = planned(&cron_job, &[]);
    assert!(writes(&plan).is_empty() && plan.again.is_none());
}
