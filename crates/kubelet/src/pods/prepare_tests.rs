//! What a Pod shows of its machine's troubles, and that it gets over them.

use std::sync::Arc;
use std::time::Duration;

use pintle_container::{SandboxState, Simulated};
use serde_json::{Value, json};

use super::*;
use crate::machine::scripted::{Server, machine};
use crate::make::testing;
use crate::pods::Home;
use crate::pods::guards::Guards;

const SETTINGS: &str = "/api/v1/namespaces/shop/configmaps/settings";

/// A Pod in its seat on a machine.
struct Scene {
    server: Server,
    pods: Pods,
    seat: Seat,
    pod: Pod,
    world: World,
    memory: Memory,
    directory: tempfile::TempDir,
}

impl Scene {
    fn new(spec: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::default();
        let context = server.context();
        let (_, pods) = Pods::new(&context, context.informers.of());
        let home = Home {
            name: "m".into(),
            address: [192, 0, 2, 7].into(),
            config: Arc::new(crate::NodeConfig::simulated("m", 1)),
            tallies: Default::default(),
            nodes: pintle_runtime::Informer::detached(),
            claims: Default::default(),
            allocatable: Default::default(),
            runtime: Simulated::new(context.clock.clone()).node("m", 1),
            recorder: context.recorder("kubelet"),
            meter: Default::default(),
            machine: Some(machine(&context, directory.path(), Vec::new())),
            pressure: Default::default(),
            guards: Guards::simulated(Vec::new()),
            dead: crate::Collection::default(),
        };
        let seat = Seat::new(Arc::new(home), "7f0c");
        let (pod, world, memory) = (testing::pod(spec), World::default(), Memory::default());
        Scene { server, pods, seat, pod, world, memory, directory }
    }

    /// `None` if it is held back.
    async fn sandbox(&mut self) -> Option<SandboxConfig> {
        self.memory.attachment.begin();
        let spec = self.pod.spec.as_ref().unwrap();
        let prepared = self.pods.sandbox(&self.pod, spec, &self.seat, &mut self.memory, &self.world, 0).await.unwrap();
        match prepared {
            Prepared::OnMachine(config) => Some(config),
            Prepared::Plain => panic!("there is a machine"),
            Prepared::Held => None,
        }
    }

    async fn container(&mut self) -> Option<ContainerConfig> {
        self.memory.attachment.begin();
        let spec = self.pod.spec.as_ref().unwrap();
        let (pods, seat, world) = (&self.pods, &self.seat, &self.world);
        let mounted = pods.mounted(&self.pod, spec, seat, &mut self.memory, world).await.unwrap();
        let plain = ContainerConfig::default();
        let memory = &mut self.memory;
        let prepared =
            pods.container(&self.pod, spec, seat, memory, world, &spec.containers[0], &mounted, &plain).await;
        match prepared {
            Prepared::OnMachine(config) => Some(config),
            Prepared::Plain => panic!("there is a machine"),
            Prepared::Held => None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_config_map_and_starts_when_it_comes() {
    let volumes = json!([{"name": "conf", "configMap": {"name": "settings"}}]);
    let mut scene = Scene::new(json!({"volumes": volumes, "containers": [{"name": "c"}]}));
    assert!(scene.sandbox().await.is_none());
    scene.server.put(SETTINGS, json!({"metadata": {}, "data": {"color": "blue"}}));
    // It is not asked for at every look.
    assert!(scene.sandbox().await.is_none());
    tokio::time::advance(Duration::from_millis(499)).await;
    assert!(scene.sandbox().await.is_none());
    tokio::time::advance(Duration::from_millis(1)).await;
    let config = scene.sandbox().await.unwrap();
    assert_eq!(config.dns.servers, ["10.96.0.10"]);
    assert!(config.log_directory.ends_with("logs/pods/shop_web-0_7f0c"));
}

#[tokio::test(start_paused = true)]
async fn a_container_says_which_reference_is_missing_and_starts_when_it_is_there() {
    let env = json!([{"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}}]);
    let mut scene = Scene::new(json!({"containers": [{"name": "c", "env": env}]}));
    assert!(scene.container().await.is_none());
    let refusal = scene.memory.attachment.refusals["c"].clone();
    assert_eq!(
        (refusal.reason, refusal.message.as_str()),
        ("CreateContainerConfigError", "configmap \"settings\" not found")
    );
    assert_eq!(refusal.until, jiff::Timestamp::from_second(10).unwrap());
    scene.server.put(SETTINGS, json!({"metadata": {}, "data": {"size": "big"}}));
    assert!(scene.container().await.is_none());
    let message = &scene.memory.attachment.refusals["c"].message;
    assert_eq!(message, "couldn't find key color in ConfigMap shop/settings");
    scene.server.put(SETTINGS, json!({"metadata": {}, "data": {"color": "blue"}}));
    assert_eq!(scene.container().await.unwrap().environment, [("COLOR".to_owned(), "blue".to_owned())]);
    assert!(scene.memory.attachment.refusals.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_sees_new_settings_within_a_minute_and_keeps_the_old_ones_if_there_are_none() {
    let volumes = json!([{"name": "conf", "configMap": {"name": "settings"}}]);
    let mut scene = Scene::new(json!({"volumes": volumes, "containers": [{"name": "c"}]}));
    scene.server.put(SETTINGS, json!({"metadata": {}, "data": {"color": "blue"}}));
    let config = scene.sandbox().await.unwrap();
    scene.seat.home.runtime.run_sandbox(config).await.unwrap();
    scene.world.sandboxes = scene.seat.home.runtime.list_sandboxes(None).await.unwrap();
    assert_eq!(scene.world.sandboxes[0].state, SandboxState::Ready);
    let file = scene.directory.path().join("pods/7f0c/volumes/kubernetes.io~configmap/conf/color");
    let mut seen = Vec::new();
    for (color, seconds) in [("red", 59), ("red", 1), ("green", 60)] {
        scene.server.put(SETTINGS, json!({"metadata": {}, "data": {"color": color}}));
        tokio::time::advance(Duration::from_secs(seconds)).await;
        scene.memory.attachment.begin();
        let spec = scene.pod.spec.as_ref().unwrap();
        scene.pods.attend(&scene.pod, spec, &scene.seat, &mut scene.memory, &mut scene.world).await;
        seen.push(std::fs::read_to_string(&file).unwrap());
    }
    assert_eq!(seen, ["blue", "red", "green"]);
    scene.server.remove(SETTINGS);
    tokio::time::advance(Duration::from_secs(60)).await;
    scene.memory.attachment.begin();
    let spec = scene.pod.spec.as_ref().unwrap();
    scene.pods.attend(&scene.pod, spec, &scene.seat, &mut scene.memory, &mut scene.world).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "green");

    release(&scene.seat, &mut scene.memory).await.unwrap();
    assert!(!file.exists() && scene.directory.path().join("pods/7f0c").is_dir());
    teardown(&Key::new("shop", "web-0"), &scene.seat).await.unwrap();
    assert!(!scene.directory.path().join("pods/7f0c").exists());
}
