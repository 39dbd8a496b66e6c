//! Questions about Pods that several loops ask.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use pintle_runtime::{Informer, conditions, owner};

/// Index of Pods: the UID of the controller, or the namespace of one that has none.
fn controller(pod: &Pod) -> Vec<String> {
    vec![match owner::controller_of(&pod.metadata) {
        Some(owner) => owner.uid.clone(),
        None => orphans_of(pod.metadata.namespace.as_deref().unwrap_or_default()),
    }]
}

/// Makes `controlled_by` and `orphans_in` cheap from the start.
pub(crate) fn index_by_controller(pods: &Informer<Pod>) {
    pods.index(controller);
}

pub(crate) fn controlled_by(pods: &Informer<Pod>, uid: &str) -> Vec<std::sync::Arc<Pod>> {
    pods.by(controller, uid)
}

pub(crate) fn orphans_in(pods: &Informer<Pod>, namespace: &str) -> Vec<std::sync::Arc<Pod>> {
    pods.by(controller, &orphans_of(namespace))
}

/// A slash keeps it apart from every UID.
fn orphans_of(namespace: &str) -> String {
    format!("orphans/{namespace}")
}

/// Index of Pods: the node.
fn node(pod: &Pod) -> Vec<String> {
    Some(node_name(pod)).filter(|node| !node.is_empty()).map(str::to_owned).into_iter().collect()
}

/// Makes `on_node` cheap from the start.
pub(crate) fn index_by_node(pods: &Informer<Pod>) {
    pods.index(node);
}

pub(crate) fn on_node(pods: &Informer<Pod>, name: &str) -> Vec<std::sync::Arc<Pod>> {
    pods.by(node, name)
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Finished, for better or worse.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Counts as a replica: neither finished nor on its way out.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// On its way out, and still running.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_some()
}

pub(crate) fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let status = pod.status.as_ref()?;
    conditions::find(status.conditions.as_deref().unwrap_or_default(), "Ready")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Since when the Pod is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// Ready for at least `minimum` seconds.
pub(crate) fn is_available(pod: &Pod, minimum: i32, now: Timestamp) -> bool {
    is_ready(pod) && (minimum == 0 || available_in(pod, minimum, now).is_some_and(|wait| wait.is_zero()))
}

/// How long until a ready Pod is available; nothing for one that is not ready.
pub(crate) fn available_in(pod: &Pod, minimum: i32, now: Timestamp) -> Option<Duration> {
    let since = ready_since(pod)?;
    let left = since + SignedDuration::from_secs(minimum.into());
    Some(Duration::try_from(left.duration_since(now)).unwrap_or(Duration::ZERO))
}

pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}
