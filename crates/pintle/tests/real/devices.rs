//! A device plugin, which is the test itself, and Pods that get its devices.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use pintle_kubelet::devices::messages::{
    AllocateRequest, AllocateResponse, ContainerAllocateResponse, Device, DeviceSpec, HEALTHY, ListAndWatchResponse,
    Mount, UNHEALTHY,
};
use pintle_kubelet::devices::{Lists, Plugin, Status, offer};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::eventually;
use crate::node::{Real, can_run};

const LAMP: &str = "example.com/lamp";

/// Offers lamps, each of which is /dev/null with another name, and a manual.
struct Lamps {
    devices: watch::Receiver<Vec<Device>>,
    manual: PathBuf,
}

#[async_trait]
impl Plugin for Lamps {
    async fn list_and_watch(&self) -> Result<Lists, Status> {
        let lists = futures::stream::unfold((self.devices.clone(), true), async |(mut lists, first)| {
            if !first {
                lists.changed().await.ok()?;
            }
            let devices = lists.borrow_and_update().clone();
            Some((Ok(ListAndWatchResponse { devices }), (lists, false)))
        });
        Ok(lists.boxed())
    }

    async fn allocate(&self, request: AllocateRequest) -> Result<AllocateResponse, Status> {
        let lamp = request.container_requests[0].devices_ids.join(" ");
        let response = ContainerAllocateResponse {
            envs: [("LAMP".to_owned(), lamp.clone())].into(),
            mounts: vec![Mount {
                container_path: "/etc/manual".into(),
                host_path: self.manual.display().to_string(),
                read_only: true,
            }],
            devices: vec![DeviceSpec {
                container_path: format!("/dev/{lamp}"),
                host_path: "/dev/null".into(),
                permissions: "rw".into(),
            }],
            ..ContainerAllocateResponse::default()
        };
        Ok(AllocateResponse { container_responses: vec![response] })
    }
}

fn lamps(of: &[(&str, &str)]) -> Vec<Device> {
    of.iter().map(|(id, health)| Device { id: (*id).to_owned(), health: (*health).to_owned() }).collect()
}

/// Serves the plugin on a new socket and registers it, as a plugin does whenever the agent has come back.
async fn register(cluster: &Real, lamps: &Arc<Lamps>) -> JoinHandle<()> {
    let plugins = cluster.place.path("plugins");
    let listener = UnixListener::bind(plugins.join("lamp.sock")).expect("a socket");
    let serving = tokio::spawn(offer::serve(listener, lamps.clone()));
    offer::register(&plugins, "lamp.sock", LAMP).await.expect("it registers");
    serving
}

/// Looks at the node until it has so many lamps, and so many to give.
async fn node_has(cluster: &Real, capacity: &str, allocatable: &str) {
    eventually(&format!("the node has {capacity} lamps and {allocatable} to give"), async || {
        let node = cluster.get("nodes").await["items"][0]["status"].clone();
        let found = (&node["capacity"][LAMP], &node["allocatable"][LAMP]);
        if found == (&json!(capacity), &json!(allocatable)) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

fn wants_lamp() -> Value {
    let script = "echo $LAMP; cat /etc/manual; ls -l /dev/$LAMP; echo light > /dev/$LAMP && echo lit; \
        trap 'exit 0' TERM; while :; do sleep 0.2; done";
    json!({"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "script": script, "resources": {"limits": {LAMP: "1"}}}]})
}

fn container(pod: &Value) -> String {
    pod["status"]["containerStatuses"][0]["containerID"].to_string()
}

/// The lamp that a Pod has, with all that comes with it.
async fn lamp_of(cluster: &Real, name: &str) -> String {
    cluster.ok(&format!("wait --for=condition=Ready pod/{name} --timeout=120s")).await;
    let pod = cluster.get(&format!("pod {name}")).await;
    let log = eventually(&format!("{name} has lit its lamp"), async || match cluster.log(&pod, "c", 0) {
        log if log.contains("lit\n") => Ok(log),
        log => Err(log),
    })
    .await;
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[1], "turn it on", "{log}");
    // A character device with the numbers of /dev/null.
    assert!(lines[2].starts_with('c') && lines[2].contains("1,   3"), "{log}");
    lines[0].to_owned()
}

#[tokio::test]
async fn pods_share_out_the_devices_of_a_plugin_and_keep_them_when_the_agent_is_killed() {
    if !can_run() {
        return;
    }
    let mut cluster = Real::start(&[]).await;
    let manual = cluster.place.path("manual");
    std::fs::write(&manual, "turn it on\n").expect("a file");
    let (shelf, devices) = watch::channel(lamps(&[("lamp0", HEALTHY), ("lamp1", HEALTHY)]));
    let plugin = Arc::new(Lamps { devices, manual });
    let serving = register(&cluster, &plugin).await;
    node_has(&cluster, "2", "2").await;

    cluster.pod("first", wants_lamp()).await;
    let first = lamp_of(&cluster, "first").await;
    cluster.pod("second", wants_lamp()).await;
    let second = lamp_of(&cluster, "second").await;
    assert_ne!(first, second);
    cluster.pod("third", wants_lamp()).await;
    cluster
        .pod_until("third", "waits for a lamp", |pod| {
            let message = pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
            pod["status"]["phase"] == "Pending" && message.contains("Insufficient example.com/lamp")
        })
        .await;
    // One that is assigned by hand, where there is nothing left.
    let node = cluster.get("nodes").await["items"][0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut pushed = wants_lamp();
    pushed["nodeName"] = node.into();
    cluster.pod("pushed", pushed).await;
    let pushed = cluster.phase("pushed", "Failed").await;
    assert_eq!(pushed["status"]["reason"], "UnexpectedAdmissionError");
    assert_eq!(
        pushed["status"]["message"],
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/lamp. \
         Requested: 1, Available: 0, which is unexpected"
    );

    shelf.send_replace(lamps(&[("lamp0", UNHEALTHY), ("lamp1", HEALTHY)]));
    node_has(&cluster, "2", "1").await;
    let holder = if first == "lamp0" { "first" } else { "second" };
    cluster
        .pod_until(holder, "says that its lamp is broken", |pod| {
            let told = &pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0];
            told["name"] == LAMP && told["resources"] == json!([{"resourceID": "lamp0", "health": "Unhealthy"}])
        })
        .await;

    let before = [cluster.get("pod first").await, cluster.get("pod second").await].map(|pod| container(&pod));
    cluster.kill().await;
    serving.abort();
    shelf.send_replace(lamps(&[("lamp0", HEALTHY), ("lamp1", HEALTHY)]));
    cluster.up().await;
    node_has(&cluster, "0", "0").await;
    let serving = register(&cluster, &plugin).await;
    node_has(&cluster, "2", "2").await;
    cluster.ok("delete pod second --grace-period=1").await;
    assert_eq!(lamp_of(&cluster, "third").await, second);
    let after = cluster.get("pod first").await;
    assert_eq!((container(&after), &after["status"]["phase"]), (before[0].clone(), &json!("Running")));

    // A plugin that is away has nothing to give; its Pods run on.
    serving.abort();
    node_has(&cluster, "2", "0").await;
    assert_eq!(container(&cluster.get("pod first").await), before[0]);
}
