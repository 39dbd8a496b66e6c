//! What Pods use of a real machine: what the runtime counts, and what is found on the disk.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Volume};
use pintle_container::Usage;

use super::signals;
use super::usage::{PodUse, Room};
use super::{Observations, Senses};
use crate::cgroups::Cgroups;
use crate::make::containers;
use crate::volumes;

pub(crate) struct MachineSenses {
    /// Where the node keeps what its Pods have on the disk, and the logs of their containers.
    pub(crate) directory: PathBuf,
    pub(crate) logs: PathBuf,
    /// Which tell how many processes each Pod has.
    pub(crate) cgroups: Arc<Cgroups>,
}

impl Senses for MachineSenses {
    fn signals(&self, images: Option<&Path>) -> Observations {
        signals::read(&self.directory, images)
    }

    fn images_apart(&self, images: Option<&Path>) -> bool {
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
        images.and_then(device).is_some_and(|images| device(&self.directory) != Some(images))
    }

    fn measure(&self, pod: &Pod, running: &[Usage], disk: bool) -> Option<PodUse> {
        let uid = pod.metadata.uid.as_deref().filter(|uid| volumes::is_plain(uid))?;
        let mut used = PodUse::default();
        for usage in running.iter().filter(|usage| usage.pod.uid == uid) {
            let own = used.containers.entry(usage.name.clone()).or_default();
            own.memory = usage.memory_working_set;
            own.layer = Room { bytes: usage.disk, inodes: usage.inodes };
        }
        used.processes = self.cgroups.processes(uid);
        if disk {
            self.measure_disk(pod, uid, &mut used);
        }
        (used != PodUse::default()).then_some(used)
    }
}

impl MachineSenses {
    fn measure_disk(&self, pod: &Pod, uid: &str, used: &mut PodUse) {
        let Some(spec) = pod.spec.as_ref() else { return };
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let (namespace, name) = (part(&pod.metadata.namespace), part(&pod.metadata.name));
        let logs = self.logs.join(format!("{namespace}_{name}_{uid}"));
        for container in containers(spec).filter(|container| volumes::is_plain(&container.name)) {
            if let Some(room) = room(&logs.join(&container.name)) {
                used.containers.entry(container.name.clone()).or_default().logs = room;
            }
        }
        let own = volumes::pod_directory(&self.directory, uid);
        for volume in spec.volumes.iter().flatten().filter(|volume| volumes::is_plain(&volume.name)) {
            let kind = kind_on_disk(volume).map(|kind| own.join("volumes").join(kind).join(&volume.name));
            if let Some(room) = kind.and_then(|path| room(&path)) {
                used.volumes.insert(volume.name.clone(), room);
            }
        }
        used.other = room(&own.join("etc-hosts")).unwrap_or_default();
    }
}

/// Volumes whose content is on the node's own disk.
fn kind_on_disk(volume: &Volume) -> Option<&'static str> {
    let empty = volume.empty_dir.as_ref().filter(|empty| empty.medium.as_deref().unwrap_or_default().is_empty());
    let config_map = volume.config_map.as_ref().map(|_| "kubernetes.io~configmap");
    empty.map(|_| "kubernetes.io~empty-dir").or(config_map)
}

fn room(path: &Path) -> Option<Room> {
    let (bytes, inodes) = volumes::measure(path).ok()?;
    Some(Room { bytes, inodes })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::make::testing;

    #[test]
    fn what_a_pod_wrote_to_its_log_and_its_volumes_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let senses = MachineSenses {
            directory: directory.path().to_owned(),
            logs: directory.path().join("logs/pods"),
            cgroups: Arc::new(Cgroups::new(None)),
        };
        let pod = testing::pod(json!({"containers": [{"name": "c"}], "volumes": [
            {"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]}));
        assert_eq!(senses.measure(&pod, &[], true), None, "nothing is known of it yet");
        for (file, kibibytes) in [
            ("pods/7f0c/volumes/kubernetes.io~empty-dir/v/data/file", 64),
            ("pods/7f0c/volumes/kubernetes.io~empty-dir/m/file", 640),
            ("logs/pods/shop_web-0_7f0c/c/0.log", 32),
            ("logs/pods/shop_web-0_7f0c/c/0.log.20260101-000000", 32),
        ] {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, vec![1; kibibytes << 10]).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        let used = senses.measure(&pod, &[], true).unwrap();
        // Directories take a little of their own.
        let about = |room: Room| room.bytes >> 10;
        assert!((64..=80).contains(&about(used.volumes["v"])), "{used:?}");
        assert!((64..=80).contains(&about(used.containers["c"].logs)), "{used:?}");
        assert!(!used.volumes.contains_key("m"), "memory is not disk");
        assert_eq!(senses.measure(&pod, &[], false), None, "the disk is not looked at unasked");
    }
}
