//! Whether a node has what a Pod asks for. No I/O.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_meta::quantity;

use super::{Pending, RESIZABLE};
use crate::make::amount;
use crate::make::totals::requested;

/// `others` are the Pods beside it that have not ended, each with what it was given.
pub(crate) fn room<'a>(
    pod: &Pod,
    others: impl Iterator<Item = &'a Pod> + Clone,
    allocatable: &BTreeMap<String, Quantity>,
) -> Result<(), Pending> {
    // What will never fit is said before what does not fit yet.
    for name in RESIZABLE {
        let (wanted, all) = (number(requested(pod, name), name), number(amount(Some(allocatable), name), name));
        if wanted > all {
            let message = format!("Node didn't have enough capacity: {name}, requested: {wanted}, capacity: {all}");
            return Err(Pending { reason: "Infeasible", message });
        }
    }
    for name in RESIZABLE {
        let (wanted, all) = (number(requested(pod, name), name), number(amount(Some(allocatable), name), name));
        let used: i64 = others.clone().map(|other| number(requested(other, name), name)).sum();
        if wanted > 0 && wanted.saturating_add(used) > all {
            let message =
                format!("Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {all}");
            return Err(Pending { reason: "Deferred", message });
        }
    }
    Ok(())
}

/// Thousandths of processors, and bytes.
fn number(amount: Option<quantity::Quantity>, name: &str) -> i64 {
    amount.map_or(0, |amount| if name == "cpu" { amount.milli() } else { amount.units() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::make::testing;

    fn pod(cpu: &str, memory: &str) -> Pod {
        let requests = json!({"requests": {"cpu": cpu, "memory": memory}});
        testing::pod(json!({"containers": [{"name": "c", "resources": requests}]}))
    }

    #[test]
    fn a_pod_grows_only_into_what_its_neighbours_leave() {
        let others = [pod("1", "1Gi"), pod("500m", "1Gi")];
        let of = |cpu: &str, memory: &str| room(&pod(cpu, memory), others.iter(), &testing::allocatable());
        let no = |reason, message: &str| Err(Pending { reason, message: message.to_owned() });
        assert_eq!(of("2500m", "6Gi"), Ok(()));
        assert_eq!(
            of("2501m", "6Gi"),
            no("Deferred", "Node didn't have enough resource: cpu, requested: 2501, used: 1500, capacity: 4000")
        );
        assert_eq!(
            of("4", "9Gi"),
            no("Infeasible", "Node didn't have enough capacity: memory, requested: 9663676416, capacity: 8589934592")
        );
    }
}
