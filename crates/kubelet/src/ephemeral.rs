//! Ephemeral containers: put beside the others of a running Pod to look at them, as `kubectl debug` does.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container as Spec, EphemeralContainer, PodSpec};

use crate::make;

/// As containers, which they are but for the one that they look at.
pub(crate) fn containers(spec: &PodSpec) -> Vec<Spec> {
    spec.ephemeral_containers.iter().flatten().filter_map(container).collect()
}

fn container(ephemeral: &EphemeralContainer) -> Option<Spec> {
    // The fields of the one are fields of the other, under the same names.
    serde_json::to_string(ephemeral).and_then(|text| serde_json::from_str(&text)).ok()
}

/// The container of the Pod with this name, of whatever sort.
pub(crate) fn find<'a>(spec: &'a PodSpec, name: &str) -> Option<Cow<'a, Spec>> {
    if let Some(found) = make::containers(spec).find(|container| container.name == name) {
        return Some(Cow::Borrowed(found));
    }
    let mut ephemeral = spec.ephemeral_containers.iter().flatten();
    ephemeral.find(|found| found.name == name).and_then(container).map(Cow::Owned)
}

/// The name of the container that this one looks at.
pub(crate) fn target<'a>(spec: &'a PodSpec, name: &str) -> Option<&'a str> {
    let mut ephemeral = spec.ephemeral_containers.iter().flatten();
    let target = ephemeral.find(|found| found.name == name)?.target_container_name.as_deref();
    target.filter(|target| !target.is_empty())
}
