//! Which Pod goes first, and what its owner is told. No I/O.

use std::cmp::Reverse;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Pod;
use pintle_meta::quantity::Quantity;

use super::settings::{Amount, Threshold};
use super::signals::{Observation, Observations, Resource};
use super::usage::{Measured, PodUse, asked};
use crate::make::{amount, containers};

/// From this priority on the node keeps a Pod whatever it lacks.
const SYSTEM_CRITICAL: i32 = 2_000_000_000;

/// A Pod and what it uses, if that is known.
pub(super) type Candidate<'a> = (&'a Pod, Option<&'a PodUse>);

/// Pods without which a node does not work, and those that no one would bring back.
pub(crate) fn is_critical(pod: &Pod) -> bool {
    let annotation = |name: &str| pod.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let is_static = annotation("kubernetes.io/config.source").is_some_and(|source| source != "api");
    let is_mirror = annotation("kubernetes.io/config.mirror").is_some();
    is_static || is_mirror || priority(pod) >= SYSTEM_CRITICAL
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// Those that use more than they asked for, then the less important, then those that use most beyond what they asked for. One of
/// which nothing is known goes before the others.
pub(super) fn rank(candidates: &mut [Candidate<'_>], resource: Resource, measured: Measured) {
    candidates.sort_by_cached_key(|(pod, used)| {
        let known = used.is_some();
        let used = used.map_or(0, |used| used.of(resource, measured));
        let exceeds = used > asked(pod, resource);
        // Files are not asked for: the room is what tells who wanted much.
        let wanted = match resource {
            Resource::Inodes => asked(pod, Resource::Storage),
            other => asked(pod, other),
        };
        let beyond = Reverse(i128::from(used) - i128::from(wanted));
        let name = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        match resource {
            Resource::Pids => (false, Reverse(false), priority(pod), known, beyond, name),
            _ => (known, Reverse(exceeds), priority(pod), known, beyond, name),
        }
    });
}

/// Why a Pod was evicted, in upstream's words.
pub(super) fn message(
    (pod, used): Candidate<'_>,
    resource: Resource,
    thresholds: &[&Threshold],
    observations: &Observations,
) -> String {
    let name = resource.name();
    let mut message = format!("The node was low on resource: {name}. ");
    let of_resource = thresholds.iter().filter(|threshold| threshold.signal.resource() == resource);
    let met = of_resource.filter_map(|threshold| Some((threshold, observations.get(&threshold.signal)?))).next();
    if let Some((threshold, observed)) = met {
        // Writing to a string does not fail.
        let quantity = threshold_quantity(threshold, observed);
        let available = written(observed.available, !matches!(resource, Resource::Inodes | Resource::Pids));
        let _ = write!(message, "Threshold quantity: {quantity}, available: {available}. ");
    }
    let (Some(spec), Some(used)) = (pod.spec.as_ref(), used) else { return message };
    for container in containers(spec) {
        let Some(own) = used.containers.get(&container.name) else { continue };
        let usage = match resource {
            Resource::Memory => own.memory,
            Resource::Storage => (own.layer + own.logs).bytes,
            Resource::Inodes | Resource::Pids => continue,
        };
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let request = amount(requests, name).unwrap_or(Quantity::from_units(0));
        if usage > super::usage::bytes(request) {
            let (container, usage) = (&container.name, written(usage, true));
            let _ = write!(
                message,
                "Container {container} was using {usage}, request is {request}, has larger consumption of {name}. "
            );
        }
    }
    message
}

fn threshold_quantity(threshold: &Threshold, observed: &Observation) -> Quantity {
    match threshold.value {
        Amount::Quantity(quantity) => quantity,
        value @ Amount::Percent(_) => written(value.of(observed.capacity), true),
    }
}

fn written(amount: u64, binary: bool) -> Quantity {
    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
    if binary { Quantity::from_bytes(amount) } else { Quantity::from_units(amount) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::signals::Signal;
    use super::super::usage::{ContainerUse, Room};
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn pod(name: &str, priority: i32, request: &str) -> Pod {
        let requests = json!({"memory": request, "ephemeral-storage": request});
        let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": {"requests": requests}}]});
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})).unwrap()
    }

    fn using(mebibytes: u64, processes: u64) -> PodUse {
        let room = Room { bytes: mebibytes * MEBIBYTE, inodes: mebibytes };
        let container = ContainerUse { memory: mebibytes * MEBIBYTE, layer: room, ..ContainerUse::default() };
        PodUse { containers: [("c".to_owned(), container)].into(), processes, ..PodUse::default() }
    }

    #[test]
    fn pods_go_in_upstreams_order() {
        // Name, priority, request, what is used and how many processes.
        let all = [
            ("modest", 0, "100Mi", Some((50, 9))),
            ("important", 1000, "0", Some((900, 8))),
            ("greedy", 0, "10Mi", Some((60, 7))),
            ("greedier", 0, "0", Some((55, 6))),
            ("unknown", 5000, "0", None),
            ("idle", -1, "100Mi", Some((1, 5))),
        ];
        let pods = all.map(|(name, priority, request, _)| pod(name, priority, request));
        let uses = all.map(|(_, _, _, used)| used.map(|(mebibytes, processes)| using(mebibytes, processes)));
        let order = |resource| {
            let mut candidates: Vec<Candidate<'_>> = pods.iter().zip(uses.iter().map(Option::as_ref)).collect();
            rank(&mut candidates, resource, Measured::ALL);
            candidates.iter().map(|(pod, _)| pod.metadata.name.clone().unwrap()).collect::<Vec<_>>()
        };
        let by_use = ["unknown", "greedier", "greedy", "important", "idle", "modest"];
        assert_eq!(order(Resource::Memory), by_use);
        assert_eq!(order(Resource::Storage), by_use);
        assert_eq!(order(Resource::Pids), ["idle", "modest", "greedy", "greedier", "important", "unknown"]);
        // Every file is more than was asked for.
        assert_eq!(order(Resource::Inodes), ["unknown", "idle", "greedier", "greedy", "modest", "important"]);
    }

    #[test]
    fn a_pod_that_the_node_needs_is_known_as_such() {
        assert!(!is_critical(&pod("web", 1_999_999_999, "0")) && is_critical(&pod("dns", 2_000_000_000, "0")));
        for (annotation, value, expected) in
            [("config.source", "file", true), ("config.source", "api", false), ("config.mirror", "x", true)]
        {
            let mut web = pod("web", 0, "0");
            web.metadata.annotations = Some([(format!("kubernetes.io/{annotation}"), value.to_owned())].into());
            assert_eq!(is_critical(&web), expected, "{annotation}={value}");
        }
    }

    #[test]
    fn the_owner_is_told_what_was_low_and_who_used_too_much() {
        let threshold = |signal, value| Threshold { signal, value, grace: Duration::ZERO, minimum_reclaim: None };
        let memory = threshold(Signal::MemoryAvailable, Amount::Quantity(Quantity::parse("1Gi").unwrap()));
        let disk = threshold(Signal::NodefsAvailable, Amount::Percent(50.0));
        let pids = threshold(Signal::PidAvailable, Amount::Quantity(Quantity::parse("1k").unwrap()));
        let seen = |available, capacity| Observation { available, capacity };
        let observations = [
            (Signal::MemoryAvailable, seen(512 * MEBIBYTE, 4096 * MEBIBYTE)),
            (Signal::NodefsAvailable, seen(10 * MEBIBYTE + 1, 100 * MEBIBYTE)),
            (Signal::PidAvailable, seen(10, 32768)),
        ]
        .into();
        let (pod, used) = (pod("web", 0, "10Mi"), using(60, 1));
        let thresholds = [&memory, &disk, &pids];
        let said = |resource| message((&pod, Some(&used)), resource, &thresholds, &observations);
        assert_eq!(
            said(Resource::Memory),
            "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. Container c was using 60Mi, \
             request is 10Mi, has larger consumption of memory. "
        );
        assert_eq!(
            said(Resource::Storage),
            "The node was low on resource: ephemeral-storage. Threshold quantity: 50Mi, available: 10485761. Container c was \
             using 60Mi, request is 10Mi, has larger consumption of ephemeral-storage. "
        );
        assert_eq!(said(Resource::Pids), "The node was low on resource: pids. Threshold quantity: 1k, available: 10. ");
    }
}
