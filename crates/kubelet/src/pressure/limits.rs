//! Which Pods have written more than they may, whatever room the node has. No I/O.

use k8s_openapi::api::core::v1::Pod;
use pintle_meta::quantity::Quantity;

use super::signals::Resource;
use super::usage::{PodUse, bytes};
use crate::make::totals::limited;
use crate::make::{amount, containers};

/// Whether the Pod has a bound that must be looked after.
pub(super) fn is_bounded(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sized = volumes.filter_map(|volume| volume.empty_dir.as_ref()).any(|source| source.size_limit.is_some());
    sized || limited(pod, Resource::Storage.name()).is_some()
}

/// Why the Pod must go, in upstream's words; nothing if it keeps to its bounds.
pub(super) fn exceeded(pod: &Pod, used: &PodUse, images_apart: bool) -> Option<String> {
    volume(pod, used).or_else(|| whole(pod, used)).or_else(|| container(pod, used, images_apart))
}

fn volume(pod: &Pod, used: &PodUse) -> Option<String> {
    pod.spec.as_ref()?.volumes.iter().flatten().find_map(|volume| {
        let source = volume.empty_dir.as_ref()?;
        // The kernel holds volumes in memory to their size.
        if source.medium.as_deref() == Some("Memory") {
            return None;
        }
        let limit = Quantity::parse(&source.size_limit.as_ref()?.0).ok().filter(|limit| !limit.is_zero())?;
        let name = &volume.name;
        let over = used.volumes.get(name)?.bytes > bytes(limit);
        over.then(|| format!("Usage of EmptyDir volume {name:?} exceeds the limit \"{limit}\". "))
    })
}

fn whole(pod: &Pod, used: &PodUse) -> Option<String> {
    let limit = limited(pod, Resource::Storage.name())?;
    let over = used.storage() > bytes(limit);
    over.then(|| format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "))
}

fn container(pod: &Pod, used: &PodUse, images_apart: bool) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let lasting = containers(spec).filter(|container| {
        spec.containers.contains(container) || container.restart_policy.as_deref() == Some("Always")
    });
    let mut over = lasting.filter_map(|container| {
        let limits = container.resources.as_ref()?.limits.as_ref();
        let limit = amount(limits, Resource::Storage.name()).filter(|limit| !limit.is_zero())?;
        let own = used.containers.get(&container.name)?;
        let written = if images_apart { own.logs } else { own.logs + own.layer };
        (written.bytes > bytes(limit)).then_some((&container.name, limit))
    });
    let (name, limit) = over.next()?;
    Some(format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\". "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::usage::{ContainerUse, Room};
    use super::*;
    use crate::make::testing;

    fn used(volume: u64, layer: u64, logs: u64) -> PodUse {
        let room = |bytes| Room { bytes, inodes: 1 };
        let container = ContainerUse { layer: room(layer), logs: room(logs), ..ContainerUse::default() };
        PodUse {
            containers: [("c".to_owned(), container)].into(),
            volumes: [("v".to_owned(), room(volume))].into(),
            ..PodUse::default()
        }
    }

    fn spec(size_limit: Option<&str>, medium: &str, limit: Option<&str>) -> Value {
        let limits = limit.map(|limit| json!({"ephemeral-storage": limit})).unwrap_or_default();
        json!({
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": size_limit, "medium": medium}}],
            "containers": [{"name": "c", "resources": {"limits": limits}}, {"name": "d"}],
        })
    }

    #[test]
    fn who_writes_more_than_allowed_is_told_so_in_upstreams_words() {
        let of_volume = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Ki\". ";
        let of_pod = "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. ";
        for (case, spec, used, expected) in [
            ("no bounds", spec(None, "", None), used(9999, 9999, 9999), None),
            ("exactly full", spec(Some("1Ki"), "", None), used(1024, 0, 0), None),
            ("one byte more", spec(Some("1Ki"), "", None), used(1025, 0, 0), Some(of_volume)),
            ("in memory", spec(Some("1Ki"), "Memory", None), used(1025, 0, 0), None),
            ("layer and log", spec(None, "", Some("1Ki")), used(0, 600, 600), Some(of_pod)),
            ("all together", spec(None, "", Some("1Ki")), used(400, 400, 400), Some(of_pod)),
            ("within", spec(None, "", Some("1Ki")), used(300, 300, 300), None),
        ] {
            let pod = testing::pod(spec);
            assert_eq!(exceeded(&pod, &used, false).as_deref(), expected, "{case}");
            assert_eq!(is_bounded(&pod), case != "no bounds", "{case}");
        }
    }

    #[test]
    fn one_container_may_not_use_up_what_another_was_given() {
        let limits = |amount: &str| json!({"limits": {"ephemeral-storage": amount}});
        let pod = testing::pod(json!({"containers": [
            {"name": "c", "resources": limits("1k")}, {"name": "d", "resources": limits("1Mi")}]}));
        let said = "Container c exceeded its local ephemeral storage limit \"1k\". ";
        assert_eq!(exceeded(&pod, &used(0, 600, 600), false).as_deref(), Some(said));
        assert_eq!(exceeded(&pod, &used(0, 600, 600), true), None, "its layer is on the images' own disk");
    }
}
