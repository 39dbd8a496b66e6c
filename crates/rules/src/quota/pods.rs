//! What a Pod counts for: itself, what it requests, and its limits.

use crate::Amounts;
use crate::pod::{self, Look};
use crate::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY, REQUESTS, is_extended, is_huge_pages, is_native};
use jiff::Timestamp;
use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const STATIC: [&str; 10] = [
    CPU,
    MEMORY,
    EPHEMERAL_STORAGE,
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// A quota of one of these demands that every container says how much it needs.
const DEMANDED: [&str; 6] = [CPU, MEMORY, "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Before the name of a device class that stands for a resource.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn counts(name: &str) -> bool {
    let of_others = name.strip_prefix(REQUESTS).is_some_and(|of| !is_native(name) || of.starts_with(DEVICE_CLASS));
    let huge_pages = is_huge_pages(name.strip_prefix(REQUESTS).unwrap_or(name));
    STATIC.contains(&name) || huge_pages || of_others
}

pub(super) fn constraints(required: &[&str], pod: &Value) -> Result<(), String> {
    if pod::has_whole(pod) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in pod::containers(pod).chain(pod::init_containers(pod)) {
        let side = |side: &str| Amounts::of(object::at(container, &["resources", side]));
        let said = charged(&side("requests"), &side("limits"));
        for name in DEMANDED.iter().filter(|name| required.contains(name) && !said.contains(name)) {
            missing.entry(name).or_default().insert(object::text(container, &["name"]));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let joined = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(",");
    let parts: Vec<String> = missing.iter().map(|(name, of)| format!("{name} for: {}", joined(of))).collect();
    Err(format!("must specify {}", parts.join("; ")))
}

pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if pod::has_ended(pod, now) {
        return Amounts::default();
    }
    charged(&pod::requests(pod, Look::SpecAndStatus), &pod::limits(pod, Look::SpecAndStatus))
}

/// Requests and limits under the names that a quota has for them.
fn charged(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut charged = Amounts::default();
    charged.set("pods", Quantity::from_units(1));
    for (name, amount) in requests.iter() {
        let of_others = is_extended(name) || name.starts_with(DEVICE_CLASS);
        let plain = [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name) || name.starts_with(HUGE_PAGES);
        if plain {
            charged.set(name, amount);
        }
        if plain || of_others {
            charged.set(format!("{REQUESTS}{name}"), amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| [CPU, MEMORY, EPHEMERAL_STORAGE].contains(name)) {
        charged.set(format!("limits.{name}"), amount);
    }
    charged
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_counts_for_what_it_requests_and_for_its_limits() {
        let resources = json!({"requests": {"cpu": "300m", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
            "limits": {"memory": "1Gi", "example.com/gpu": "2"}});
        let pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
        assert_eq!(
            usage(&pod, Timestamp::UNIX_EPOCH).to_string(),
            "cpu=300m,hugepages-2Mi=4Mi,limits.memory=1Gi,pods=1,requests.cpu=300m,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi"
        );
        let ended = json!({"status": {"phase": "Succeeded"}, "spec": pod["spec"]});
        assert!(usage(&ended, Timestamp::UNIX_EPOCH).is_empty());
    }

    #[test]
    fn names_of_a_quota_that_pods_count_for() {
        for name in ["pods", "cpu", "requests.example.com/gpu", "requests.hugepages-2Mi", "hugepages-1Gi", "limits.cpu"]
        {
            assert!(counts(name), "{name}");
        }
        for name in
            ["services", "requests.storage", "example.com/gpu", "limits.example.com/gpu", "limits.hugepages-2Mi"]
        {
            assert!(!counts(name), "{name}");
        }
    }

    #[test]
    fn a_quota_of_cpu_demands_that_containers_say_what_they_need() {
        let pod = json!({"spec": {"initContainers": [{"name": "i"}], "containers": [
            {"name": "b", "resources": {"requests": {"cpu": "1"}}}, {"name": "a"}]}});
        assert_eq!(
            constraints(&["requests.cpu", "limits.memory", "pods"], &pod).unwrap_err(),
            "must specify limits.memory for: a,b,i; requests.cpu for: a,i"
        );
        assert_eq!(constraints(&["pods", "requests.ephemeral-storage"], &pod), Ok(()));
        let whole = json!({"spec": {"containers": [{"name": "a"}], "resources": {"requests": {"cpu": "1"}}}});
        assert_eq!(constraints(&["limits.memory"], &whole), Ok(()));
    }
}
