//! What a Pod uses of what its node may run out of.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use pintle_meta::quantity::Quantity;

use super::signals::{Resource, Signal};
use crate::make::{amount, containers};

/// Bytes and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

impl std::ops::Add for Room {
    type Output = Room;

    fn add(self, other: Room) -> Room {
        let (bytes, inodes) = (self.bytes.saturating_add(other.bytes), self.inodes.saturating_add(other.inodes));
        Room { bytes, inodes }
    }
}

impl std::iter::Sum for Room {
    fn sum<I: Iterator<Item = Room>>(rooms: I) -> Room {
        rooms.fold(Room::default(), std::ops::Add::add)
    }
}

/// What one container uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerUse {
    /// Its working set.
    pub(crate) memory: u64,
    /// What it wrote on top of its image.
    pub(crate) layer: Room,
    pub(crate) logs: Room,
}

/// What a Pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodUse {
    pub(crate) containers: BTreeMap<String, ContainerUse>,
    /// Its volumes that take room on the node's disk, by name.
    pub(crate) volumes: BTreeMap<String, Room>,
    /// What the node keeps for it beside: `/etc/hosts`.
    pub(crate) other: Room,
    pub(crate) processes: u64,
}

/// Where a Pod's use is looked for, which depends on whether images have a file system of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    layers: bool,
    logs_and_volumes: bool,
}

impl Measured {
    pub(super) const ALL: Measured = Measured { layers: true, logs_and_volumes: true };

    pub(super) fn of(signal: Signal, images_apart: bool) -> Self {
        match (images_apart, signal.is_of_images()) {
            (false, _) => Measured::ALL,
            (true, true) => Measured { layers: true, logs_and_volumes: false },
            (true, false) => Measured { layers: false, logs_and_volumes: true },
        }
    }
}

impl PodUse {
    pub(super) fn memory(&self) -> u64 {
        self.containers.values().map(|container| container.memory).sum()
    }

    pub(super) fn disk(&self, measured: Measured) -> Room {
        let layers: Room = self.containers.values().map(|container| container.layer).sum();
        let logs: Room = self.containers.values().map(|container| container.logs).sum();
        let volumes: Room = self.volumes.values().copied().sum();
        let nothing = Room::default();
        let first = if measured.layers { layers } else { nothing };
        first + if measured.logs_and_volumes { logs + volumes } else { nothing }
    }

    /// All that counts against limits of ephemeral storage.
    pub(super) fn storage(&self) -> u64 {
        (self.disk(Measured::ALL) + self.other).bytes
    }

    pub(super) fn of(&self, resource: Resource, measured: Measured) -> u64 {
        match resource {
            Resource::Memory => self.memory(),
            Resource::Storage => self.disk(measured).bytes,
            Resource::Inodes => self.disk(measured).inodes,
            Resource::Pids => self.processes,
        }
    }
}

/// What a Pod has asked for: its own request, or that of its containers, of which those that only begin count alone.
pub(super) fn requested(pod: &Pod, resource: Resource) -> u64 {
    asked(pod, resource.name(), false).map_or(0, bytes)
}

/// What a Pod may use of it in all, if one of its containers is bounded.
pub(super) fn limited(pod: &Pod, resource: Resource) -> Option<Quantity> {
    asked(pod, resource.name(), true)
}

fn asked(pod: &Pod, name: &str, limits: bool) -> Option<Quantity> {
    let spec = pod.spec.as_ref()?;
    let list = |resources: &Option<k8s_openapi::api::core::v1::ResourceRequirements>| {
        let list = resources.as_ref().and_then(|own| if limits { own.limits.as_ref() } else { own.requests.as_ref() });
        amount(list, name)
    };
    if let Some(whole) = list(&spec.resources) {
        return Some(whole);
    }
    let (mut lasting, mut most): (Option<Quantity>, Option<Quantity>) = (None, None);
    let is_main = |container: &_| spec.containers.iter().any(|main| std::ptr::eq(main, container));
    for container in containers(spec) {
        let Some(own) = list(&container.resources) else { continue };
        let with = lasting.map_or(own, |sum| sum + own);
        if is_main(container) || container.restart_policy.as_deref() == Some("Always") {
            lasting = Some(with);
        } else {
            // While it runs there are only the sidecars that came before it.
            most = most.max(Some(with));
        }
    }
    lasting.max(most)
}

pub(super) fn bytes(quantity: Quantity) -> u64 {
    u64::try_from(quantity.units()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::make::testing;

    #[test]
    fn a_pod_asks_for_the_sum_of_its_containers_or_for_its_largest_beginning() {
        let of = |bytes: &str| json!({"requests": {"memory": bytes}, "limits": {"ephemeral-storage": bytes}});
        let init = |name: &str, bytes: &str| json!({"name": name, "resources": of(bytes)});
        let pod = testing::pod(json!({
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": of("1")}, init("a", "10"), init("b", "2")],
            "containers": [{"name": "c", "resources": of("3")}, {"name": "d", "resources": of("4")}],
        }));
        assert_eq!(requested(&pod, Resource::Memory), 11);
        assert_eq!(limited(&pod, Resource::Storage).map(bytes), Some(11));
        assert_eq!(limited(&pod, Resource::Memory), None);
        let whole = testing::pod(json!({"resources": {"requests": {"memory": "9"}},
            "containers": [{"name": "c", "resources": of("3")}]}));
        assert_eq!(requested(&whole, Resource::Memory), 9);
    }

    #[test]
    fn with_a_disk_for_images_only_what_is_on_the_full_disk_counts() {
        let room = |bytes| Room { bytes, inodes: 1 };
        let container = ContainerUse { memory: 7, layer: room(1), logs: room(10) };
        let used = PodUse {
            containers: [("c".to_owned(), container)].into(),
            volumes: [("v".to_owned(), room(100))].into(),
            other: room(1000),
            processes: 3,
        };
        let bytes = |signal, apart| used.of(Resource::Storage, Measured::of(signal, apart));
        assert_eq!(bytes(Signal::NodefsAvailable, false), 111);
        assert_eq!(bytes(Signal::ImagefsAvailable, true), 1);
        assert_eq!(bytes(Signal::NodefsAvailable, true), 110);
        assert_eq!((used.storage(), used.memory(), used.of(Resource::Pids, Measured::ALL)), (1111, 7, 3));
    }
}
