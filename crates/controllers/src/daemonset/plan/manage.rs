//! Pods that are missing on a node, and Pods that are too many or have ended.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_runtime::plan::Note;

use super::{Changes, Layout, is_going, node, rolling};
use crate::pods;

pub(super) fn manage<'a>(layout: &Layout<'a>) -> Changes<'a> {
    let mut changes = Changes::default();
    for node in &layout.facts.nodes {
        let (fit, there) = (layout.daemon.fit(node), layout.on(node));
        if fit.runs && there.is_empty() {
            changes.created.push(node::name(node));
        } else if fit.stays {
            let running = without_ended(layout, node, there, &mut changes);
            match rolling::allows_surge(layout.facts.set) {
                // All but the oldest are too many.
                false => changes.deleted.extend(running.iter().skip(1)),
                true if running.is_empty() && fit.runs => changes.created.push(node::name(node)),
                true => changes.deleted.extend(surplus(layout, &running)),
            }
        } else {
            changes.deleted.extend(there.iter().filter(|pod| !is_going(pod)));
        }
    }
    changes.deleted.extend(lost(layout));
    changes
}

/// The Pods of a node that run; those that have ended are deleted, those that failed not before their time.
fn without_ended<'a>(
    layout: &Layout<'a>,
    node: &Node,
    there: &[&'a Arc<Pod>],
    changes: &mut Changes<'a>,
) -> Vec<&'a Arc<Pod>> {
    let node = node::name(node);
    let mut running = Vec::new();
    for pod in there.iter().copied().filter(|pod| !is_going(pod)) {
        let of = |pod: &Pod| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("daemon pod {}/{} on node {node}", text(&pod.metadata.namespace), text(&pod.metadata.name))
        };
        match pods::phase(pod) {
            "Failed" => match (layout.facts.backoff)(node) {
                Some(left) => changes.again = [changes.again, Some(left)].into_iter().flatten().min(),
                None => {
                    let message = format!("Found failed {}, will try to kill it", of(pod));
                    changes.events.push(Note::warning("FailedDaemonPod", message));
                    changes.replaced_failed.push(node.to_owned());
                    changes.deleted.push(pod);
                }
            },
            "Succeeded" => {
                let message = format!("Found succeeded {}, will try to delete it", of(pod));
                changes.events.push(Note::normal("SucceededDaemonPod", message));
                changes.deleted.push(pod);
            }
            _ => running.push(pod),
        }
    }
    running
}

/// While a set surges a node has an old Pod and a new one, until the new one is available or the old one is not ready.
fn surplus<'a>(layout: &Layout<'a>, running: &[&'a Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
    if running.len() < 2 {
        return Vec::new();
    }
    let (new, old): (Vec<_>, Vec<_>) = running.iter().copied().partition(|pod| layout.revision.is_of(pod));
    let mut surplus: Vec<&Arc<Pod>> = new.iter().skip(1).chain(old.iter().skip(1)).copied().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!pods::is_ready(old) || layout.is_available(new))
    {
        surplus.push(old);
    }
    surplus
}

/// Pods for nodes that are gone, which will never be bound.
fn lost<'a>(layout: &Layout<'a>) -> Vec<&'a Arc<Pod>> {
    let is_there = |name: &str| {
        let nodes = &layout.facts.nodes;
        nodes.binary_search_by(|node| node::name(node).cmp(name)).is_ok()
    };
    let lost = layout.pods.iter().filter(|(node, _)| !is_there(node)).flat_map(|(_, pods)| pods);
    lost.copied().filter(|pod| pods::node_name(pod).is_empty()).collect()
}
