//! What a Pod would lose with its volumes.

use std::os::unix::fs::{MetadataExt, symlink};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::make::testing as pods;
use crate::volumes::{Sources, testing};

/// A machine with one Pod; unmounted when dropped.
struct Scene {
    directory: tempfile::TempDir,
    pod: Pod,
    sources: Sources,
}

impl Scene {
    /// Nothing without root: most volumes need a mount.
    fn new(volumes: Value, security: Value) -> Option<Self> {
        testing::is_root().then(|| {
            let pod =
                pods::pod(json!({"volumes": volumes, "securityContext": security, "containers": [{"name": "c"}]}));
            let mut sources = Sources::default();
            sources.put_config_map(
                "settings",
                json!({"data": {"color": "blue", "size": "big"}, "binaryData": {"raw": "AAE="}}),
            );
            sources.put_secret("keys", json!({"data": {"password": "aHVudGVyMg=="}}));
            Scene { directory: tempfile::tempdir().unwrap(), pod, sources }
        })
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn volumes(&self) -> Volumes {
        Volumes::new(self.root())
    }

    fn ensure(&self, second: i64) -> Result<Mounted, Vec<MountFailure>> {
        let allocatable = pods::allocatable();
        let facts = pods::facts(&self.pod, &allocatable);
        let (wanted, mut failures) = crate::volumes::wanted(&facts, &self.sources);
        let now = Timestamp::from_second(second).unwrap();
        let mounted = self.volumes().ensure("7f0c", &wanted, Group::of(&facts), now);
        match mounted {
            Ok(mounted) if failures.is_empty() => Ok(mounted),
            mounted => {
                failures.extend(mounted.err().into_iter().flatten());
                Err(failures)
            }
        }
    }

    fn message(&self) -> String {
        self.ensure(0).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        mounts::unmount_below(&self.root()).unwrap();
    }
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_config_map_reaches_its_pod_and_so_do_its_changes() {
    let items = json!([{"key": "color", "path": "deep/colour", "mode": 0o600}, {"key": "raw", "path": "raw"}]);
    let volumes = json!([
        {"name": "all", "configMap": {"name": "settings", "defaultMode": 0o440}},
        {"name": "some", "configMap": {"name": "settings", "items": items}},
        {"name": "none", "configMap": {"name": "missing", "optional": true}},
    ]);
    let Some(mut scene) = Scene::new(volumes, json!({})) else { return };
    let mounted = scene.ensure(0).unwrap();
    let all = &mounted["all"].path;
    assert_eq!(*all, scene.root().join("pods/7f0c/volumes/kubernetes.io~configmap/all"));
    assert!(mounted["all"].read_only);
    assert_eq!((fs::read_to_string(all.join("color")).unwrap().as_str(), mode(all.join("color"))), ("blue", 0o440));
    assert_eq!(fs::read(mounted["some"].path.join("raw")).unwrap(), [0, 1]);
    assert_eq!(mode(mounted["some"].path.join("deep/colour")), 0o600);
    assert!(!mounted["some"].path.join("size").exists());
    assert_eq!(fs::read_dir(&mounted["none"].path).unwrap().count(), 2);

    let before = fs::read_link(all.join("..data")).unwrap();
    scene.ensure(60).unwrap();
    assert_eq!(fs::read_link(all.join("..data")).unwrap(), before);
    scene.sources.put_config_map("settings", json!({"data": {"color": "red", "raw": "r"}}));
    scene.ensure(120).unwrap();
    assert_eq!(fs::read_to_string(all.join("color")).unwrap(), "red");
    assert!(!all.join("size").exists());
    // A server that does not answer takes nothing away.
    scene.sources.lose_config_map("settings");
    assert!(scene.message().contains("MountVolume.SetUp failed for volume \"all\" : the server is away"));
    assert_eq!(fs::read_to_string(all.join("color")).unwrap(), "red");
}

#[test]
fn what_is_missing_is_said_in_upstreams_words() {
    let volumes = json!([
        {"name": "a", "configMap": {"name": "missing"}},
        {"name": "b", "secret": {"secretName": "missing"}},
        {"name": "c", "configMap": {"name": "settings", "items": [{"key": "none", "path": "x"}]}},
        {"name": "d", "projected": {"sources": [{"secret": {"name": "missing"}}, {"clusterTrustBundle": {"path": "ca"}}]}},
        {"name": "e", "nfs": {"server": "s", "path": "/"}},
        {"name": "f", "persistentVolumeClaim": {"claimName": "gone"}},
        {"name": "g", "emptyDir": {"medium": "HugePages"}},
        {"name": "fine", "emptyDir": {}},
    ]);
    let Some(scene) = Scene::new(volumes, json!({})) else { return };
    let message = scene.message();
    for part in [
        "MountVolume.SetUp failed for volume \"a\" : configmap \"missing\" not found",
        "volume \"b\" : secret \"missing\" not found",
        "volume \"c\" : configmap references non-existent config key: none",
        "volume \"d\" : [secret \"missing\" not found, clusterTrustBundle is not supported by this node",
        "volume \"e\" : no volume plugin matched",
        "volume \"f\" : error processing PVC shop/gone: failed to fetch PVC from API server: \
         persistentvolumeclaim \"gone\" not found",
        "volume \"g\" : medium \"HugePages\" is not supported",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
    // The others are there already when the missing one comes.
    assert!(scene.root().join("pods/7f0c/volumes/kubernetes.io~empty-dir/fine").is_dir());
}

#[test]
fn secrets_tokens_and_what_a_pod_knows_of_itself_stay_in_memory() {
    let token = json!({"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}});
    let about = json!({"items": [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpus", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}, "mode": 0o400},
    ]});
    let volumes = json!([
        {"name": "s", "secret": {"secretName": "keys"}},
        {"name": "d", "downwardAPI": about},
        {"name": "p", "projected": {"defaultMode": 0o444, "sources": [token, {"configMap": {"name": "settings"}}, {"secret": {
            "name": "keys", "items": [{"key": "password", "path": "hidden/password"}]}}, {"downwardAPI": about}]}},
    ]);
    let Some(mut scene) = Scene::new(volumes, json!({"runAsUser": 1234})) else { return };
    assert!(scene.message().contains("volume \"p\" : failed to fetch token"));
    scene.sources.tokens.insert((Some("vault".into()), 600), Ok("one".into()));
    let mounted = scene.ensure(0).unwrap();
    for volume in ["s", "d", "p"] {
        assert!(mounts::is_mounted(&mounted[volume].path).unwrap(), "{volume}");
        assert!(mounted[volume].read_only);
    }
    let read = |volume: &str, path: &str| fs::read_to_string(mounted[volume].path.join(path)).unwrap();
    assert_eq!(read("s", "password"), "hunter2");
    assert_eq!((read("d", "labels").as_str(), read("d", "cpus").as_str()), ("app=\"web\"\ntier=\"front\"", "4"));
    assert_eq!((read("p", "token"), read("p", "hidden/password")), ("one".into(), "hunter2".into()));
    assert_eq!((read("p", "color"), read("p", "cpus")), ("blue".into(), "4".into()));
    let owned = fs::metadata(mounted["p"].path.join("token")).unwrap();
    assert_eq!((owned.uid(), owned.mode() & 0o777), (1234, 0o600));
    assert_eq!(mode(mounted["p"].path.join("color")), 0o444);

    scene.sources.tokens.insert((Some("vault".into()), 600), Ok("two".into()));
    scene.pod.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
    scene.ensure(60).unwrap();
    assert_eq!((read("p", "token").as_str(), read("d", "labels").as_str()), ("two", "app=\"shop\""));
}

#[test]
fn an_empty_directory_is_kept_for_its_pod_and_its_group() {
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "conf", "configMap": {"name": "settings", "defaultMode": 0o400}},
    ]);
    let Some(scene) = Scene::new(volumes, json!({"fsGroup": 4242})) else { return };
    let mounted = scene.ensure(0).unwrap();
    let (disk, memory) = (&mounted["disk"].path, &mounted["memory"].path);
    for path in [disk, memory] {
        assert_eq!((mode(path), fs::metadata(path).unwrap().gid()), (0o2777, 4242));
    }
    let color = fs::metadata(mounted["conf"].path.join("color")).unwrap();
    assert_eq!((color.mode() & 0o7777, color.gid()), (0o440, 4242));
    assert!(fs::write(memory.join("large"), vec![0; 2 << 20]).is_err());
    fs::remove_file(memory.join("large")).unwrap();
    fs::write(disk.join("file"), "kept").unwrap();
    fs::write(memory.join("file"), "kept").unwrap();
    assert_eq!(scene.ensure(60).unwrap(), mounted);
    assert_eq!(fs::read_to_string(disk.join("file")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(memory.join("file")).unwrap(), "kept");
}

#[test]
fn a_claim_leads_to_a_directory_of_the_machine() {
    let claim =
        |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name, "readOnly": name == "host"}});
    let Some(mut scene) = Scene::new(json!([claim("local"), claim("host")]), json!({"fsGroup": 4242})) else { return };
    let root = scene.root();
    fs::create_dir_all(root.join("disk")).unwrap();
    fs::write(root.join("disk/file"), "old").unwrap();
    let bound =
        |uid: &str| json!({"metadata": {"uid": uid}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    let volume = |uid: &str, kind: &str| {
        let source = json!({"path": root.join("disk")});
        Some(json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"uid": uid}, kind: source}}))
    };
    let pending = json!({"metadata": {"uid": "1"}, "status": {"phase": "Pending"}});
    scene.sources.put_claim("local", pending, None);
    scene.sources.put_claim("host", bound("2"), volume("other", "hostPath"));
    let message = scene.message();
    assert!(message.contains("volume \"local\" : error processing PVC shop/local: PVC is not bound"), "{message}");
    assert!(message.contains("\"pv\" is not bound to this claim"), "{message}");

    scene.sources.put_claim("local", bound("1"), volume("1", "local"));
    scene.sources.put_claim("host", bound("2"), volume("2", "hostPath"));
    let mounted = scene.ensure(0).unwrap();
    let local = &mounted["local"];
    assert_eq!(local.path, root.join("pods/7f0c/volumes/kubernetes.io~local-volume/pv"));
    assert_eq!(fs::read_to_string(local.path.join("file")).unwrap(), "old");
    assert_eq!((fs::metadata(root.join("disk/file")).unwrap().gid(), local.read_only), (4242, false));
    assert_eq!(mounted["host"], MountedVolume { path: root.join("disk"), read_only: true });
    assert_eq!(scene.ensure(60).unwrap(), mounted);

    scene.volumes().teardown("7f0c").unwrap();
    assert_eq!(fs::read_to_string(root.join("disk/file")).unwrap(), "old");
}

#[test]
fn nothing_of_a_pod_is_left_and_nothing_else_is_touched() {
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "conf", "configMap": {"name": "settings"}},
    ]);
    let Some(scene) = Scene::new(volumes, json!({})) else { return };
    let (root, volumes) = (scene.root(), scene.volumes());
    fs::create_dir_all(root.join("outside/deep")).unwrap();
    fs::write(root.join("outside/deep/file"), "mine").unwrap();
    let mounted = scene.ensure(0).unwrap();
    let disk = &mounted["disk"].path;
    symlink(root.join("outside"), disk.join("link")).unwrap();
    // A container may have left mounts in its volume, with another container's mounts below.
    fs::create_dir(disk.join("bound")).unwrap();
    mounts::bind(&root.join("outside"), &disk.join("bound")).unwrap();
    mounts::bind(disk, &disk.join("bound/deep")).unwrap();
    let wanted = |sub_path: &str, index| WantedMount {
        volume: "disk".into(),
        container: "c".into(),
        index,
        volume_path: disk.clone(),
        sub_path: Some(sub_path.into()),
        container_path: "/x".into(),
        read_only: true,
        propagation: pintle_container::Propagation::Private,
    };
    let found = volumes.mounts("7f0c", vec![wanted("logs", 0), wanted("logs/web", 1)]).unwrap();
    assert_eq!(found[1].host_path, root.join("pods/7f0c/volume-subpaths/disk/c/1").to_string_lossy());
    assert!(found[1].read_only && Path::new(&found[0].host_path).join("web").is_dir());
    let refused = volumes.mounts("7f0c", vec![wanted("link/deep", 2)]).unwrap_err();
    assert_eq!(refused, "failed to prepare subPath for volumeMount \"disk\" of container \"c\"");
    let mut climbing = wanted("logs", 0);
    climbing.container = "..".into();
    assert!(volumes.mounts("7f0c", vec![climbing]).is_err());

    // A Pod that has ended keeps what its containers said, until it is deleted.
    fs::create_dir_all(root.join("pods/7f0c/containers/c")).unwrap();
    volumes.release("7f0c").unwrap();
    volumes.release("7f0c").unwrap();
    let left: Vec<PathBuf> = fs::read_dir(root.join("pods/7f0c")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [root.join("pods/7f0c/containers")]);
    volumes.teardown("7f0c").unwrap();
    volumes.teardown("7f0c").unwrap();
    assert_eq!(fs::read_dir(root.join("pods")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(root.join("outside/deep/file")).unwrap(), "mine");
    assert!(volumes.teardown("..").is_err() && volumes.release("").is_err());
}

#[test]
fn what_is_mounted_and_cannot_be_unmounted_is_not_emptied() {
    let Some(scene) = Scene::new(json!([]), json!({})) else { return };
    let root = scene.root();
    fs::create_dir_all(root.join("outside")).unwrap();
    fs::write(root.join("outside/file"), "mine").unwrap();
    fs::create_dir_all(root.join("pods/7f0c/volumes/bound")).unwrap();
    mounts::bind(&root.join("outside"), &root.join("pods/7f0c/volumes/bound")).unwrap();
    // As if the mount had come back after all were taken away.
    let removed = remove(&root.join("pods"), "7f0c");
    assert_eq!(removed.unwrap_err().raw_os_error(), Some(rustix::io::Errno::XDEV.raw_os_error()));
    assert_eq!(fs::read_to_string(root.join("outside/file")).unwrap(), "mine");
}
