//! From the runtime's messages to what we know of sandboxes, containers and images.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;

use super::messages as cri;
use super::write::{ASKED_IMAGE, POD_NAME, POD_NAMESPACE, POD_UID};
use crate::container::{Container, ContainerId, State};
use crate::image::Image;
use crate::sandbox::{PodRef, Sandbox, SandboxId, SandboxState};
use crate::stats::{ImageStore, NetworkUsage, Usage};

pub(super) const CREATED: i32 = 0;
pub(super) const RUNNING: i32 = 1;
pub(super) const EXITED: i32 = 2;

pub(super) fn sandbox(item: &cri::SandboxItem, addresses: Vec<IpAddr>) -> Sandbox {
    let metadata = item.metadata.clone().unwrap_or_default();
    Sandbox {
        id: SandboxId(item.id.clone()),
        attempt: metadata.attempt,
        pod: PodRef { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
        state: if item.state == 0 { SandboxState::Ready } else { SandboxState::NotReady },
        created_at: time(item.created_at),
        addresses,
    }
}

pub(super) fn addresses(status: &cri::SandboxStatus) -> Vec<IpAddr> {
    let network = status.network.clone().unwrap_or_default();
    let all = std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|more| more.ip));
    all.filter_map(|address| address.parse().ok()).collect()
}

pub(super) fn container(item: &cri::ContainerItem, status: &cri::ContainerStatus, stopping: bool) -> Container {
    let metadata = item.metadata.clone().unwrap_or_default();
    let image = |spec: &Option<cri::ImageSpec>| spec.as_ref().map(|spec| spec.image.clone()).unwrap_or_default();
    let named = image(&status.image);
    Container {
        id: ContainerId(item.id.clone()),
        sandbox: SandboxId(item.sandbox_id.clone()),
        pod: pod(&item.labels),
        name: metadata.name,
        attempt: metadata.attempt,
        image: if named.is_empty() { image(&item.image) } else { named },
        image_id: if status.image_ref.is_empty() { item.image_ref.clone() } else { status.image_ref.clone() },
        asked_image: item.annotations.get(ASKED_IMAGE).cloned(),
        created_at: time(item.created_at),
        state: state(item, status),
        stopping: stopping && item.state != EXITED,
    }
}

fn state(item: &cri::ContainerItem, status: &cri::ContainerStatus) -> State {
    match item.state {
        CREATED => State::Created,
        RUNNING => State::Running { started_at: time(status.started_at) },
        EXITED => {
            let finished_at = if status.finished_at == 0 { item.created_at } else { status.finished_at };
            State::Exited {
                started_at: Some(status.started_at).filter(|at| *at != 0).map(time),
                finished_at: time(finished_at),
                exit_code: status.exit_code,
                reason: match status.reason.as_str() {
                    "" if status.exit_code == 0 => "Completed".to_owned(),
                    "" => "Error".to_owned(),
                    reason => reason.to_owned(),
                },
                message: status.message.clone(),
            }
        }
        _ => State::Unknown,
    }
}

pub(super) fn pod(labels: &BTreeMap<String, String>) -> PodRef {
    let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
    PodRef { namespace: label(POD_NAMESPACE), name: label(POD_NAME), uid: label(POD_UID) }
}

/// Under the name it was asked for, or its first one.
pub(super) fn image(image: cri::Image, asked: Option<&str>) -> Image {
    let names: Vec<String> = image.repo_tags.into_iter().chain(image.repo_digests).collect();
    Image {
        name: asked.map(str::to_owned).or_else(|| names.first().cloned()).unwrap_or_else(|| image.id.clone()),
        id: image.id,
        size: image.size,
        names,
        pinned: image.pinned,
        // One that names nobody runs as root.
        user: image.uid.map(|uid| uid.value).or(image.username.is_empty().then_some(0)),
        user_name: image.username,
    }
}

pub(super) fn usage(stats: cri::ContainerStats) -> Option<Usage> {
    let attributes = stats.attributes?;
    let number = |value: Option<cri::UInt64Value>| value.map_or(0, |value| value.value);
    let (cpu, memory) = (stats.cpu.unwrap_or_default(), stats.memory.unwrap_or_default());
    let layer = stats.writable_layer.unwrap_or_default();
    Some(Usage {
        id: ContainerId(attributes.id),
        pod: pod(&attributes.labels),
        name: attributes.metadata.unwrap_or_default().name,
        measured_at: time(cpu.timestamp),
        cpu_nanoseconds: number(cpu.usage_core_nano_seconds),
        memory_working_set: number(memory.working_set_bytes),
        memory_usage: number(memory.usage_bytes),
        memory_rss: number(memory.rss_bytes),
        disk: number(layer.used_bytes),
        inodes: number(layer.inodes_used),
    })
}

/// One entry for each interface, the one that leads out of the Pod first.
pub(super) fn network_usage(listed: cri::ListSandboxStatsResponse) -> Vec<NetworkUsage> {
    let number = |value: Option<cri::UInt64Value>| value.map_or(0, |value| value.value);
    let of_pod = |stats: cri::SandboxStats| {
        let metadata = stats.attributes.unwrap_or_default().metadata.unwrap_or_default();
        let pod = PodRef { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid };
        let network = stats.linux.unwrap_or_default().network.unwrap_or_default();
        network.default_interface.into_iter().chain(network.interfaces).map(move |usage| NetworkUsage {
            pod: pod.clone(),
            interface: usage.name,
            received_bytes: number(usage.rx_bytes),
            received_errors: number(usage.rx_errors),
            sent_bytes: number(usage.tx_bytes),
            sent_errors: number(usage.tx_errors),
        })
    };
    listed.stats.into_iter().flat_map(of_pod).collect()
}

pub(super) fn image_store(info: cri::ImageFsInfoResponse) -> Option<ImageStore> {
    let first = info.image_filesystems.into_iter().next()?;
    let number = |value: Option<cri::UInt64Value>| value.map_or(0, |value| value.value);
    Some(ImageStore {
        path: first.fs_id?.mountpoint,
        used: number(first.used_bytes),
        inodes: number(first.inodes_used),
    })
}

/// Nanoseconds since 1970, as the runtime writes times.
fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_never_started_has_an_end_and_no_start() {
        let item = cri::ContainerItem { state: EXITED, created_at: 5, ..Default::default() };
        let status = cri::ContainerStatus { exit_code: 128, reason: "StartError".into(), ..Default::default() };
        let read = container(&item, &status, true);
        let State::Exited { started_at, finished_at, exit_code, reason, .. } = read.state else { panic!() };
        assert_eq!((started_at, finished_at, exit_code, reason.as_str()), (None, time(5), 128, "StartError"));
        assert!(!read.stopping, "what has ended is not being stopped");
    }

    #[test]
    fn an_end_without_a_reason_is_told_by_its_code() {
        for (code, expected) in [(0, "Completed"), (1, "Error"), (137, "Error")] {
            let item = cri::ContainerItem { state: EXITED, ..Default::default() };
            let status = cri::ContainerStatus { exit_code: code, finished_at: 9, ..Default::default() };
            let State::Exited { reason, .. } = container(&item, &status, false).state else { panic!() };
            assert_eq!(reason, expected);
        }
    }
}
