//! What a Pod as a whole may use, and what the kernel is told of it. No I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::make::resources::{PERIOD, Service, quota, service, service_of, shares};
use crate::make::totals::{limited, requested};
use crate::make::{Facts, amount};
use crate::plan::is_terminal;

/// The bounds of a Pod's own control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) cpu_shares: i64,
    /// Microseconds in each period, if there is a bound.
    pub(super) cpu_quota: Option<i64>,
    /// In bytes, if there is a bound.
    pub(super) memory: Option<i64>,
    pub(super) processes: Option<u64>,
}

/// One container without a limit leaves its Pod without one.
pub(super) fn bounds(facts: &Facts<'_>, processes: Option<u64>) -> Bounds {
    let all = |name: &str| {
        let has_limit = |resources: Option<&ResourceRequirements>| {
            let limit = amount(resources.and_then(|resources| resources.limits.as_ref()), name);
            limit.is_some_and(|limit| !limit.is_zero())
        };
        let mut each = facts.containers().map(|container| container.resources.as_ref());
        has_limit(facts.spec.resources.as_ref()) || each.all(has_limit)
    };
    let limit = |name: &'static str| limited(facts.pod, name).filter(|_| all(name));
    if service(facts) == Service::BestEffort {
        return Bounds { cpu_shares: shares(0), processes, ..Bounds::default() };
    }
    Bounds {
        cpu_shares: shares(requested(facts.pod, "cpu").map_or(0, |cpu| cpu.milli())),
        cpu_quota: limit("cpu").map(|cpu| quota(cpu.milli())),
        memory: limit("memory").map(|memory| memory.units()),
        processes,
    }
}

/// How processors are shared out when they are scarce: all Pods get what the node has for them, those that ask for less than
/// they may use get what they ask for together, and those that ask for nothing get what is left.
pub(super) fn classes(pods: &[Arc<Pod>], allocatable: &BTreeMap<String, Quantity>) -> [(Service, i64); 3] {
    let is_counted = |pod: &&Arc<Pod>| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let class = pod.spec.as_ref().map(|spec| service_of(pod, spec));
        class == Some(Service::Burstable) && !is_terminal(phase)
    };
    let asked: i64 =
        pods.iter().filter(is_counted).filter_map(|pod| requested(pod, "cpu")).map(|cpu| cpu.milli()).sum();
    let all = amount(Some(allocatable), "cpu").map_or(0, |cpu| cpu.milli());
    // The group of the first class holds the other two.
    [(Service::Guaranteed, shares(all)), (Service::Burstable, shares(asked)), (Service::BestEffort, shares(0))]
}

/// Files of the group and what is written to them, where each controller has a tree of its own.
pub(super) fn version_1(bounds: &Bounds) -> Vec<(&'static str, &'static str, String)> {
    let mut files = vec![("cpu", "cpu.shares", bounds.cpu_shares.to_string())];
    if let Some(quota) = bounds.cpu_quota {
        files.push(("cpu", "cpu.cfs_period_us", PERIOD.to_string()));
        files.push(("cpu", "cpu.cfs_quota_us", quota.to_string()));
    }
    files.extend(bounds.memory.map(|memory| ("memory", "memory.limit_in_bytes", memory.to_string())));
    files.extend(bounds.processes.map(|processes| ("pids", "pids.max", processes.to_string())));
    files
}

/// The same where all controllers share one tree.
pub(super) fn version_2(bounds: &Bounds) -> Vec<(&'static str, String)> {
    let mut files = vec![("cpu.weight", weight(bounds.cpu_shares).to_string())];
    files.extend(bounds.cpu_quota.map(|quota| ("cpu.max", format!("{quota} {PERIOD}"))));
    files.extend(bounds.memory.map(|memory| ("memory.max", memory.to_string())));
    files.extend(bounds.processes.map(|processes| ("pids.max", processes.to_string())));
    files
}

/// From 2–262144 to 1–10000, in a way in which the default of the one, 1024, becomes the default of the other, 100.
pub(super) fn weight(shares: i64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shares are small, and the result lies between 1 and 10000"
    )]
    {
        let log = (shares.clamp(2, 262_144) as f64).log2();
        let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
        (10_f64.powf(exponent).ceil() as u64).clamp(1, 10_000)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::make::testing;

    fn of(spec: Value) -> Bounds {
        let pod = testing::pod(spec);
        let allocatable = testing::allocatable();
        bounds(&testing::facts(&pod, &allocatable), Some(100))
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn a_pod_is_held_to_the_sum_of_what_its_containers_may_use() {
        let limits = || json!({"cpu": "500m", "memory": "64Mi"});
        let both = json!({"containers": [container("c", limits(), limits()), container("d", limits(), limits())]});
        let expected =
            Bounds { cpu_shares: 1024, cpu_quota: Some(100_000), memory: Some(128 << 20), processes: Some(100) };
        assert_eq!(of(both), expected);
        let one = json!({"containers": [container("c", json!({"cpu": "250m"}), limits()), {"name": "d"}]});
        assert_eq!(of(one), Bounds { cpu_shares: 256, cpu_quota: None, memory: None, processes: Some(100) });
        let whole = json!({"resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}},
            "containers": [{"name": "d"}]});
        assert_eq!(of(whole).memory, Some(1 << 30));
        let none = json!({"containers": [{"name": "d"}]});
        assert_eq!(of(none), Bounds { cpu_shares: 2, processes: Some(100), ..Bounds::default() });
    }

    #[test]
    fn both_versions_of_the_kernels_files_say_the_same() {
        let bounds = Bounds { cpu_shares: 1024, cpu_quota: Some(50_000), memory: Some(7), processes: Some(9) };
        let text = |text: &str| text.to_owned();
        assert_eq!(
            version_1(&bounds),
            [
                ("cpu", "cpu.shares", text("1024")),
                ("cpu", "cpu.cfs_period_us", text("100000")),
                ("cpu", "cpu.cfs_quota_us", text("50000")),
                ("memory", "memory.limit_in_bytes", text("7")),
                ("pids", "pids.max", text("9")),
            ]
        );
        let expected = [("cpu.weight", "100"), ("cpu.max", "50000 100000"), ("memory.max", "7"), ("pids.max", "9")];
        assert_eq!(version_2(&bounds), expected.map(|(file, value)| (file, text(value))));
        assert_eq!([2, 1024, 262_144].map(weight), [1, 100, 10_000]);
    }
}
