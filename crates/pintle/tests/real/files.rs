//! What containers see of volumes, ConfigMaps, Secrets and their own Pod.

use serde_json::json;

use crate::harness::eventually;
use crate::node::{Real, can_run};

#[tokio::test]
async fn a_container_sees_its_volumes_as_it_asked_for_them() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let host = cluster.place.path("host");
    std::fs::create_dir_all(host.join("deep/er")).expect("a directory");
    std::fs::write(host.join("deep/er/file"), "from the host\n").expect("a file");
    cluster.ok("create configmap settings --from-literal=color=blue --from-literal=size=7").await;
    cluster.ok("create secret generic keys --from-literal=key=hidden").await;
    cluster
        .apply(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "", "hostPath": {"path": host},
            "claimRef": {"namespace": "default", "name": "claim"}}}))
        .await;
    cluster
        .apply(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk",
            "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    let script = "cat /settings/color; echo; cat /settings/small; echo; stat -L -c %a /keys/key; cat /keys/key; echo; \
        cat /self/labels; echo; grep -c . /var/run/secrets/kubernetes.io/serviceaccount/token; \
        df -k /memory | tail -1 | grep -c tmpfs; cat /host/deep/er/file; cat /below/file; cat /claim/deep/er/file; \
        echo written > /claim/back; touch /settings/x 2>/dev/null || echo read only; echo $COLOR-$SIZE-$NAME-$CPU-$(hostname)";
    cluster
        .pod(
            "sees",
            json!({"restartPolicy": "Never", "hostname": "here", "volumes": [
                {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "color", "path": "color"}, {"key": "size", "path": "small"}]}},
                {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256}},
                {"name": "self", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                {"name": "host", "hostPath": {"path": host, "type": "Directory"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}}],
            "containers": [{"name": "c", "script": script,
                "env": [{"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                    {"name": "SIZE", "value": "$(COLOR)est"}],
                "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "settings", "mountPath": "/settings"}, {"name": "keys", "mountPath": "/keys"},
                    {"name": "self", "mountPath": "/self"}, {"name": "memory", "mountPath": "/memory"},
                    {"name": "host", "mountPath": "/host"}, {"name": "claim", "mountPath": "/claim"},
                    {"name": "host", "mountPath": "/below", "subPath": "deep/er"}]}]}),
        )
        .await;
    let pod = cluster.phase("sees", "Succeeded").await;
    let log = cluster.log(&pod, "c", 0);
    let expected = "blue\n7\n400\nhidden\ndefault\n1\n1\nfrom the host\nfrom the host\nfrom the host\n";
    assert!(log.starts_with(expected), "{log}");
    assert!(log.ends_with("read only\nblue-blueest-sees-500-here\n"), "{log}");
    assert_eq!(std::fs::read_to_string(host.join("back")).expect("a file"), "written\n");
}

#[tokio::test]
async fn a_changed_configmap_reaches_a_running_container_whole() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster.ok("create configmap pair --from-literal=a=1 --from-literal=b=1").await;
    // Both files are read through one directory that is swapped: never one old and one new.
    let script = "while :; do cd /pair/..data && echo $(cat a)$(cat b); cd /; sleep 0.1; done";
    cluster
        .pod(
            "follows",
            json!({"terminationGracePeriodSeconds": 0, "volumes": [{"name": "pair", "configMap": {"name": "pair"}}],
            "containers": [{"name": "c", "script": script, "volumeMounts": [{"name": "pair", "mountPath": "/pair"}]}]}),
        )
        .await;
    cluster.ok("wait --for=condition=Ready pod/follows --timeout=60s").await;
    cluster.ok("patch configmap pair -p '{\"data\":{\"a\":\"2\",\"b\":\"2\"}}'").await;
    // A change of the Pod makes the agent look at once rather than in a minute.
    cluster.ok("annotate pod follows look=now").await;
    let pod = cluster.get("pod follows").await;
    let log = eventually("the new pair is read", async || {
        let log = cluster.log(&pod, "c", 0);
        if log.contains("22\n") { Ok(log) } else { Err(log) }
    })
    .await;
    // A directory that is gone may not be read to its end, but no reader sees a mixture.
    assert!(!log.lines().any(|line| line == "12" || line == "21"), "{log}");
}

#[tokio::test]
async fn a_pod_that_misses_something_says_what_and_starts_when_it_comes() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let env = json!([{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "x"}}}]);
    cluster
        .pod("waits", json!({"restartPolicy": "Never", "containers": [{"name": "c", "script": "echo $X", "env": env}]}))
        .await;
    cluster
        .pod_until("waits", "says why", |pod| {
            let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
            waiting["reason"] == "CreateContainerConfigError" && waiting["message"] == "configmap \"later\" not found"
        })
        .await;
    let volume = json!([{"name": "v", "secret": {"secretName": "later"}}]);
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    cluster
        .pod(
            "mounts",
            json!({"restartPolicy": "Never", "volumes": volume,
            "containers": [{"name": "c", "script": "cat /v/k", "volumeMounts": mount}]}),
        )
        .await;
    let said = "MountVolume.SetUp failed for volume \"v\" : secret \"later\" not found";
    cluster.until("get events", |events| events.contains(said)).await;
    cluster.ok("create configmap later --from-literal=x=here").await;
    cluster.ok("create secret generic later --from-literal=k=there").await;
    let (waits, mounts) = (cluster.phase("waits", "Succeeded").await, cluster.phase("mounts", "Succeeded").await);
    assert_eq!(
        (cluster.log(&waits, "c", 0), cluster.log(&mounts, "c", 0)),
        ("here\n".into(), "there".to_owned() + "\n")
    );
}
