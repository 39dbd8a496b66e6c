//! Which names of resources mean what: Kubernetes' own, huge pages, and those that others add.

use pintle_meta::rules;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub const STORAGE: &str = "storage";
/// Before the size of a page: `hugepages-2Mi`.
pub const HUGE_PAGES: &str = "hugepages-";
/// Before the name of what a quota limits the requests for.
pub const REQUESTS: &str = "requests.";

/// Kubernetes' own: without a domain, or with one of its domains.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Something of a node that others have added, such as `example.com/gpu`.
pub fn is_extended(name: &str) -> bool {
    let own = is_native(name) || name.starts_with(REQUESTS);
    !own && rules::qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// May a Pod as a whole, and not only its containers, ask for this?
pub fn is_for_whole_pods(name: &str) -> bool {
    name == CPU || name == MEMORY || is_huge_pages(name)
}

/// May containers have a limit above their request?
pub fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// May a container ask for this?
pub fn is_standard_for_containers(name: &str) -> bool {
    [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name) || is_huge_pages(name)
}

/// What a quota may limit, of the names without a domain.
const QUOTA: [&str; 19] = [
    CPU,
    MEMORY,
    EPHEMERAL_STORAGE,
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// Is this, without a domain, something that a quota may limit?
pub fn is_standard_for_quotas(name: &str) -> bool {
    QUOTA.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// Counted in whole numbers only.
pub fn is_whole(name: &str) -> bool {
    const WHOLE: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    WHOLE.contains(&name) || is_extended(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_add_has_a_domain_of_its_own() {
        for name in ["example.com/gpu", "a/b"] {
            assert!(is_extended(name), "{name}");
        }
        for name in ["cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.example.com/gpu", "hugepages-2Mi"] {
            assert!(!is_extended(name), "{name}");
        }
        assert!(is_standard_for_quotas("requests.hugepages-2Mi") && !is_standard_for_quotas("requests.gpu"));
    }
}
