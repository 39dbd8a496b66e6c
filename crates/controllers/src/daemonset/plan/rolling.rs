//! Which Pods of an old template make way now.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_rules::share::{Round, share};

use super::{Changes, Layout, is_going, node, rolling_update};

/// Whether a node may have a Pod of the old template and one of the new at the same time.
pub(super) fn allows_surge(set: &DaemonSet) -> bool {
    max_surge(set, 1) > 0
}

fn max_surge(set: &DaemonSet, nodes: i32) -> i32 {
    let surge = rolling_update(set).and_then(|rolling| rolling.max_surge.as_ref());
    surge.map_or(0, |value| share(value, nodes, Round::Up))
}

fn max_unavailable(set: &DaemonSet, nodes: i32) -> i32 {
    let unavailable = rolling_update(set).and_then(|rolling| rolling.max_unavailable.as_ref());
    unavailable.map_or(0, |value| share(value, nodes, Round::Up))
}

/// The Pods of a node that nobody deletes yet.
enum OnNode<'a> {
    /// More than one of a kind.
    TooMany,
    Pods {
        new: Option<&'a Arc<Pod>>,
        old: Option<&'a Arc<Pod>>,
    },
}

pub(super) fn update<'a>(layout: &Layout<'a>) -> Changes<'a> {
    let set = layout.facts.set;
    let wanted: BTreeMap<&str, &Node> = layout
        .facts
        .nodes
        .iter()
        .filter(|node| layout.daemon.fit(node).runs)
        .map(|node| (node::name(node), &**node))
        .collect();
    let mut on_nodes: BTreeMap<&'a str, OnNode<'a>> = BTreeMap::new();
    for (name, pods) in &layout.pods {
        on_nodes.insert(name, on_node(layout, pods));
    }
    for node in layout.facts.nodes.iter().map(|node| node::name(node)).filter(|name| wanted.contains_key(name)) {
        on_nodes.entry(node).or_insert(OnNode::Pods { new: None, old: None });
    }
    let count = i32::try_from(wanted.len()).unwrap_or(i32::MAX);
    match (max_surge(set, count), max_unavailable(set, count)) {
        // An impossible pair must not keep the set from moving.
        (0, 0) => in_place(layout, &on_nodes, i32::from(count > 0)),
        (0, unavailable) => in_place(layout, &on_nodes, unavailable),
        (surge, _) => with_surge(layout, &on_nodes, &wanted, surge),
    }
}

fn on_node<'a>(layout: &Layout<'a>, pods: &[&'a Arc<Pod>]) -> OnNode<'a> {
    let (mut new, mut old) = (None, None);
    for pod in pods.iter().copied().filter(|pod| !is_going(pod)) {
        let place = if layout.daemon.is_updated(pod, &layout.revision.hash) { &mut new } else { &mut old };
        if place.replace(pod).is_some() {
            return OnNode::TooMany;
        }
    }
    OnNode::Pods { new, old }
}

/// Deletes old Pods: all that are not available anyway, and of the others as many as may be unavailable.
fn in_place<'a>(layout: &Layout<'a>, on_nodes: &BTreeMap<&'a str, OnNode<'a>>, most: i32) -> Changes<'a> {
    let (mut unavailable, mut broken, mut candidates) = (0usize, Vec::new(), Vec::new());
    for on_node in on_nodes.values() {
        match on_node {
            OnNode::Pods { new: None, old: Some(old) } if layout.is_available(old) => candidates.push(*old),
            OnNode::Pods { new: None, old: Some(old) } => {
                broken.push(*old);
                unavailable += 1;
            }
            OnNode::Pods { new: Some(new), old: None } if layout.is_available(new) => {}
            _ => unavailable += 1,
        }
    }
    let left = usize::try_from(most).unwrap_or(0).saturating_sub(unavailable);
    broken.extend(candidates.into_iter().take(left));
    Changes { deleted: broken, ..Changes::default() }
}

/// Makes new Pods beside old ones, and deletes an old one when its successor is available.
fn with_surge<'a>(
    layout: &Layout<'a>,
    on_nodes: &BTreeMap<&'a str, OnNode<'a>>,
    wanted: &BTreeMap<&str, &Node>,
    most: i32,
) -> Changes<'a> {
    let mut changes = Changes::default();
    let (mut surging, mut available, mut candidates, mut unwanted) = (0usize, 0usize, Vec::new(), Vec::new());
    for (node, on_node) in on_nodes {
        let OnNode::Pods { new, old } = on_node else {
            surging += 1;
            continue;
        };
        available += usize::from(old.or(*new).is_some_and(|pod| layout.is_available(pod)));
        let Some(old) = *old else { continue };
        match new {
            Some(new) if layout.is_available(new) => changes.deleted.push(old),
            Some(_) => surging += 1,
            None => match (layout.is_available(old), wanted.contains_key(node)) {
                (false, true) => changes.created.push(node),
                (false, false) => changes.deleted.push(old),
                (true, true) => candidates.push(*node),
                (true, false) => unwanted.push(old),
            },
        }
    }
    // Whoever surges expects no gap: a Pod on a node that is no longer wanted goes when there are enough others.
    changes.deleted.extend(unwanted.into_iter().take(available.saturating_sub(wanted.len())));
    let left = usize::try_from(most).unwrap_or(0).saturating_sub(surging);
    changes.created.extend(candidates.into_iter().take(left));
    changes
}
