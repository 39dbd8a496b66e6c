//! The users that containers run as, what they may do, and what they may use.

use serde_json::json;

use crate::node::{Real, can_run};

#[tokio::test]
async fn a_container_runs_as_it_was_told_and_may_do_no_more() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let script = "id -u; id -g; id -G; grep -h NoNewPrivs /proc/self/status; grep -h CapEff /proc/self/status; \
        touch /x 2>/dev/null || echo no root; stat -c %g /data; grep Seccomp: /proc/self/status";
    cluster
        .pod(
            "bound",
            json!({"restartPolicy": "Never",
            "securityContext": {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000],
                "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{"name": "c", "script": script, "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]}}},
                {"name": "mighty", "script": "grep -h CapEff /proc/self/status",
                 "securityContext": {"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}}]}),
        )
        .await;
    let pod = cluster.phase("bound", "Succeeded").await;
    let log = cluster.log(&pod, "c", 0);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(&lines[..2], ["1000", "3000"], "{log}");
    for group in ["2000", "4000"] {
        assert!(lines[2].split(' ').any(|have| have == group), "{log}");
    }
    assert_eq!(&lines[3..], ["NoNewPrivs:\t1", "CapEff:\t0000000000000000", "no root", "2000", "Seccomp:\t2"], "{log}");
    // Bit 12 alone.
    assert_eq!(cluster.log(&pod, "mighty", 0), "CapEff:\t0000000000001000\n");

    cluster
        .pod(
            "rootless",
            json!({"restartPolicy": "Never", "securityContext": {"runAsNonRoot": true},
            "containers": [{"name": "c", "script": "id -u"}]}),
        )
        .await;
    cluster
        .pod_until("rootless", "is refused", |pod| {
            let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
            waiting["reason"] == "CreateContainerConfigError"
                && waiting["message"].as_str().is_some_and(|message| message.contains("run as root"))
        })
        .await;
}

#[tokio::test]
async fn a_container_that_takes_too_much_memory_is_killed_and_its_neighbour_stays() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let greedy = "x=x; while :; do x=$x$x$x$x; done";
    cluster
        .pod(
            "greedy",
            json!({"restartPolicy": "Never", "containers": [
                {"name": "c", "script": greedy, "resources": {"limits": {"memory": "32Mi", "cpu": "500m"}}},
                {"name": "neighbour", "script": "trap 'exit 0' TERM; while :; do sleep 0.1; done"}]}),
        )
        .await;
    let pod = cluster
        .pod_until("greedy", "killed", |pod| {
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"
        })
        .await;
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
    assert!(pod["status"]["containerStatuses"][1]["state"]["running"].is_object(), "{}", pod["status"]);
    assert_eq!(pod["status"]["qosClass"], "Burstable");
}

#[tokio::test]
async fn last_words_are_in_the_status() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster
        .pod(
            "speaks",
            json!({"restartPolicy": "Never", "containers": [
                {"name": "file", "script": "printf bye > /dev/termination-log; exit 1"},
                {"name": "log", "script": "echo from the log; exit 1", "terminationMessagePolicy": "FallbackToLogsOnError"}]}),
        )
        .await;
    let pod = cluster.phase("speaks", "Failed").await;
    let said = |index: usize| &pod["status"]["containerStatuses"][index]["state"]["terminated"]["message"];
    assert_eq!((said(0), said(1)), (&json!("bye"), &json!("from the log\n")));
}
