//! Pods that files of the machine say, whatever the API server is told.

use serde_json::{Value, json};

use crate::harness::eventually;
use crate::harness::program::Place;
use crate::node::{IMAGE, Real, can_run};

fn manifest(says: &str) -> String {
    let script = format!("echo {says}; trap 'exit 0' TERM; while :; do sleep 0.1; done");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "c", "image": IMAGE, "command": ["sh", "-c", script]}]}})
    .to_string()
}

fn container(pod: &Value) -> String {
    pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_pod_in_a_file_runs_whatever_happens_to_its_mirror_and_ends_with_the_file() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let manifests = place.path("manifests");
    std::fs::create_dir(&manifests).unwrap();
    std::fs::write(manifests.join("broken.yaml"), "kind: Pod\nspec: {containers: []}").unwrap();
    let manifests_flag = manifests.display().to_string();
    let flags = ["--pod-manifest-path", &manifests_flag, "--file-check-frequency", "1"];
    let mut cluster = Real::start_in(place, &flags).await;
    std::fs::write(manifests.join("web.yaml"), manifest("one")).unwrap();
    let node = cluster.get("nodes").await["items"][0].clone();
    let name = format!("web-{}", node["metadata"]["name"].as_str().unwrap());
    eventually("the mirror comes", async || match cluster.ok("get pods").await {
        pods if pods.contains(&name) => Ok(()),
        pods => Err(pods),
    })
    .await;
    let first = cluster.phase(&name, "Running").await;
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    assert_eq!(cluster.ok(&format!("logs {name}")).await.trim(), "one");
    assert_eq!(cluster.ok(&format!("exec {name} -- echo inside")).await.trim(), "inside");

    // Who deletes the mirror gets another, so soon that a kubectl which waits may miss that the first was gone; what runs is not
    // touched.
    cluster.ok(&format!("delete pod {name} --wait=false")).await;
    let comes_back = |before: &Value| {
        let (uid, container_before) = (before["metadata"]["uid"].clone(), container(before));
        move |pods: &Value| {
            let again = pods["items"].as_array().into_iter().flatten().find(|pod| pod["metadata"]["uid"] != uid);
            again.is_some_and(|pod| container(pod) == container_before)
        }
    };
    let back = comes_back(&first);
    eventually("the mirror comes back", async || {
        let pods = cluster.get("pods").await;
        if back(&pods) { Ok(()) } else { Err(pods.to_string()) }
    })
    .await;

    // A new agent finds it running.
    cluster.kill().await;
    cluster.up().await;
    let found = cluster.phase(&name, "Running").await;
    assert_eq!(
        (container(&found), &found["status"]["containerStatuses"][0]["restartCount"]),
        (container(&first), &json!(0))
    );

    // Another text is another Pod, which starts when the one before has ended.
    std::fs::write(manifests.join(".web.new"), manifest("two")).unwrap();
    std::fs::rename(manifests.join(".web.new"), manifests.join("web.yaml")).unwrap();
    eventually("the second text runs", async || {
        let answer = cluster.run(&format!("logs {name}")).await;
        if answer.stdout.trim() == "two" { Ok(()) } else { Err(answer.stderr) }
    })
    .await;
    assert_ne!(container(&cluster.phase(&name, "Running").await), container(&first));

    std::fs::remove_file(manifests.join("web.yaml")).unwrap();
    eventually("nothing of it is left", async || {
        let pods = cluster.ok("get pods").await;
        if !pods.contains(&name) && cluster.containers() == 0 { Ok(()) } else { Err(pods) }
    })
    .await;
}
