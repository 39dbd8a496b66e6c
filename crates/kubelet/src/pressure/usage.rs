//! What a Pod uses of what its node may run out of.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use pintle_meta::quantity::Quantity;

use super::signals::{Resource, Signal};
use crate::make::totals::requested;

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

/// What a Pod has asked for of it.
pub(super) fn asked(pod: &Pod, resource: Resource) -> u64 {
    requested(pod, resource.name()).map_or(0, bytes)
}

pub(super) fn bytes(quantity: Quantity) -> u64 {
    u64::try_from(quantity.units()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
