//! What a container finds on its machine, from the API server to the disk.

use std::fs;
use std::path::Path;

use pintle_container::{SandboxId, SandboxState};
use serde_json::{Value, json};

use super::scripted::{Server, machine};
use super::*;
use crate::make::testing;
use crate::volumes::testing::is_root;

fn pod() -> Pod {
    let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 600}});
    testing::pod(json!({
        "serviceAccountName": "robot",
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["me"]}],
        "volumes": [
            {"name": "conf", "configMap": {"name": "settings"}},
            {"name": "api", "projected": {"sources": [token]}},
            {"name": "data", "emptyDir": {}},
        ],
        "containers": [{
            "name": "c", "image": "i", "terminationMessagePath": "/dev/termination-log",
            "command": ["run", "$(COLOR)"],
            "env": [
                {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
                {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "volumeMounts": [
                {"name": "conf", "mountPath": "/conf"},
                {"name": "data", "mountPath": "/data", "subPathExpr": "of/$(COLOR)"},
            ],
        }],
    }))
}

fn settings(color: &str) -> Value {
    json!({"metadata": {"name": "settings"}, "data": {"color": color}})
}

fn world() -> World {
    let sandbox = pintle_container::Sandbox {
        id: SandboxId("s".into()),
        pod: PodRef::default(),
        attempt: 0,
        state: SandboxState::Ready,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        addresses: vec![[10, 64, 0, 5].into()],
    };
    World { sandboxes: vec![sandbox], containers: Vec::new() }
}

const SETTINGS: &str = "/api/v1/namespaces/shop/configmaps/settings";

#[tokio::test(start_paused = true)]
async fn a_container_finds_all_that_its_spec_promises_and_nothing_stays_behind() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::default();
    let context = server.context();
    let service = json!({"metadata": {"namespace": "default", "name": "kubernetes"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}});
    let machine = machine(&context, directory.path(), vec![service]);
    let pod = pod();
    let world = world();
    let facts = machine.facts(&pod, pod.spec.as_ref().unwrap(), &world);
    let mut attachment = Attachment::default();

    let missing = machine.mount(&facts, &mut attachment).await.unwrap_err();
    assert_eq!(
        missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["MountVolume.SetUp failed for volume \"conf\" : configmap \"settings\" not found"]
    );
    server.put(SETTINGS, settings("blue"));
    attachment.begin();
    let mounted = machine.mount(&facts, &mut attachment).await.unwrap();
    let (sandbox, warnings) = machine.sandbox(&facts, 0).await.unwrap();
    assert_eq!((sandbox.hostname.as_str(), warnings), ("web-0", Vec::new()));
    assert!(Path::new(&sandbox.log_directory).is_dir());
    let spec = &facts.spec.containers[0];
    let image = Image::default();
    let config = machine.container(&facts, spec, 0, &image, &mounted, &mut attachment).await.unwrap();
    assert_eq!(config.command, ["run", "blue"]);
    let variable =
        |name: &str| config.environment.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    assert_eq!((variable("ADDRESS"), variable("KUBERNETES_SERVICE_HOST")), (Some("10.64.0.5"), Some("10.96.0.1")));
    let found = |path: &str| config.mounts.iter().find(|mount| mount.container_path == path).unwrap();
    assert_eq!(fs::read_to_string(Path::new(&found("/conf").host_path).join("color")).unwrap(), "blue");
    assert!(found("/conf").read_only && !found("/data").read_only);
    assert!(found("/data").host_path.ends_with("pods/7f0c/volume-subpaths/data/c/1"));
    let hosts = fs::read_to_string(&found("/etc/hosts").host_path).unwrap();
    assert!(hosts.contains("10.64.0.5\tweb-0\n") && hosts.ends_with("127.0.0.1\tme\n"), "{hosts}");
    assert!(Path::new(&found("/dev/termination-log").host_path).is_file());
    assert!(Path::new(&sandbox.log_directory).join("c").is_dir());

    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "7f0c"});
    assert_eq!(server.asked()[0]["spec"], json!({"audiences": [], "expirationSeconds": 600, "boundObjectRef": bound}));

    machine.teardown(PodRef { namespace: "shop".into(), name: "web-0".into(), uid: "7f0c".into() }).await.unwrap();
    assert_eq!(fs::read_dir(directory.path().join("pods")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(directory.path().join("logs/pods")).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_running_container_sees_new_settings_and_a_new_token() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::default();
    let context = server.context();
    let machine = machine(&context, directory.path(), Vec::new());
    let (pod, world) = (pod(), world());
    let facts = machine.facts(&pod, pod.spec.as_ref().unwrap(), &world);
    let mut attachment = Attachment::default();
    server.put(SETTINGS, settings("blue"));
    let mounted = machine.mount(&facts, &mut attachment).await.unwrap();
    let read = |volume: &str, path: &str| fs::read_to_string(mounted[volume].path.join(path)).unwrap();
    assert_eq!((read("conf", "color").as_str(), read("api", "token").as_str()), ("blue", "token-1"));

    server.put(SETTINGS, settings("red"));
    tokio::time::advance(Duration::from_secs(470)).await;
    attachment.begin();
    machine.mount(&facts, &mut attachment).await.unwrap();
    assert_eq!((read("conf", "color").as_str(), read("api", "token").as_str()), ("red", "token-1"));
    tokio::time::advance(Duration::from_secs(20)).await;
    attachment.begin();
    machine.mount(&facts, &mut attachment).await.unwrap();
    assert_eq!((read("api", "token").as_str(), server.asked().len()), ("token-2", 2));
    machine.teardown(PodRef { namespace: "shop".into(), name: "web-0".into(), uid: "7f0c".into() }).await.unwrap();
}
