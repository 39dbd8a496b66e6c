//! How Pods begin, go on and end.

use serde_json::{Value, json};

use crate::node::{Real, can_run};

#[tokio::test]
async fn containers_run_in_their_order_and_the_pod_ends_with_their_codes() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster
        .pod(
            "ordered",
            json!({"restartPolicy": "Never",
            "initContainers": [
                {"name": "first", "script": "echo one"},
                {"name": "beside", "restartPolicy": "Always", "script": "touch /tmp/up; trap 'exit 0' TERM; while :; do sleep 0.1; done",
                 "startupProbe": {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}},
                {"name": "second", "script": "echo two"}],
            "containers": [{"name": "main", "script": "echo three; exit 3"}, {"name": "other", "script": "echo four"}]}),
        )
        .await;
    let pod = cluster.phase("ordered", "Failed").await;
    let times = |list: &str, index: usize, which: &str| {
        let time = &pod["status"][list][index]["state"]["terminated"][which];
        time.as_str().unwrap_or_else(|| panic!("{}", pod["status"])).to_owned()
    };
    assert!(times("initContainerStatuses", 0, "finishedAt") <= times("initContainerStatuses", 2, "startedAt"));
    assert!(times("initContainerStatuses", 2, "finishedAt") <= times("containerStatuses", 0, "startedAt"));
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    assert_eq!(pod["status"]["containerStatuses"][1]["state"]["terminated"]["reason"], "Completed");
    for (container, said) in [("first", "one\n"), ("second", "two\n"), ("main", "three\n"), ("other", "four\n")] {
        assert_eq!(cluster.log(&pod, container, 0), said);
    }
    // The sidecar is stopped when the others have ended.
    cluster
        .pod_until("ordered", "the sidecar has ended", |pod| {
            pod["status"]["initContainerStatuses"][1]["state"]["terminated"]["exitCode"] == 0
        })
        .await;
}

#[tokio::test]
async fn a_container_that_fails_is_started_again_and_again_and_waits_in_between() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster.pod("crashes", json!({"containers": [{"name": "c", "script": "echo run; exit 1"}]})).await;
    let pod = cluster
        .pod_until("crashes", "waits", |pod| {
            pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(pod["status"]["phase"], "Running");
    cluster.until("get events", |events| events.contains("BackOff")).await;
    cluster.pod_until("crashes", "runs again", |pod| pod["status"]["containerStatuses"][0]["restartCount"] == 2).await;
}

#[tokio::test]
async fn what_is_to_run_after_a_start_and_before_a_stop_runs() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let seen = cluster.place.path("seen");
    std::fs::create_dir(&seen).expect("a directory");
    let mount = json!([{"name": "seen", "mountPath": "/seen"}]);
    let volumes = json!([{"name": "seen", "hostPath": {"path": seen}}]);
    cluster
        .pod(
            "hooked",
            json!({"terminationGracePeriodSeconds": 20, "volumes": volumes, "containers": [{"name": "c",
                "script": "trap 'touch /seen/3-asked; exit 0' TERM; while :; do sleep 0.1; done", "volumeMounts": mount,
                "lifecycle": {
                    "postStart": {"exec": {"command": ["touch", "/seen/1-started"]}},
                    "preStop": {"exec": {"command": ["sh", "-c", "[ -e /seen/3-asked ] || touch /seen/2-stops"]}}}}]}),
        )
        .await;
    cluster.ok("wait --for=condition=Ready pod/hooked --timeout=60s").await;
    assert!(seen.join("1-started").exists(), "ready means that the hook has run");
    cluster.ok("delete pod hooked").await;
    assert!(seen.join("2-stops").exists() && seen.join("3-asked").exists());

    cluster
        .pod(
            "unhooked",
            json!({"restartPolicy": "Never", "containers": [{"name": "c", "script": "sleep 100",
                "lifecycle": {"postStart": {"exec": {"command": ["false"]}}}}]}),
        )
        .await;
    cluster.phase("unhooked", "Failed").await;
    cluster.until("get events", |events| events.contains("FailedPostStartHook")).await;
}

#[tokio::test]
async fn a_pod_that_has_been_active_for_too_long_is_ended_and_a_deleted_one_leaves_nothing() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let stubborn = "trap '' TERM; while :; do sleep 0.1; done";
    let spec = json!({"activeDeadlineSeconds": 2, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "script": stubborn}]});
    cluster.pod("late", spec).await;
    let pod = cluster.phase("late", "Failed").await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
    cluster.pod("goes", json!({"containers": [{"name": "c", "script": stubborn}]})).await;
    cluster.ok("wait --for=condition=Ready pod/goes --timeout=60s").await;
    cluster.ok("delete pod goes late --grace-period=1").await;
    crate::harness::eventually("nothing of them is left", async || match cluster.containers() {
        0 => Ok(()),
        left => Err(format!("{left} containers")),
    })
    .await;
}

#[tokio::test]
async fn a_pod_runs_as_its_runtime_class_says_and_an_unknown_handler_is_said() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    for (name, handler) in [("plain", "runc"), ("missing", "no-such-handler")] {
        let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name},
            "handler": handler});
        cluster.apply(class).await;
    }
    let spec = |class: &str| json!({"runtimeClassName": class, "restartPolicy": "Never", "containers": [{"name": "c", "script": "true"}]});
    cluster.pod("runs", spec("plain")).await;
    cluster.phase("runs", "Succeeded").await;
    cluster.pod("waits", spec("missing")).await;
    cluster
        .until("get events", |events| events.contains("FailedCreatePodSandBox") && events.contains("no-such-handler"))
        .await;
}

#[tokio::test]
async fn a_command_that_is_not_there_is_told_and_the_other_containers_run() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let containers =
        json!([{"name": "bad", "command": ["/no/such/program"]}, {"name": "good", "script": "sleep 1000"}]);
    cluster.pod("half", json!({"terminationGracePeriodSeconds": 0, "containers": containers})).await;
    let of = |pod: &Value, name: &str| -> Value {
        let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        statuses.into_iter().find(|status| status["name"] == name).unwrap_or_default()
    };
    let backing_off = |pod: &Value| of(pod, "bad")["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    let pod = cluster.pod_until("half", "bad waits before it is started again", backing_off).await;
    let end = &of(&pod, "bad")["lastState"]["terminated"];
    assert_eq!((&end["reason"], &end["exitCode"]), (&json!("StartError"), &json!(128)), "{pod}");
    assert_eq!(of(&pod, "good")["ready"], true, "{pod}");
    assert_eq!(pod["status"]["phase"], "Running");
    cluster
        .pod("once", json!({"restartPolicy": "Never", "containers": [{"name": "c", "command": ["/no/such"]}]}))
        .await;
    let pod = cluster.phase("once", "Failed").await;
    assert_eq!(of(&pod, "c")["state"]["terminated"]["reason"], "StartError", "{pod}");
    let events = cluster.ok("get events").await;
    assert!(events.contains("Failed") && events.contains("BackOff"), "{events}");
}
