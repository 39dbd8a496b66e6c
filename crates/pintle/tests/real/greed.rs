//! Containers that fork, write and talk without end: they meet their bounds, and neither neighbour nor node suffers for it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::eventually;
use crate::node::{Real, can_run};

/// A Pod that answers on a port, to see that it does so all the time.
async fn neighbour(cluster: &Real) {
    let script = "mkdir /www; echo fine > /www/health; httpd -f -p 8080 -h /www";
    let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": script,
        "readinessProbe": {"periodSeconds": 1, "failureThreshold": 2, "httpGet": {"port": 8080, "path": "/health"}}}]});
    cluster.pod("neighbour", spec).await;
    cluster.ok("wait --for=condition=Ready pod/neighbour --timeout=60s").await;
}

async fn all_is_well(cluster: &Real, since: &Value) {
    assert_eq!(cluster.ok("exec neighbour -- wget -qO- http://127.0.0.1:8080/health").await.trim(), "fine");
    let neighbour = cluster.get("pod neighbour").await;
    let container = &neighbour["status"]["containerStatuses"][0];
    assert_eq!((&container["ready"], &container["restartCount"]), (&json!(true), &json!(0)), "{container}");
    assert_eq!(neighbour["status"]["conditions"], *since, "it was ready all the time");
    let nodes = cluster.ok("get nodes").await;
    assert!(nodes.contains(" Ready "), "{nodes}");
}

async fn conditions(cluster: &Real) -> Value {
    cluster.get("pod neighbour").await["status"]["conditions"].clone()
}

/// The control groups of a Pod that asks for nothing: one, or one for each controller.
fn groups(pod: &Value) -> Vec<PathBuf> {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let trees = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = trees.chain([root.to_owned()]).map(|tree| tree.join(format!("kubepods/besteffort/pod{uid}")));
    all.filter(|group| group.exists()).collect()
}

#[tokio::test]
async fn a_container_that_forks_without_end_is_stopped_at_its_pods_bound() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&["--pod-max-pids", "64"]).await;
    neighbour(&cluster).await;
    let before = conditions(&cluster).await;
    // The inner shell gives up at the first fork that fails; what it has started stays.
    let script = "(while :; do sleep 100000 & done); echo no more; exec sleep 100000";
    cluster
        .pod("forks", json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": script}]}))
        .await;
    let pod = cluster.phase("forks", "Running").await;
    eventually("the bound is met", async || match cluster.log(&pod, "c", 0) {
        log if log.contains("can't fork") && log.contains("no more") => Ok(()),
        log => Err(log),
    })
    .await;
    let read = |file: &str| {
        let found = groups(&pod).into_iter().find_map(|group| std::fs::read_to_string(group.join(file)).ok());
        found.unwrap_or_default().trim().to_owned()
    };
    assert_eq!(read("pids.max"), "64");
    assert!((60..=64).contains(&read("pids.current").parse().unwrap_or(0)), "{}", read("pids.current"));
    all_is_well(&cluster, &before).await;
    cluster.ok("delete pod forks").await;
    eventually("its control groups go with it", async || match groups(&pod) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await;
}

#[tokio::test]
async fn a_container_that_writes_more_than_it_may_is_evicted() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    neighbour(&cluster).await;
    let before = conditions(&cluster).await;
    let volume = json!([{"name": "data", "emptyDir": {"sizeLimit": "5Mi"}}]);
    let fills = |file: &str| format!("head -c 20000000 /dev/zero > {file}; sleep 100000");
    cluster
        .pod(
            "volume",
            json!({"volumes": volume, "containers": [{"name": "c", "script": fills("/data/file"),
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}),
        )
        .await;
    cluster
        .pod(
            "layer",
            json!({"containers": [{"name": "c", "script": fills("/file"),
                "resources": {"limits": {"ephemeral-storage": "5Mi"}}}]}),
        )
        .await;
    for (name, message) in [
        ("volume", "Usage of EmptyDir volume \"data\" exceeds the limit \"5Mi\". "),
        ("layer", "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "),
    ] {
        let pod = cluster.phase(name, "Failed").await;
        let told = (&pod["status"]["reason"], &pod["status"]["message"]);
        assert_eq!(told, (&json!("Evicted"), &json!(message)));
        let end = &pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
        assert_eq!(end, 137, "{}", pod["status"]);
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let volumes = cluster.place.path(&format!("data/node/pods/{uid}/volumes"));
        eventually("what it wrote is gone", async || match volumes.exists() {
            true => Err(volumes.display().to_string()),
            false => Ok(()),
        })
        .await;
    }
    all_is_well(&cluster, &before).await;
}

#[tokio::test]
async fn a_container_that_floods_its_log_keeps_only_the_end_of_it() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&["--container-log-max-size", "1Mi", "--container-log-max-files", "2"]).await;
    neighbour(&cluster).await;
    let before = conditions(&cluster).await;
    let script = "while :; do yes 0123456789012345678901234567890123456789 | head -n 20000; sleep 0.5; done";
    cluster
        .pod("floods", json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "script": script}]}))
        .await;
    let pod = cluster.phase("floods", "Running").await;
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let directory = cluster.place.path(&format!("data/node/logs/pods/default_floods_{uid}/c"));
    let files = || {
        let names = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let mut first = None;
    // It was moved away, and then what was moved away made room for the next.
    eventually("the log was rotated twice", async || {
        let now = files();
        assert!(now.len() <= 2, "{now:?}");
        match (now.get(1), &first) {
            (Some(rotated), None) => first = Some(rotated.clone()),
            (Some(rotated), Some(before)) if rotated != before => return Ok(()),
            _ => {}
        }
        Err(format!("{now:?}"))
    })
    .await;
    let last = cluster.ok("logs floods --tail=1").await;
    assert_eq!(last.trim(), "0123456789012345678901234567890123456789");
    all_is_well(&cluster, &before).await;
    let culprit = cluster.get("pod floods").await;
    assert_eq!(culprit["status"]["containerStatuses"][0]["restartCount"], 0, "talking is not forbidden");
}
