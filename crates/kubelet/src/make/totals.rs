//! What a Pod as a whole asks for and may use.

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use pintle_meta::quantity::Quantity;

use super::{amount, containers};

/// Its own request, or that of its containers together, if one of them has any.
pub(crate) fn requested(pod: &Pod, name: &str) -> Option<Quantity> {
    total(pod, name, false)
}

/// Its own limit, or that of its containers together, if one of them has any.
pub(crate) fn limited(pod: &Pod, name: &str) -> Option<Quantity> {
    total(pod, name, true)
}

fn total(pod: &Pod, name: &str, limits: bool) -> Option<Quantity> {
    let spec = pod.spec.as_ref()?;
    let list = |resources: &Option<ResourceRequirements>| {
        let list = resources.as_ref().and_then(|own| if limits { own.limits.as_ref() } else { own.requests.as_ref() });
        amount(list, name)
    };
    if let Some(whole) = list(&spec.resources) {
        return Some(whole);
    }
    let (mut lasting, mut most): (Option<Quantity>, Option<Quantity>) = (None, None);
    let is_main = |container: &_| spec.containers.iter().any(|main| std::ptr::eq(main, container));
    for container in containers(spec) {
        let Some(own) = list(&container.resources) else { continue };
        let with = lasting.map_or(own, |sum| sum + own);
        if is_main(container) || container.restart_policy.as_deref() == Some("Always") {
            lasting = Some(with);
        } else {
            // While it runs there are only the sidecars that came before it.
            most = most.max(Some(with));
        }
    }
    lasting.max(most)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing;
    use super::*;

    #[test]
    fn a_pod_asks_for_the_sum_of_its_containers_or_for_its_largest_beginning() {
        let units = |amount: Option<Quantity>| amount.map(|amount| amount.units());
        let of = |bytes: &str| json!({"requests": {"memory": bytes}, "limits": {"ephemeral-storage": bytes}});
        let init = |name: &str, bytes: &str| json!({"name": name, "resources": of(bytes)});
        let pod = testing::pod(json!({
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": of("1")}, init("a", "10"), init("b", "2")],
            "containers": [{"name": "c", "resources": of("3")}, {"name": "d", "resources": of("4")}],
        }));
        assert_eq!(units(requested(&pod, "memory")), Some(11));
        assert_eq!(units(limited(&pod, "ephemeral-storage")), Some(11));
        assert_eq!(units(limited(&pod, "memory")), None);
        let whole = testing::pod(json!({"resources": {"requests": {"memory": "9"}},
            "containers": [{"name": "c", "resources": of("3")}]}));
        assert_eq!(units(requested(&whole, "memory")), Some(9));
    }
}
