//! What the kit itself promises: forks, snapshots, scripts, loops that crash and come back, seeds that are named.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use pintle_runtime::Context;
use pintle_testkit::{Cluster, try_explore};
use serde_json::{Value, json};
use std::time::Duration;

fn pod(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": format!("{name}:1"),
            "readinessProbe": {"periodSeconds": 1, "httpGet": {"port": 80}}}]}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}}})
}

async fn phase(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.api::<Pod>("default").get_opt(name).await.unwrap();
    let status = pod.and_then(|pod| pod.status);
    let ready =
        status.iter().flat_map(|s| s.conditions.iter().flatten()).any(|c| c.type_ == "Ready" && c.status == "True");
    format!("{}{}", status.and_then(|s| s.phase).unwrap_or_default(), if ready { " and ready" } else { "" })
}

#[tokio::test(start_paused = true)]
async fn a_fork_goes_on_from_the_same_moment_and_the_original_does_not_notice() {
    let cluster = Cluster::start().await;
    cluster.settle().await;
    cluster.create(deployment()).await.unwrap();
    cluster.settle().await;
    let before = cluster.snapshot().await;
    let fork = cluster.fork().await;
    assert_eq!(fork.clock.now(), cluster.clock.now());
    assert!(before.differences(&fork.snapshot().await).is_empty());
    let first = fork.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items.remove(0);
    fork.settle().await;
    assert!(before.differences(&fork.snapshot().await).is_empty(), "loops started anew find nothing to do");
    let name = first.metadata.name.unwrap_or_default();
    fork.api::<Pod>("default").delete(&name, &DeleteParams::default()).await.unwrap();
    fork.settle().await;
    assert!(fork.api::<Pod>("default").get_opt(&name).await.unwrap().is_none(), "its containers ended in the fork");
    assert!(cluster.api::<Pod>("default").get_opt(&name).await.unwrap().is_some());
    assert!(before.differences(&cluster.snapshot().await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_what_differs_and_not_what_is_called_otherwise() {
    let mut ends = Vec::new();
    for (seed, replicas) in [(1, 2), (2, 2), (3, 1)] {
        let cluster = Cluster::builder().seed(seed).start().await;
        let mut wanted = deployment();
        wanted["spec"]["replicas"] = json!(replicas);
        cluster.create(wanted).await.unwrap();
        cluster.settle().await;
        ends.push(cluster.snapshot().await);
    }
    assert_eq!(ends[0].differences(&ends[1]), Vec::<String>::new());
    let fewer = ends[0].differences(&ends[2]);
    assert!(fewer.iter().any(|line| line.contains("/registry/pods/default/web-") && line.ends_with("is missing")));
    assert!(fewer.iter().any(|line| line.contains("spec.replicas is 1 and should be 2")), "{fewer:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_follow_their_script() {
    let cluster = Cluster::start().await;
    cluster.settle().await;
    let cases = [
        ("plain", json!({}), "Running and ready"),
        ("late", json!({"simulated.pintle.dev/ready-after": "20s"}), "Running"),
        ("never", json!({"simulated.pintle.dev/ready-fails-after": "0s"}), "Running"),
        ("unpulled", json!({"simulated.pintle.dev/pull-fails": "true"}), "Pending"),
        ("twice", json!({"simulated.pintle.dev/pull-fails": "2"}), "Pending"),
    ];
    for (name, script, _) in &cases {
        cluster.create(pod(name, script.clone())).await.unwrap();
    }
    cluster.settle().await;
    for (name, _, wanted) in &cases {
        assert_eq!(phase(&cluster, name).await, *wanted, "{name}");
    }
    cluster.advance(Duration::from_secs(60)).await;
    let later =
        [("late", "Running and ready"), ("never", "Running"), ("unpulled", "Pending"), ("twice", "Running and ready")];
    for (name, wanted) in later {
        assert_eq!(phase(&cluster, name).await, wanted, "{name}");
    }
}

/// A loop that keeps a ConfigMap there, once a second.
async fn keeper(context: Context) {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), "default");
    loop {
        if maps.get_opt("kept").await.ok().flatten().is_none() {
            let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "kept"}})).unwrap();
            let _ = maps.create(&PostParams::default(), &map).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_of_the_tests_own_crashes_and_comes_back() {
    let cluster = Cluster::bare().await;
    cluster.run("keeper", keeper);
    cluster.settle().await;
    let maps = cluster.api::<ConfigMap>("default");
    assert!(maps.get_opt("kept").await.unwrap().is_some());
    cluster.crash_loop("keeper").await;
    maps.delete("kept", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(30)).await;
    assert!(maps.get_opt("kept").await.unwrap().is_none(), "it is gone");
    cluster.revive();
    cluster.settle().await;
    assert!(maps.get_opt("kept").await.unwrap().is_some(), "it is back");
    cluster.faults.on("keeper").restart_after(Duration::from_secs(20)).crash_before_write(1);
    maps.delete("kept", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(10)).await;
    assert!(maps.get_opt("kept").await.unwrap().is_none(), "it crashed before it wrote");
    cluster.settle().await;
    assert!(maps.get_opt("kept").await.unwrap().is_some(), "and was started again");
}

#[test]
fn the_seed_that_fails_is_named_with_the_command_that_runs_it_again() {
    let failure = try_explore(1..40, |seed| async move {
        let cluster = Cluster::builder().seed(seed).loops(&[]).nodes(0).scheduler(false).start().await;
        assert!(cluster.random.below(4) != 0, "unlucky");
    });
    let failure = failure.unwrap_err();
    assert!(failure.contains("unlucky") && failure.contains("PINTLE_SEED="), "{failure}");
    assert!(failure.contains("cargo test -p pintle-testkit kit::the_seed_that_fails"), "{failure}");
    assert_eq!(try_explore(1..4, |_| async {}), Ok(3));
}
