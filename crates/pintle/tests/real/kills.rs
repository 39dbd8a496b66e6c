//! The agent dies again and again while Pods run, restart and end; their containers must not notice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::eventually;
use crate::node::{Real, can_run};

fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

/// Identifier and restart count of every container that runs for ever, by Pod.
fn steady(pods: &Value) -> BTreeMap<String, (String, u64)> {
    let pods = pods["items"].as_array().expect("a list");
    let steady =
        pods.iter().filter(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("stays")));
    steady
        .map(|pod| {
            let container = &pod["status"]["containerStatuses"][0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let restarts = container["restartCount"].as_u64().unwrap_or(u64::MAX);
            (text(&pod["metadata"]["name"]), (text(&container["containerID"]), restarts))
        })
        .collect()
}

/// Containers that run, as the runtime has them and as their Pods' statuses say it: the same when the agent has done its work.
async fn told_and_true(cluster: &Real) -> (BTreeSet<String>, BTreeSet<String>) {
    let pods = cluster.get("pods").await;
    let statuses = pods["items"].as_array().into_iter().flatten();
    let running = statuses.flat_map(|pod| pod["status"]["containerStatuses"].as_array().into_iter().flatten());
    let running = running.filter(|container| container["state"]["running"].is_object());
    let told = running.filter_map(|container| container["containerID"].as_str()?.split("//").nth(1).map(str::to_owned));
    (told.collect(), cluster.running())
}

#[tokio::test]
async fn no_container_is_lost_doubled_or_restarted_when_the_agent_is_killed() {
    if !can_run() {
        return;
    }
    let kills = count("PINTLE_NODE_KILLS", 3);
    // The long form has ten times the Pods.
    let pods = if kills > 10 { 30 } else { 9 };
    let mut cluster = Real::start(&[]).await;
    let spec = |policy: &str, script: &str| json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "script": script}]});
    for index in 0..pods / 3 {
        cluster.pod(&format!("stays-{index}"), spec("Always", "trap 'exit 0' TERM; while :; do sleep 0.2; done")).await;
        cluster.pod(&format!("restarts-{index}"), spec("Always", "sleep 1; exit 1")).await;
        cluster.pod(&format!("ends-{index}"), spec("Never", &format!("sleep {}", 1 + index % 7))).await;
    }
    for index in 0..pods / 3 {
        cluster.ok(&format!("wait --for=condition=Ready pod/stays-{index} --timeout=120s")).await;
    }
    let before = steady(&cluster.get("pods").await);
    let mut longest = Duration::ZERO;
    for round in 0..kills {
        cluster.kill().await;
        // Something ends while nobody looks, each time at another moment.
        tokio::time::sleep(Duration::from_millis(137 * (round as u64 % 5))).await;
        cluster.up().await;
        let back = Instant::now();
        assert_eq!(steady(&cluster.get("pods").await), before, "after kill {}", round + 1);
        eventually("the status says what runs", async || {
            let (told, is) = told_and_true(&cluster).await;
            if told == is { Ok(()) } else { Err(format!("told: {told:?}\nrunning: {is:?}")) }
        })
        .await;
        longest = longest.max(back.elapsed());
    }
    println!("after {kills} kills the status was right within {longest:?}");
    if kills > 10 {
        assert!(longest < Duration::from_secs(5), "the status was wrong for {longest:?}");
    }
    for index in 0..pods / 3 {
        cluster.phase(&format!("ends-{index}"), "Succeeded").await;
    }
    let listed = cluster.get("pods").await;
    assert_eq!(steady(&listed), before);
    // One container runs for each steady Pod, in one sandbox: no more.
    cluster.ok("delete pods --all --grace-period=1").await;
    eventually("nothing is left", async || match cluster.containers() {
        0 => Ok(()),
        left => Err(format!("{left} containers")),
    })
    .await;
}
