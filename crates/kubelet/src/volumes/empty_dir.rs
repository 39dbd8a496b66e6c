//! A directory that begins empty and lives as long as the Pod, on disk or in memory.

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use pintle_meta::quantity::Quantity;

use super::{Content, Medium, Wanted};
use crate::make::{Facts, amount, containers};

pub(super) fn wanted(name: &str, source: &EmptyDirVolumeSource, facts: &Facts<'_>) -> Result<Wanted, String> {
    let medium = match source.medium.as_deref() {
        None | Some("") => Medium::Disk,
        Some("Memory") => {
            let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
            Medium::Memory { size: memory_size(limit, facts) }
        }
        Some(other) => return Err(format!("medium {other:?} is not supported by this node; use \"\" or \"Memory\"")),
    };
    Ok(Wanted::new("empty-dir", name, Content::Empty { medium }))
}

/// The smallest of what the volume asks for, what the Pod may use and what the node has.
fn memory_size(limit: Option<Quantity>, facts: &Facts<'_>) -> Option<u64> {
    let of_node = amount(Some(facts.allocatable), "memory");
    let of_pod = facts.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let of_pod = amount(of_pod, "memory").or_else(|| {
        // One container without a limit leaves the Pod without one.
        let limits = containers(facts.spec).map(|container| {
            let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
            amount(limits, "memory").map(|limit| limit.units())
        });
        limits.sum::<Option<i64>>().map(Quantity::from_units)
    });
    let bounds = [limit, of_pod, of_node].into_iter().flatten().map(|bound| bound.units());
    bounds.filter(|bound| *bound > 0).min().and_then(|bound| u64::try_from(bound).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::make::testing;

    fn size(limit: Option<&str>, containers: Value) -> Option<u64> {
        let pod = testing::pod(json!({"containers": containers}));
        let allocatable = testing::allocatable();
        memory_size(limit.map(|limit| Quantity::parse(limit).unwrap()), &testing::facts(&pod, &allocatable))
    }

    #[test]
    fn a_volume_in_memory_cannot_take_more_than_its_pod_may_use() {
        let limited = || json!({"name": "c", "resources": {"limits": {"memory": "2Gi"}}});
        assert_eq!(size(Some("1Mi"), json!([limited()])), Some(1 << 20));
        assert_eq!(size(None, json!([limited(), limited()])), Some(4 << 30));
        assert_eq!(size(None, json!([limited(), {"name": "d"}])), Some(8 << 30));
        assert_eq!(size(Some("100Gi"), json!([limited()])), Some(2 << 30));
    }
}
