//! Loops that run work which ends: no Pod is counted twice and none is missed.

use crate::{create, delete, merge, torture, with};
use k8s_openapi::api::batch::v1::Job;
use kube::api::DeleteParams;
use pintle_testkit::Scenario;
use serde_json::{Value, json};
use std::time::Duration;

const LOOPS: [&str; 4] = ["job", "garbage", "serviceaccount", "nodelifecycle"];

/// A Job whose Pods behave as these annotations say.
fn job(name: &str, mut spec: Value, script: Value) -> Value {
    spec["template"] = json!({
        "metadata": {"annotations": script},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "work", "image": "work:1"}]}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn runs_for(time: &str) -> Value {
    json!({"simulated.pintle.dev/run-for": time})
}

#[test]
fn a_job_ends_with_every_pod_counted_once_wherever_its_loop_is_lost() {
    let scenario = Scenario::of("job-controller").on(with(&LOOPS, 1, true)).patience(Duration::from_secs(60)).steps(
        |cluster| async move {
            create(&cluster, job("some", json!({"completions": 3, "parallelism": 2}), runs_for("1s"))).await;
            let indexed = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
            create(&cluster, job("each", indexed, runs_for("1s"))).await;
        },
    );
    torture(&scenario);
}

#[test]
fn a_job_that_fails_ends_with_its_failures_wherever_its_loop_is_lost() {
    let fails = json!({"simulated.pintle.dev/exit-code": "1", "simulated.pintle.dev/run-for": "1s"});
    let scenario = Scenario::of("job-controller").on(with(&LOOPS, 1, true)).patience(Duration::from_secs(120)).steps(
        move |cluster| {
            let fails = fails.clone();
            async move {
                create(&cluster, job("fails", json!({"backoffLimit": 1}), fails)).await;
                cluster.advance(Duration::from_secs(60)).await;
            }
        },
    );
    torture(&scenario);
}

#[test]
fn a_job_is_suspended_resumed_and_deleted_wherever_its_loop_is_lost() {
    let scenario = Scenario::of("job-controller").on(with(&LOOPS, 1, true)).patience(Duration::from_secs(60)).steps(
        |cluster| async move {
            create(&cluster, job("naps", json!({"completions": 2, "parallelism": 2}), runs_for("20s"))).await;
            create(&cluster, job("goes", json!({"completions": 2, "parallelism": 2}), runs_for("20s"))).await;
            cluster.settle().await;
            merge::<Job>(&cluster, "naps", json!({"spec": {"suspend": true}})).await;
            delete::<Job>(&cluster, "goes", DeleteParams::background()).await;
            cluster.settle().await;
            merge::<Job>(&cluster, "naps", json!({"spec": {"suspend": false}})).await;
            cluster.advance(Duration::from_secs(30)).await;
        },
    );
    torture(&scenario);
}
