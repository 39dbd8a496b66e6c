//! What Pods get from plugins, and that nobody gets what another has.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use pintle_container::ContainerConfig;
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::scripted::{LAMP, Lamps, devices, register};
use super::*;

/// A Pod whose containers, by name, want so many lamps.
fn spec(init: &[(&str, u32)], main: &[(&str, u32)]) -> PodSpec {
    let containers = |of: &[(&str, u32)]| -> Value {
        of.iter()
            .map(|(name, count)| json!({"name": name, "resources": {"limits": {LAMP: count.to_string()}}}))
            .collect()
    };
    serde_json::from_value(json!({"initContainers": containers(init), "containers": containers(main)})).unwrap()
}

fn clock() -> Clock {
    Clock::virtual_from(Timestamp::UNIX_EPOCH)
}

/// What the container that stands first is made from, as far as devices go.
async fn given(devices: &Devices, pod: &str, spec: &PodSpec) -> ContainerConfig {
    let mut config = ContainerConfig::default();
    config.environment.push(("OWN".to_owned(), "1".to_owned()));
    devices.give(pod, spec, &spec.containers[0], &mut config).await.unwrap();
    config
}

async fn lamps(devices: &Devices) -> Option<(usize, usize)> {
    let amounts = devices.amounts().await;
    Some((*amounts.capacity.get(LAMP)?, *amounts.allocatable.get(LAMP)?))
}

#[tokio::test(start_paused = true)]
async fn a_container_gets_all_that_comes_with_its_device() {
    let directory = tempfile::tempdir().unwrap();
    let devices = devices(directory.path(), &clock());
    let (plugin, _shelf) = Lamps::new("a b");
    register(&devices, &plugin).await;
    let spec = spec(&[], &[("c", 1)]);
    devices.admit("p", &spec).await.unwrap();
    let config = given(&devices, "p", &spec).await;
    assert_eq!(config.environment, [("LAMPS".into(), "a".into()), ("OWN".into(), "1".into())]);
    assert_eq!((config.mounts[0].host_path.as_str(), config.mounts[0].read_only), ("/opt/lamp", true));
    let device = &config.devices[0];
    assert_eq!((device.container_path.as_str(), device.permissions.as_str()), ("/dev/a", "rw"));
    assert_eq!((config.annotations["lamp"].as_str(), config.cdi_devices[0].as_str()), ("on", "example.com/lamp=a"));
    // The next run of the same container has the same, and the plugin is not asked again.
    assert_eq!(given(&devices, "p", &spec).await.devices, config.devices);
    assert_eq!(plugin.asked(), ["allocate a"]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_gives_no_device_away_twice() {
    let directory = tempfile::tempdir().unwrap();
    let one = spec(&[], &[("c", 1)]);
    {
        let devices = devices(directory.path(), &clock());
        let (plugin, _shelf) = Lamps::new("a b");
        register(&devices, &plugin).await;
        devices.admit("first", &one).await.unwrap();
    }
    let devices = devices(directory.path(), &clock());
    assert_eq!(lamps(&devices).await, Some((0, 0)));
    // What ran before runs on, and its container can be started again before the plugin is back.
    assert_eq!(given(&devices, "first", &one).await.devices[0].container_path, "/dev/a");
    let refused = devices.admit("second", &one).await.unwrap_err();
    assert_eq!(refused, Refused::NoneHealthy(LAMP.to_owned()));
    let (plugin, _shelf) = Lamps::new("a b");
    register(&devices, &plugin).await;
    assert_eq!(lamps(&devices).await, Some((2, 2)));
    devices.admit("second", &one).await.unwrap();
    let refused = devices.admit("third", &one).await.unwrap_err().to_string();
    assert_eq!(refused, "requested number of devices unavailable for example.com/lamp. Requested: 1, Available: 0");
    devices.release("first").await;
    devices.admit("third", &one).await.unwrap();
    assert_eq!(plugin.asked(), ["allocate b", "allocate a"]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_checkpoint_costs_what_it_knew_and_not_the_node() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("devices.checkpoint"), "0000\n{}\n").unwrap();
    let first = devices(directory.path(), &clock());
    assert!(first.pods().is_empty());
    // The Node still says what it said before; nothing of that can be had until a plugin has come.
    first.hear([LAMP.to_owned(), "cpu".to_owned()].iter());
    assert_eq!((lamps(&first).await, first.amounts().await.capacity.len()), (Some((0, 0)), 1));
    let refused = first.admit("early", &spec(&[], &[("c", 1)])).await.unwrap_err();
    assert_eq!(refused, Refused::NoneHealthy(LAMP.to_owned()));
    let (plugin, _shelf) = Lamps::new("a");
    register(&first, &plugin).await;
    first.admit("p", &spec(&[], &[("c", 1)])).await.unwrap();
    assert_eq!(devices(directory.path(), &clock()).pods(), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_all_of_its_devices_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let devices = devices(directory.path(), &clock());
    let (plugin, shelf) = Lamps::new("a b c");
    register(&devices, &plugin).await;
    let greedy = spec(&[], &[("one", 2), ("other", 2)]);
    let refused = devices.admit("greedy", &greedy).await.unwrap_err();
    assert_eq!(refused, Refused::Short { resource: LAMP.to_owned(), requested: 2, available: 1 });
    assert!(devices.pods().is_empty());
    // What an init container has, the others have after it.
    let shared = spec(&[("init", 3)], &[("one", 2), ("other", 1)]);
    devices.admit("shared", &shared).await.unwrap();
    assert_eq!(plugin.asked(), ["allocate a b", "allocate a b c", "allocate a b", "allocate c"]);
    // One that is away is not counted, and who has it is told.
    let mut changes = devices.changes();
    shelf.put("!a b c");
    changes.changed().await.unwrap();
    assert_eq!(lamps(&devices).await, Some((3, 2)));
    let told = devices.statuses("shared", "one")[0].resources.clone().unwrap();
    let told: Vec<_> = told.iter().map(|of| (of.resource_id.as_str(), of.health.as_deref().unwrap())).collect();
    assert_eq!(told, [("a", "Unhealthy"), ("b", "Healthy")]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_asked_what_it_prefers_and_readies_devices_before_each_start() {
    let directory = tempfile::tempdir().unwrap();
    let devices = devices(directory.path(), &clock());
    let options = DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: true };
    let (plugin, _shelf) = Lamps::preferring("a b c", "c a", options);
    register(&devices, &plugin).await;
    let shared = spec(&[("init", 1)], &[("main", 2)]);
    devices.admit("p", &shared).await.unwrap();
    let asked = ["prefer 1 of a b c with ", "allocate a", "prefer 2 of a b c with a", "allocate a c"];
    assert_eq!(plugin.asked(), asked);
    given(&devices, "p", &shared).await;
    given(&devices, "p", &shared).await;
    assert_eq!(plugin.asked(), ["ready a c", "ready a c"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_away_offers_nothing_and_is_forgotten_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let devices = devices(directory.path(), &clock());
    let (plugin, shelf) = Lamps::new("a b");
    register(&devices, &plugin).await;
    assert_eq!(lamps(&devices).await, Some((2, 2)));
    let mut changes = devices.changes();
    drop(shelf);
    changes.changed().await.unwrap();
    assert_eq!(lamps(&devices).await, Some((2, 0)));
    tokio::time::advance(Duration::from_secs(299)).await;
    assert_eq!(lamps(&devices).await, Some((2, 0)));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(lamps(&devices).await, None);
    assert!(devices.amounts().await.gone.contains(LAMP));
    // A Pod that asks for it is not held up by what nobody knows any more.
    devices.admit("p", &spec(&[], &[("c", 1)])).await.unwrap();
}

/// Over sockets: the time is the machine's.
#[tokio::test]
async fn a_plugin_registers_over_its_socket_and_is_followed_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let devices = devices(directory.path(), &clock());
    let plugins = directory.path().join("plugins");
    std::fs::create_dir(&plugins).unwrap();
    // Of an agent that was killed.
    drop(UnixListener::bind(plugins.join(SOCKET)).unwrap());
    drop(UnixListener::bind(plugins.join("old.sock")).unwrap());
    let agent = devices.clone();
    let agent = tokio::spawn(async move { agent.run().await });
    let (plugin, shelf) = Lamps::new("a !b");
    let served = plugins.join("lamp.sock");
    let refused = loop {
        match offer::register(&plugins, "../lamp.sock", LAMP).await {
            // The agent has not begun to serve yet.
            Err(status) if status.code() == tonic::Code::Unavailable => tokio::task::yield_now().await,
            answer => break answer.unwrap_err(),
        }
    };
    assert!(refused.message().contains("is not the name of a socket of its own"), "{refused}");
    assert!(!plugins.join("old.sock").exists());
    assert!(server::open(&plugins).is_err_and(|message| message.contains("another node agent")));

    let mut changes = devices.changes();
    let serving = tokio::spawn(offer::serve(UnixListener::bind(&served).unwrap(), plugin.clone()));
    offer::register(&plugins, "lamp.sock", LAMP).await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!(lamps(&devices).await, Some((2, 1)));
    devices.admit("p", &spec(&[], &[("c", 1)])).await.unwrap();
    assert_eq!(plugin.asked(), ["allocate a"]);
    changes.mark_unchanged();
    shelf.put("a b");
    changes.changed().await.unwrap();
    assert_eq!(lamps(&devices).await, Some((2, 2)));
    serving.abort();
    changes.changed().await.unwrap();
    assert_eq!(lamps(&devices).await, Some((2, 0)));
    agent.abort();
    assert!(agent.await.unwrap_err().is_cancelled());
}
