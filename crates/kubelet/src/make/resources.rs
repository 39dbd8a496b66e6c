//! Requests and limits as the kernel is told them, and the class of service that they make.

use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec, ResourceRequirements};
use pintle_container::Resources;

use super::{Facts, amount, containers};

/// Microseconds over which processor time is shared out.
pub(crate) const PERIOD: i64 = 100_000;

/// The kernel takes no smaller quota, and shares only between these two.
const LEAST_QUOTA: i64 = 1_000;
const LEAST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;

/// Killed last and killed first when memory runs out.
const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;

/// From this priority on a Pod is critical to its node.
const NODE_CRITICAL: i32 = 2_000_001_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// The class that the API server has noted, or else the one that the requests and limits make.
pub(crate) fn service(facts: &Facts<'_>) -> Service {
    service_of(facts.pod, facts.spec)
}

pub(crate) fn service_of(pod: &Pod, spec: &PodSpec) -> Service {
    let noted = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    match noted {
        Some("Guaranteed") => return Service::Guaranteed,
        Some("Burstable") => return Service::Burstable,
        Some("BestEffort") => return Service::BestEffort,
        _ => {}
    }
    if let Some(resources) = spec.resources.as_ref().filter(|resources| is_set(resources)) {
        return of_requirements(Some(resources));
    }
    let mut classes = containers(spec).map(|container| of_requirements(container.resources.as_ref()));
    let first = classes.next().unwrap_or(Service::BestEffort);
    if classes.all(|class| class == first) { first } else { Service::Burstable }
}

fn is_set(resources: &ResourceRequirements) -> bool {
    let has = |list: &Option<std::collections::BTreeMap<_, _>>| list.as_ref().is_some_and(|list| !list.is_empty());
    has(&resources.requests) || has(&resources.limits)
}

fn of_requirements(resources: Option<&ResourceRequirements>) -> Service {
    let of = |name: &str| {
        let request = amount(resources.and_then(|resources| resources.requests.as_ref()), name);
        let limit = amount(resources.and_then(|resources| resources.limits.as_ref()), name);
        let none = pintle_meta::quantity::Quantity::from_units(0);
        let (request, limit) = (request.unwrap_or(none), limit.unwrap_or(none));
        match request == limit {
            false => Service::Burstable,
            true if request.is_zero() => Service::BestEffort,
            true => Service::Guaranteed,
        }
    };
    let (processor, memory) = (of("cpu"), of("memory"));
    if processor == memory { processor } else { Service::Burstable }
}

/// Below which control group everything of the Pod runs, in the names of the `cgroupfs` driver.
pub(crate) fn cgroup_parent(facts: &Facts<'_>) -> String {
    format!("{}/pod{}", class_group(service(facts)), facts.uid())
}

/// Below which control group all Pods of a class are.
pub(crate) fn class_group(class: Service) -> &'static str {
    match class {
        Service::Guaranteed => "/kubepods",
        Service::Burstable => "/kubepods/burstable",
        Service::BestEffort => "/kubepods/besteffort",
    }
}

/// What stands for so many thousandths of a processor when processors are scarce.
pub(crate) fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(1024) / 1000).clamp(LEAST_SHARES, MOST_SHARES)
}

/// Microseconds of each period that so many thousandths of a processor are.
pub(crate) fn quota(milli: i64) -> i64 {
    (milli.saturating_mul(PERIOD) / 1000).max(LEAST_QUOTA)
}

pub(crate) fn resources(facts: &Facts<'_>, container: &Spec) -> Resources {
    let own = container.resources.as_ref();
    let request = |name| amount(own.and_then(|resources| resources.requests.as_ref()), name);
    let limit = |name| {
        let of_pod = facts.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let own = amount(own.and_then(|resources| resources.limits.as_ref()), name);
        own.filter(|limit| !limit.is_zero()).or_else(|| amount(of_pod, name))
    };
    let cpu_limit = limit("cpu").map_or(0, |limit| limit.milli());
    let cpu_request = request("cpu").map_or(cpu_limit, |request| request.milli());
    Resources {
        cpu_period: PERIOD,
        cpu_quota: if cpu_limit > 0 { quota(cpu_limit) } else { 0 },
        cpu_shares: shares(cpu_request),
        memory_limit: limit("memory").map_or(0, |limit| limit.units()),
        oom_score_adj: oom_score(facts, container),
        cpuset: String::new(),
    }
}

/// The less of its request a container uses, the later it is killed.
fn oom_score(facts: &Facts<'_>, container: &Spec) -> i64 {
    if facts.spec.priority.is_some_and(|priority| priority >= NODE_CRITICAL) {
        return GUARANTEED;
    }
    match service(facts) {
        Service::Guaranteed => return GUARANTEED,
        Service::BestEffort => return BEST_EFFORT,
        Service::Burstable => {}
    }
    let capacity = amount(Some(facts.allocatable), "memory").map_or(1, |memory| memory.units()).max(1);
    let score = |request: i64| 1000 - 1000_i64.saturating_mul(request + unclaimed(facts)) / capacity;
    let own = score(memory_request(container));
    // A sidecar lives at least as long as the container with the least memory.
    let is_sidecar = container.restart_policy.as_deref() == Some("Always");
    let least = facts.spec.containers.iter().map(memory_request).min().filter(|_| is_sidecar);
    let own = own.min(least.map_or(own, score));
    own.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

fn memory_request(container: &Spec) -> i64 {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    amount(requests, "memory").map_or(0, |memory| memory.units())
}

/// Each container's part of what the Pod as a whole requests beyond its containers.
fn unclaimed(facts: &Facts<'_>) -> i64 {
    let of_pod = facts.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let Some(whole) = amount(of_pod, "memory") else { return 0 };
    let sidecars = facts.spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let lasting: Vec<i64> = sidecars.chain(&facts.spec.containers).map(memory_request).collect();
    let count = i64::try_from(lasting.len()).unwrap_or(i64::MAX).max(1);
    (whole.units() - lasting.iter().sum::<i64>()).max(0) / count
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing;
    use super::*;

    fn made(spec: Value) -> (Service, String, Resources) {
        let pod = testing::pod(spec);
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        (service(&facts), cgroup_parent(&facts), resources(&facts, &facts.spec.containers[0]))
    }

    fn one(resources: Value) -> Value {
        json!({"containers": [{"name": "c", "resources": resources}]})
    }

    #[test]
    fn a_container_gets_the_share_and_the_bound_it_asked_for() {
        let both = json!({"cpu": "500m", "memory": "1Gi"});
        let (class, parent, resources) = made(one(json!({"requests": both, "limits": both})));
        assert_eq!((class, parent.as_str()), (Service::Guaranteed, "/kubepods/pod7f0c"));
        let expected = Resources {
            cpu_period: 100_000,
            cpu_quota: 50_000,
            cpu_shares: 512,
            memory_limit: 1 << 30,
            oom_score_adj: -997,
            cpuset: String::new(),
        };
        assert_eq!(resources, expected);

        let (class, parent, resources) = made(one(json!({})));
        assert_eq!((class, parent.as_str()), (Service::BestEffort, "/kubepods/besteffort/pod7f0c"));
        assert_eq!((resources.cpu_shares, resources.cpu_quota, resources.memory_limit), (2, 0, 0));
        assert_eq!(resources.oom_score_adj, 1000);

        let (class, parent, resources) = made(one(json!({"requests": {"memory": "2Gi"}, "limits": {"cpu": "1m"}})));
        assert_eq!((class, parent.as_str()), (Service::Burstable, "/kubepods/burstable/pod7f0c"));
        assert_eq!((resources.cpu_quota, resources.cpu_shares, resources.oom_score_adj), (1000, 2, 750));
    }

    #[test]
    fn who_asks_for_little_memory_is_killed_before_who_asks_for_much() {
        let burstable = |memory: &str| made(one(json!({"requests": {"memory": memory}}))).2.oom_score_adj;
        assert_eq!([burstable("1"), burstable("4Gi"), burstable("8Gi")], [999, 500, 3]);
        let critical = json!({"priority": 2_000_001_000, "containers": [{"name": "c"}]});
        assert_eq!(made(critical).2.oom_score_adj, -997);
        let mixed = json!({"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}},
            {"name": "d"},
        ]});
        assert_eq!(made(mixed).0, Service::Burstable);
    }

    #[test]
    fn the_limit_of_the_whole_pod_bounds_a_container_without_one() {
        let spec = json!({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "4Gi"}},
            "containers": [{"name": "c"}, {"name": "d"}]});
        let (class, _, resources) = made(spec);
        assert_eq!(class, Service::Burstable);
        assert_eq!((resources.cpu_quota, resources.memory_limit, resources.oom_score_adj), (200_000, 1 << 30, 750));
    }
}
