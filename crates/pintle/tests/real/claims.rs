//! Claims on volumes of the machine: bound by the cluster's own loops, mounted, and found again by the next Pod.

use serde_json::{Value, json};

use crate::node::{Real, can_run};

/// A volume in a directory of the node of this name.
fn local(name: &str, path: &std::path::Path, node: &str) -> Value {
    let here = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]);
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disks",
        "persistentVolumeReclaimPolicy": "Retain", "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": here}}}})
}

fn claim(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "disks", "resources": {"requests": {"storage": size}}}})
}

fn user(claim: &str, script: &str) -> Value {
    json!({"restartPolicy": "Never", "securityContext": {"fsGroup": 4242},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        "containers": [{"name": "c", "script": script, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]})
}

#[tokio::test]
async fn what_a_pod_wrote_to_a_local_volume_is_there_for_the_next_pod_with_that_claim() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    let node = cluster.get("nodes").await["items"][0]["metadata"]["labels"]["kubernetes.io/hostname"].clone();
    let (here, elsewhere) = (cluster.place.path("disk"), cluster.place.path("other"));
    std::fs::create_dir(&here).expect("a directory");
    cluster
        .apply(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"},
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}))
        .await;
    cluster.apply(local("disk", &here, node.as_str().expect("a name"))).await;
    cluster.apply(local("other", &elsewhere, "another-machine")).await;
    cluster.apply(claim("mine", "500Mi")).await;
    cluster.pod("writes", user("mine", "echo kept > /v/file; stat -c %g /v; mount | grep -c ' /v '")).await;
    let pod = cluster.phase("writes", "Succeeded").await;
    assert_eq!(cluster.log(&pod, "c", 0), "4242\n1\n");
    assert_eq!(std::fs::read_to_string(here.join("file")).expect("a file"), "kept\n");
    let claimed = cluster.get("pvc mine").await;
    assert_eq!((&claimed["status"]["phase"], &claimed["spec"]["volumeName"]), (&json!("Bound"), &json!("disk")));

    cluster.ok("delete pod writes").await;
    cluster.pod("reads", user("mine", "cat /v/file")).await;
    let pod = cluster.phase("reads", "Succeeded").await;
    assert_eq!(cluster.log(&pod, "c", 0), "kept\n");

    // The only volume left is on a machine that is not there.
    cluster.apply(claim("second", "500Mi")).await;
    cluster.pod("waits", user("second", "true")).await;
    let why = "node(s) didn't find available persistent volumes to bind";
    cluster.until("get events", |events| events.contains(why)).await;
    assert_eq!(cluster.get("pod waits").await["status"]["phase"], "Pending");
    assert_eq!(cluster.get("pvc second").await["status"]["phase"], "Pending");
}

#[tokio::test]
async fn a_claim_that_names_no_class_gets_a_directory_of_this_machine_which_goes_with_it() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster.until("get storageclass", |classes| classes.contains("local-path (default)")).await;
    cluster
        .apply(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    // Whoever a container runs as, and wherever its links lead.
    let mut writes = user("data", "echo kept > /v/file; ln -s / /v/root; id -u");
    writes["securityContext"] = json!({"runAsUser": 4711});
    cluster.pod("writes", writes).await;
    let pod = cluster.phase("writes", "Succeeded").await;
    assert_eq!(cluster.log(&pod, "c", 0), "4711\n");
    let claimed = cluster.get("pvc data").await;
    assert_eq!(
        (&claimed["spec"]["storageClassName"], &claimed["status"]["phase"]),
        (&json!("local-path"), &json!("Bound"))
    );
    let volume = cluster.get(&format!("pv {}", claimed["spec"]["volumeName"].as_str().expect("a volume"))).await;
    let directory = std::path::PathBuf::from(volume["spec"]["local"]["path"].as_str().expect("a path"));
    assert_eq!(std::fs::read_to_string(directory.join("file")).expect("a file"), "kept\n");
    cluster.ok("delete pod writes").await;
    cluster.pod("reads", user("data", "cat /v/file")).await;
    let pod = cluster.phase("reads", "Succeeded").await;
    assert_eq!(cluster.log(&pod, "c", 0), "kept\n");

    cluster.ok("delete pod reads").await;
    cluster.ok("delete pvc data").await;
    cluster.until("get pv", |volumes| volumes.is_empty()).await;
    assert!(!directory.exists() && std::path::Path::new("/etc").exists());
}
