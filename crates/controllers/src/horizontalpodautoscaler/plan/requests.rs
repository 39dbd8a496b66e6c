//! What Pods request of a resource: the hundred of a percentage.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use pintle_meta::quantity::Quantity;

/// Thousandths, by the Pod's name.
pub(super) type Requests = BTreeMap<String, i64>;

/// The resources for which a Pod as a whole may ask; huge pages are among them.
const POD_LEVEL: [&str; 2] = ["cpu", "memory"];

/// Of one container, or of the whole Pod if none is named.
pub(super) fn requests<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    resource: &str,
    container: Option<&str>,
) -> Result<Requests, String> {
    pods.map(|pod| {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let request = match container {
            None if has_own_requests(pod) => own_request(pod, resource)
                .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"))?,
            _ => of_containers(pod, &name, resource, container)?,
        };
        Ok((name, request))
    })
    .collect()
}

/// Whether the Pod as a whole requests something, and not only its containers.
fn has_own_requests(pod: &Pod) -> bool {
    let names = own_resources(pod).and_then(|own| own.requests.as_ref()).into_iter().flat_map(BTreeMap::keys);
    names.into_iter().any(|name| POD_LEVEL.contains(&name.as_str()) || name.starts_with("hugepages-"))
}

/// What the Pod as a whole requests; a resource that it does not name is requested by its containers.
fn own_request(pod: &Pod, resource: &str) -> Option<i64> {
    own_resources(pod).and_then(|own| request_in(own, resource)).or_else(|| {
        let each: Vec<i64> =
            running(pod).filter_map(|container| request_in(container.resources.as_ref()?, resource)).collect();
        (!each.is_empty()).then(|| each.into_iter().fold(0, i64::saturating_add))
    })
}

fn own_resources(pod: &Pod) -> Option<&ResourceRequirements> {
    pod.spec.as_ref()?.resources.as_ref()
}

fn of_containers(pod: &Pod, name: &str, resource: &str, only: Option<&str>) -> Result<i64, String> {
    let mut chosen = running(pod).filter(|container| only.is_none_or(|only| container.name == only)).peekable();
    if let (Some(only), None) = (only, chosen.peek()) {
        return Err(format!("container {only} not found in Pod {name}"));
    }
    chosen.try_fold(0_i64, |sum, container| {
        let request = container.resources.as_ref().and_then(|resources| request_in(resources, resource));
        let missing = || format!("missing request for {resource} in container {} of Pod {name}", container.name);
        Ok(sum.saturating_add(request.ok_or_else(missing)?))
    })
}

/// The containers that run as long as the Pod does: sidecars too.
fn running(pod: &Pod) -> impl Iterator<Item = &Container> {
    let sidecars = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    pod.spec.iter().flat_map(|spec| &spec.containers).chain(sidecars)
}

fn request_in(resources: &ResourceRequirements, resource: &str) -> Option<i64> {
    Some(Quantity::parse(&resources.requests.as_ref()?.get(resource)?.0).ok()?.milli())
}
