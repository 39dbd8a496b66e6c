//! Loops that run work which ends: no Pod is counted twice and none is missed.

use crate::{create, delete, merge, pod, torture, with};
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
fn a_job_is_suspended_or_deleted_without_a_trace_wherever_its_loop_is_lost() {
    let scenario = Scenario::of("job-controller").on(with(&LOOPS, 1, true)).patience(Duration::from_secs(60)).steps(
        |cluster| async move {
            create(&cluster, job("naps", json!({"completions": 2, "parallelism": 2}), runs_for("20s"))).await;
            create(&cluster, job("goes", json!({"completions": 2, "parallelism": 2}), runs_for("20s"))).await;
            cluster.settle().await;
            merge::<Job>(&cluster, "naps", json!({"spec": {"suspend": true}})).await;
            delete::<Job>(&cluster, "goes", DeleteParams::background()).await;
        },
    );
    torture(&scenario);
}

#[test]
fn a_cron_job_starts_one_job_for_each_time_wherever_its_loop_is_lost() {
    let epoch = "2026-01-01T00:50:00Z".parse().unwrap();
    let loops = ["cronjob", "job", "garbage", "serviceaccount", "nodelifecycle"];
    let cluster = with(&loops, 1, true).epoch(epoch);
    let scenario =
        Scenario::of("cronjob-controller").on(cluster).patience(Duration::from_secs(120)).steps(|cluster| async move {
            let template = job("", json!({}), runs_for("1s"))["spec"].clone();
            for (name, limit) in [("kept", 1), ("cleaned", 0)] {
                let spec = json!({"schedule": "0 * * * *", "successfulJobsHistoryLimit": limit,
                                  "jobTemplate": {"spec": template}});
                let metadata = json!({"name": name, "namespace": "default"});
                let cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec});
                create(&cluster, cron_job).await;
            }
            cluster.advance(Duration::from_secs(15 * 60)).await;
        });
    torture(&scenario);
}

#[test]
fn a_job_that_has_ended_goes_after_its_time_wherever_that_loop_is_lost() {
    let loops = ["ttlafterfinished", "job", "garbage", "serviceaccount", "nodelifecycle"];
    let scenario = Scenario::of("ttl-after-finished-controller")
        .on(with(&loops, 1, true))
        .patience(Duration::from_secs(120))
        .steps(|cluster| async move {
            create(&cluster, job("goes", json!({"ttlSecondsAfterFinished": 30}), runs_for("1s"))).await;
            create(&cluster, job("stays", json!({"ttlSecondsAfterFinished": 86400}), runs_for("1s"))).await;
        });
    torture(&scenario);
}

#[test]
fn a_pod_whose_node_is_gone_goes_wherever_that_loop_is_lost() {
    let scenario = Scenario::of("pod-garbage-collector")
        .on(with(&["podgc", "serviceaccount", "nodelifecycle"], 1, true))
        .patience(Duration::from_secs(120))
        .steps(|cluster| async move {
            for (name, node) in [("lost", "nowhere"), ("found", "node-0")] {
                let mut bound = pod(name);
                bound["spec"]["nodeName"] = json!(node);
                create(&cluster, bound).await;
            }
            cluster.advance(Duration::from_secs(60)).await;
        });
    torture(&scenario);
}
