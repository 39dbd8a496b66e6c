//! What a user of a Job would lose.

mod counting;
mod ending;
mod indexes;
mod moves;
mod policy;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::Plan;
use serde_json::{Value, json};

use super::plan::{self, Backoff, Facts};

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
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

/// A Job that began 100 s ago, changed by merges of spec and status.
fn job(spec: Value, status: Value) -> Job {
    let mut job = json!({
        "metadata": {"name": "work", "namespace": "shop", "uid": "j", "resourceVersion": "7"},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 6, "selector": {"matchLabels": {"job": "work"}},
                 "template": {"metadata": {"labels": {"job": "work"}},
                              "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        "status": {"startTime": ago(100)},
    });
    merge(&mut job["spec"], spec);
    merge(&mut job["status"], status);
    serde_json::from_value(job).unwrap()
}

/// An indexed Job.
fn indexed(spec: Value, status: Value) -> Job {
    let mut all = json!({"completionMode": "Indexed"});
    merge(&mut all, spec);
    job(all, status)
}

/// A Pod in this phase that is not counted yet, changed by a merge.
fn pod(name: &str, phase: &str, change: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"job": "work"},
                     "creationTimestamp": ago(90), "finalizers": ["batch.kubernetes.io/job-tracking"]},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": phase},
    });
    merge(&mut pod, change);
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A Pod of an index.
fn pod_of(index: u32, name: &str, phase: &str) -> Arc<Pod> {
    pod(name, phase, of_index(index))
}

fn of_index(index: u32) -> Value {
    json!({"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()}}})
}

/// What makes a Pod be on its way out.
fn going() -> Value {
    json!({"metadata": {"deletionTimestamp": ago(5)}})
}

/// What makes a Pod have been counted.
fn counted() -> Value {
    json!({"metadata": {"finalizers": null}})
}

fn exited(code: i32, seconds_ago: i64) -> Value {
    json!({"status": {"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "finishedAt": ago(seconds_ago)}}}]}})
}

fn planned(job: &Job, pods: &[Arc<Pod>]) -> Plan {
    let backoff = Backoff::after(None, job, pods);
    plan::plan(&Facts { job, pods: pods.to_vec(), backoff, now: now() })
}

fn writes(plan: &Plan) -> Vec<String> {
    plan.writes.iter().map(ToString::to_string).collect()
}

/// The status that the plan leads to: what there is, and what is changed of it.
fn status(job: &Job, plan: &Plan) -> Value {
    let mut status = serde_json::to_value(&job.status).unwrap();
    if let Some(changes) = plan.status.as_ref().and_then(|status| status.changes()) {
        merge(&mut status, changes.clone());
    }
    status
}

/// The types of the conditions that hold.
fn holding(status: &Value) -> Vec<String> {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let holding = all.iter().filter(|condition| condition["status"] == "True");
    holding
        .map(|condition| format!("{} {}", condition["type"].as_str().unwrap(), condition["reason"].as_str().unwrap()))
        .collect()
}

fn events(plan: &Plan) -> Vec<&'static str> {
    plan.events.iter().map(|note| note.reason).collect()
}

/// What the API server would do with the plan: the Job with the status, and the Pods without finalizers or gone.
fn carried_out(job: &Job, pods: &[Arc<Pod>], plan: &Plan) -> (Job, Vec<Arc<Pod>>) {
    let mut after = job.clone();
    after.status = Some(serde_json::from_value(status(job, plan)).unwrap());
    let done = writes(plan);
    let has = |what: String| done.contains(&what);
    let changed = |pod: &Arc<Pod>| {
        let mut pod = pod.as_ref().clone();
        let name = pod.metadata.name.clone().unwrap();
        if has(format!("patch pods/{name}")) {
            pod.metadata.finalizers = None;
        }
        if has(format!("delete pods/{name}")) {
            pod.metadata.deletion_timestamp = serde_json::from_value(json!(ago(0))).unwrap();
        }
        Arc::new(pod)
    };
    (after, pods.iter().map(changed).collect())
}
