//! Work that ends: Jobs run their Pods on simulated nodes until they are complete, have failed, or are suspended.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};

/// A Job whose Pods run for ten seconds each, changed by a merge of `change`.
fn job(name: &str, change: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {
            "metadata": {"annotations": {"simulated.pintle.dev/run-for": "10s"}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "work", "image": "work:1"}]}}},
    });
    merge(&mut job, change);
    job
}

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

/// A cluster with one node and this Job, after so many seconds.
async fn after(seconds: u64, job: Value) -> Cluster {
    let cluster = Cluster::builder().nodes(1).start().await;
    cluster.settle().await;
    cluster.create(job).await.unwrap();
    cluster.settle().await;
    cluster.advance(Duration::from_secs(seconds)).await;
    cluster.settle().await;
    cluster
}

async fn status(cluster: &Cluster, name: &str) -> Value {
    let job = cluster.api::<Job>("default").get(name).await.unwrap();
    serde_json::to_value(job.status.unwrap()).unwrap()
}

async fn pods(cluster: &Cluster) -> Vec<Pod> {
    cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items
}

async fn reasons(cluster: &Cluster) -> Vec<String> {
    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    let of_job = events.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some("Job"));
    let mut reasons: Vec<String> = of_job.filter_map(|event| event.reason).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

fn conditions(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let shown = |condition: &Value| {
        format!(
            "{}={} {}",
            condition["type"].as_str().unwrap(),
            condition["status"].as_str().unwrap(),
            condition["reason"].as_str().unwrap()
        )
    };
    conditions.iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_with_five_completions_runs_to_its_end_two_pods_at_a_time() {
    let cluster = after(1, job("five", json!({"spec": {"completions": 5, "parallelism": 2}}))).await;
    assert_eq!(status(&cluster, "five").await["active"], 2);
    cluster.advance(Duration::from_secs(60)).await;
    cluster.settle().await;
    let status = status(&cluster, "five").await;
    assert_eq!(
        (&status["succeeded"], &status["active"], &status["failed"]),
        (&json!(5), &Value::Null, &Value::Null),
        "{status}"
    );
    assert_eq!(conditions(&status), ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]);
    assert!(status["completionTime"].is_string() && status["startTime"].is_string(), "{status}");
    assert_eq!(reasons(&cluster).await, ["Completed", "SuccessfulCreate"]);
    let pods = pods(&cluster).await;
    assert_eq!(pods.len(), 5, "no Pod too many was made");
    assert!(pods.iter().all(|pod| pod.metadata.finalizers.is_none()), "Pods that are counted may go");
}

#[tokio::test(start_paused = true)]
async fn each_index_succeeds_once_and_knows_which_it_is() {
    let spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4});
    let cluster = after(30, job("many", json!({"spec": spec}))).await;
    let status = status(&cluster, "many").await;
    assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(4), &json!("0-3")), "{status}");
    let mut known: Vec<String> =
        pods(&cluster).await.into_iter().map(|pod| pod.spec.unwrap().hostname.unwrap()).collect();
    known.sort();
    assert_eq!(known, ["many-0", "many-1", "many-2", "many-3"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_after_a_while_until_the_limit() {
    let fails = json!({"metadata": {"annotations": {"simulated.pintle.dev/exit-code": "3", "simulated.pintle.dev/run-for": "0s"}}});
    let cluster = after(5, job("fails", json!({"spec": {"backoffLimit": 2, "template": fails}}))).await;
    assert_eq!(pods(&cluster).await.len(), 1, "the second Pod waits for ten seconds");
    cluster.advance(Duration::from_secs(10)).await;
    cluster.settle().await;
    assert_eq!(pods(&cluster).await.len(), 2);
    cluster.advance(Duration::from_secs(60)).await;
    cluster.settle().await;
    let status = status(&cluster, "fails").await;
    assert_eq!(status["failed"], 3, "{status}");
    assert_eq!(conditions(&status), ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]);
    assert_eq!(reasons(&cluster).await, ["BackoffLimitExceeded", "SuccessfulCreate"]);
}

#[tokio::test(start_paused = true)]
async fn an_exit_code_that_the_policy_names_ends_the_job_at_once() {
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let fails = json!({"metadata": {"annotations": {"simulated.pintle.dev/exit-code": "42", "simulated.pintle.dev/run-for": "0s"}}});
    let spec = json!({"parallelism": 1, "podFailurePolicy": {"rules": [rule]}, "template": fails});
    let cluster = after(20, job("fatal", json!({"spec": spec}))).await;
    let status = status(&cluster, "fatal").await;
    assert_eq!(conditions(&status), ["FailureTarget=True PodFailurePolicy", "Failed=True PodFailurePolicy"]);
    let message = status["conditions"][1]["message"].as_str().unwrap();
    assert!(message.starts_with("Container work for pod default/fatal-"), "{message}");
    assert!(message.ends_with(" failed with exit code 42 matching FailJob rule at index 0"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_goes_on_when_it_is_resumed() {
    let cluster = after(1, job("naps", json!({"spec": {"completions": 2, "parallelism": 2}}))).await;
    let api = cluster.api::<Job>("default");
    let suspend = |suspend: bool| Patch::Merge(json!({"spec": {"suspend": suspend}}));
    api.patch("naps", &PatchParams::default(), &suspend(true)).await.unwrap();
    cluster.settle().await;
    cluster.advance(Duration::from_secs(5)).await;
    cluster.settle().await;
    let asleep = status(&cluster, "naps").await;
    assert_eq!(conditions(&asleep), ["Suspended=True JobSuspended"]);
    assert!(asleep["startTime"].is_null() && asleep["failed"].is_null(), "{asleep}");
    assert_eq!(pods(&cluster).await.len(), 0);
    api.patch("naps", &PatchParams::default(), &suspend(false)).await.unwrap();
    cluster.settle().await;
    cluster.advance(Duration::from_secs(20)).await;
    cluster.settle().await;
    let done = status(&cluster, "naps").await;
    assert_eq!((&done["succeeded"], &done["failed"]), (&json!(2), &Value::Null), "{done}");
    assert_eq!(conditions(&done)[0], "Suspended=False JobResumed");
    assert_eq!(reasons(&cluster).await, ["Completed", "Resumed", "SuccessfulCreate", "SuccessfulDelete", "Suspended"]);
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_deleted_job_can_go() {
    let cluster = after(1, job("gone", json!({"spec": {"completions": 3, "parallelism": 3}}))).await;
    cluster.api::<Job>("default").delete("gone", &DeleteParams::background()).await.unwrap();
    cluster.settle().await;
    cluster.advance(Duration::from_secs(10)).await;
    cluster.settle().await;
    assert_eq!(pods(&cluster).await.len(), 0, "nothing holds them back");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_is_gone_fails_and_its_job_is_told_why() {
    let rule = json!({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]});
    let lost = json!({"spec": {"nodeName": "nowhere"}});
    let spec = json!({"podFailurePolicy": {"rules": [rule]}, "template": lost});
    let cluster = after(30, job("lost", json!({"spec": spec}))).await;
    assert_eq!(status(&cluster, "lost").await["active"], 1, "the node may come back");
    cluster.advance(Duration::from_secs(40)).await;
    cluster.settle().await;
    let status = status(&cluster, "lost").await;
    assert_eq!(conditions(&status), ["FailureTarget=True PodFailurePolicy", "Failed=True PodFailurePolicy"]);
    let message = status["conditions"][1]["message"].as_str().unwrap();
    assert!(message.ends_with(" has condition DisruptionTarget matching FailJob rule at index 0"), "{message}");
    assert_eq!(pods(&cluster).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_ended_goes_after_its_time_with_its_pods() {
    let cluster = after(20, job("brief", json!({"spec": {"ttlSecondsAfterFinished": 60}}))).await;
    assert_eq!(conditions(&status(&cluster, "brief").await)[1], "Complete=True CompletionsReached");
    cluster.advance(Duration::from_secs(60)).await;
    cluster.settle().await;
    assert!(cluster.api::<Job>("default").get_opt("brief").await.unwrap().is_none());
    assert_eq!(pods(&cluster).await.len(), 0);
}

/// A CronJob whose Jobs are like `job`'s.
fn cron_job(name: &str, spec: Value) -> Value {
    let mut cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name, "namespace": "default"},
        "spec": {"jobTemplate": {"spec": job("", json!({}))["spec"]}},
    });
    merge(&mut cron_job["spec"], spec);
    cron_job
}

async fn jobs(cluster: &Cluster) -> Vec<Job> {
    cluster.api::<Job>("default").list(&ListParams::default()).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn over_a_day_a_cron_job_runs_at_each_of_its_times() {
    let epoch = "2026-03-28T11:55:00Z".parse().unwrap();
    let cluster = Cluster::builder().nodes(1).epoch(epoch).start().await;
    cluster.settle().await;
    // Clocks are put forward that night: three o'clock in Berlin is one in UTC, and no longer two.
    let spec = json!({"schedule": "0 */3 * * *", "timeZone": "Europe/Berlin", "successfulJobsHistoryLimit": 20});
    cluster.create(cron_job("day", spec)).await.unwrap();
    cluster.create(cron_job("brief", json!({"schedule": "@hourly"}))).await.unwrap();
    cluster.advance(Duration::from_secs(24 * 3600)).await;
    cluster.settle().await;
    let jobs = jobs(&cluster).await;
    let scheduled = |job: &Job| {
        let annotations = job.metadata.annotations.clone().unwrap_or_default();
        annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].clone()
    };
    let times_of = |name: &str| -> Vec<String> {
        jobs.iter().filter(|job| job.metadata.name.as_deref().unwrap().starts_with(name)).map(scheduled).collect()
    };
    let times = times_of("day-");
    let expected = [
        "28T15:00:00+01",
        "28T18:00:00+01",
        "28T21:00:00+01",
        "29T00:00:00+01",
        "29T03:00:00+02",
        "29T06:00:00+02",
        "29T09:00:00+02",
        "29T12:00:00+02",
    ];
    assert_eq!(times, expected.map(|time| format!("2026-03-{time}:00")));
    let times = times_of("brief-");
    assert_eq!(times, ["2026-03-29T09:00:00Z", "2026-03-29T10:00:00Z", "2026-03-29T11:00:00Z"], "three are kept");
    assert!(jobs.iter().all(|job| job.status.as_ref().unwrap().completion_time.is_some()));
    let status = cluster.api::<CronJob>("default").get("brief").await.unwrap().status.unwrap();
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-03-29T11:00:00Z");
    assert_eq!(status.last_successful_time.unwrap().0.to_string(), "2026-03-29T11:00:10Z");
    assert!(status.active.is_none_or(|active| active.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_cron_jobs_of_the_same_minute_start_one_job_each() {
    let epoch = "2026-01-01T00:58:00Z".parse().unwrap();
    let cluster = Cluster::builder().loops(&["cronjob"]).epoch(epoch).start().await;
    for number in 0..1000 {
        cluster.create(cron_job(&format!("c{number:03}"), json!({"schedule": "0 * * * *"}))).await.unwrap();
    }
    cluster.advance(Duration::from_secs(5 * 60)).await;
    cluster.settle().await;
    let jobs = jobs(&cluster).await;
    let minute = "2026-01-01T01:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second() / 60;
    let mut names: Vec<String> = jobs.iter().map(|job| job.metadata.name.clone().unwrap()).collect();
    names.sort();
    let expected: Vec<String> = (0..1000).map(|number| format!("c{number:03}-{minute}")).collect();
    assert_eq!(names, expected);
    let late =
        jobs.iter().map(|job| job.metadata.creation_timestamp.clone().unwrap().0.as_second() - minute * 60).max();
    assert!(late.unwrap() <= 5, "the last one began {late:?} s late");
    let all = cluster.api::<CronJob>("default").list(&ListParams::default()).await.unwrap().items;
    assert!(all.iter().all(|cron_job| cron_job.status.as_ref().unwrap().active.as_ref().unwrap().len() == 1));
}
