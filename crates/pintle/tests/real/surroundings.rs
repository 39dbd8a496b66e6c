//! What a container finds around it: namespaces, variables, limits, conditions of its Pod, kinds of volumes.

use serde_json::{Value, json};

use crate::node::{Real, can_run};

/// Where a process stands, one namespace a line.
const NAMESPACES: &str =
    "readlink /proc/self/ns/net; readlink /proc/self/ns/ipc; readlink /proc/self/ns/pid; readlink /proc/self/ns/uts";

#[tokio::test]
async fn a_container_shares_with_its_node_what_its_pod_asks_for_and_nothing_else() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let pod = |more: Value| {
        // Each waits for the other: the kernel gives the number of a namespace that has ended to the next one.
        let container = |name: &str, other: &str| {
            let meet = format!("touch /meet/{name}; until [ -e /meet/{other} ]; do sleep 0.1; done");
            json!({"name": name, "script": format!("{NAMESPACES}; {meet}"),
                "volumeMounts": [{"name": "meet", "mountPath": "/meet"}]})
        };
        let mut spec = json!({"restartPolicy": "Never", "volumes": [{"name": "meet", "emptyDir": {}}],
            "containers": [container("one", "two"), container("two", "one")]});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    };
    cluster.pod("host", pod(json!({"hostNetwork": true, "hostPID": true, "hostIPC": true}))).await;
    cluster.pod("own", pod(json!({}))).await;
    cluster.pod("shared", pod(json!({"shareProcessNamespace": true}))).await;
    let node: Vec<String> = ["net", "ipc", "pid"]
        .map(|kind| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string())
        .to_vec();

    let host = cluster.phase("host", "Succeeded").await;
    let lines = |pod: &Value, container: &str| -> Vec<String> {
        cluster.log(pod, container, 0).lines().map(str::to_owned).collect()
    };
    assert_eq!(lines(&host, "one")[..3], node[..], "the node's own");
    assert_eq!(host["status"]["podIP"], host["status"]["hostIP"]);

    let own = cluster.phase("own", "Succeeded").await;
    let (one, two) = (lines(&own, "one"), lines(&own, "two"));
    assert!(one.iter().zip(&node).all(|(own, node)| own != node), "{one:?}");
    assert_eq!((&one[0], &one[1], &one[3]), (&two[0], &two[1], &two[3]), "containers of a Pod share these");
    assert_ne!(one[2], two[2], "but each has its own processes");
    assert_ne!(own["status"]["podIP"], own["status"]["hostIP"]);

    let shared = cluster.phase("shared", "Succeeded").await;
    assert_eq!(lines(&shared, "one")[2], lines(&shared, "two")[2]);

    let might = "grep -h CapEff /proc/self/status; ls /dev | grep -c .";
    cluster
        .pod(
            "mighty",
            json!({"restartPolicy": "Never", "containers": [
            {"name": "privileged", "script": might, "securityContext": {"privileged": true}},
            {"name": "plain", "script": might}]}),
        )
        .await;
    let mighty = cluster.phase("mighty", "Succeeded").await;
    let might = |container: &str| {
        let told = lines(&mighty, container);
        let capabilities = told[0].split_whitespace().nth(1).and_then(|bits| u64::from_str_radix(bits, 16).ok());
        (capabilities.expect("a number"), told[1].parse::<u32>().expect("a number"))
    };
    let ((all, devices), (some, few)) = (might("privileged"), might("plain"));
    // SYS_ADMIN is bit 21.
    assert!(all >> 21 & 1 == 1 && some >> 21 & 1 == 0, "{all:x} {some:x}");
    assert!(devices > few, "the node's devices: {devices} and {few}");
}

#[tokio::test]
async fn a_container_is_told_of_its_surroundings_in_variables_and_held_to_its_limits() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster.ok("create configmap settings --from-literal=COLOR=blue --from-literal=SIZE=7").await;
    cluster.ok("create secret generic keys --from-literal=key=hidden").await;
    cluster.ok("create service clusterip data-base --tcp=5432:5432").await;
    let address = cluster.get("service data-base").await["spec"]["clusterIP"].as_str().expect("an address").to_owned();
    let script = "echo $APP_COLOR $APP_SIZE $KEY $NODE $ADDRESS; echo ${NONE-absent}; pwd; \
        echo ${DATA_BASE_SERVICE_HOST-none} ${DATA_BASE_SERVICE_PORT-none} ${KUBERNETES_SERVICE_HOST:+api}; \
        cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; \
        cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us";
    let spec = |links: bool| {
        json!({"restartPolicy": "Never", "enableServiceLinks": links, "containers": [{"name": "c", "script": script,
            "workingDir": "/tmp",
            "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "settings"}},
                {"configMapRef": {"name": "not-there", "optional": true}}],
            "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
                {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "no", "optional": true}}},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}}]})
    };
    cluster.pod("linked", spec(true)).await;
    cluster.pod("unlinked", spec(false)).await;
    for (name, services) in [("linked", format!("{address} 5432 api")), ("unlinked", "none none api".to_owned())] {
        let pod = cluster.phase(name, "Succeeded").await;
        let (node, own) = (pod["spec"]["nodeName"].as_str().unwrap(), pod["status"]["podIP"].as_str().unwrap());
        let expected = format!("blue 7 hidden {node} {own}\nabsent\n/tmp\n{services}\n67108864\n50000\n");
        assert_eq!(cluster.log(&pod, "c", 0), expected, "{name}");
        assert_eq!(pod["status"]["qosClass"], "Guaranteed");
    }
}

#[tokio::test]
async fn a_pod_is_ready_when_its_gates_are_open_and_its_volumes_are_what_they_must_be() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster
        .pod(
            "gated",
            json!({"terminationGracePeriodSeconds": 0, "readinessGates": [{"conditionType": "example.com/open"}],
            "containers": [{"name": "c", "script": "sleep 1000"}]}),
        )
        .await;
    let is = |pod: &Value, kind: &str, status: &str| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == status)
    };
    let well = ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady"];
    let pod = cluster
        .pod_until("gated", "runs", |pod| well.iter().all(|kind| is(pod, kind, "True")) && is(pod, "Ready", "False"))
        .await;
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    let open = r#"{"status":{"conditions":[{"type":"example.com/open","status":"True"}]}}"#;
    cluster.ok(&format!("patch pod gated --subresource=status -p '{open}'")).await;
    cluster.pod_until("gated", "is ready", |pod| is(pod, "Ready", "True")).await;

    let host = cluster.place.path("host");
    std::fs::create_dir(&host).expect("a directory");
    let path = |name: &str| host.join(name).display().to_string();
    std::fs::write(host.join("file"), "there\n").expect("a file");
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    cluster
        .pod(
            "finds",
            json!({"restartPolicy": "Never", "volumes": [
                {"name": "made", "hostPath": {"path": path("made"), "type": "DirectoryOrCreate"}},
                {"name": "touched", "hostPath": {"path": path("touched"), "type": "FileOrCreate"}},
                {"name": "file", "hostPath": {"path": path("file"), "type": "File"}},
                {"name": "mixed", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca"}]}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}],
            "containers": [{"name": "c", "script": "echo in > /made/x; echo in > /touched; cat /file; cat /mixed/name; echo; \
                    grep -c BEGIN /mixed/ca; cut -d. -f2 /mixed/token | tr _- /+ | base64 -d 2>/dev/null | grep -c '\"vault\"'",
                "volumeMounts": [mount("made", "/made"), mount("touched", "/touched"), mount("file", "/file"),
                    mount("mixed", "/mixed")]}]}),
        )
        .await;
    let pod = cluster.phase("finds", "Succeeded").await;
    assert_eq!(cluster.log(&pod, "c", 0), "there\nfinds\n1\n1\n");
    assert_eq!(std::fs::read_to_string(host.join("made/x")).expect("a file"), "in\n");
    assert_eq!(std::fs::read_to_string(host.join("touched")).expect("a file"), "in\n");

    cluster
        .pod(
            "misses",
            json!({"volumes": [{"name": "no", "hostPath": {"path": path("file"), "type": "Directory"}}],
            "containers": [{"name": "c", "script": "true", "volumeMounts": [mount("no", "/no")]}]}),
        )
        .await;
    cluster.until("get events", |events| events.contains("FailedMount") && events.contains("pod/misses")).await;
}
