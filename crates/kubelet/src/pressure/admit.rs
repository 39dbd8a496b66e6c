//! Whether a node that lacks something takes on another Pod. No I/O.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Toleration};

use super::rank::is_critical;
use super::signals::Condition;
use crate::make::resources::{Service, service_of};

const MEMORY_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// Why it does not, if it does not.
pub(crate) fn refusal(pod: &Pod, conditions: &BTreeSet<Condition>) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if conditions.is_empty() || is_critical(pod) {
        return None;
    }
    let only_memory = conditions.iter().all(|condition| *condition == Condition::Memory);
    if only_memory {
        let asks = service_of(pod, spec) != Service::BestEffort;
        if asks || spec.tolerations.iter().flatten().any(tolerates_memory) {
            return None;
        }
    }
    let named: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    Some(format!("The node had condition: [{}]. ", named.join(" ")))
}

fn tolerates_memory(toleration: &Toleration) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    // The taint has no value.
    let fits = exists || toleration.value.as_deref().unwrap_or_default().is_empty();
    (effect.is_empty() || effect == "NoSchedule") && (key == MEMORY_TAINT || (key.is_empty() && exists)) && fits
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::make::testing;

    #[test]
    fn a_node_under_pressure_takes_on_only_whom_upstreams_would() {
        let plain = || json!({"containers": [{"name": "c"}]});
        let asking = || json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1Mi"}}}]});
        let tolerating = |toleration: Value| json!({"containers": [{"name": "c"}], "tolerations": [toleration]});
        let critical = || json!({"priority": 2_000_000_000, "containers": [{"name": "c"}]});
        let (memory, disk) = (vec![Condition::Memory], vec![Condition::Memory, Condition::Disk]);
        let pid = vec![Condition::Pid];
        let refused = "The node had condition: [MemoryPressure]. ";
        let both = "The node had condition: [MemoryPressure DiskPressure]. ";
        for (spec, conditions, expected) in [
            (plain(), &vec![], None),
            (plain(), &memory, Some(refused)),
            (asking(), &memory, None),
            (tolerating(json!({"key": MEMORY_TAINT, "operator": "Exists"})), &memory, None),
            (tolerating(json!({"operator": "Exists"})), &memory, None),
            (
                tolerating(json!({"key": MEMORY_TAINT, "effect": "NoExecute", "operator": "Exists"})),
                &memory,
                Some(refused),
            ),
            (
                tolerating(json!({"key": "node.kubernetes.io/disk-pressure", "operator": "Exists"})),
                &memory,
                Some(refused),
            ),
            (asking(), &disk, Some(both)),
            (tolerating(json!({"operator": "Exists"})), &disk, Some(both)),
            (critical(), &disk, None),
            (asking(), &pid, Some("The node had condition: [PIDPressure]. ")),
        ] {
            let conditions: BTreeSet<Condition> = conditions.iter().copied().collect();
            let pod = testing::pod(spec);
            assert_eq!(refusal(&pod, &conditions).as_deref(), expected, "{:?} under {conditions:?}", pod.spec);
        }
    }
}
