//! Which node gets which part of the Pods' addresses.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use pintle_meta::Range;
use pintle_meta::network::{node_parts, pod_ranges};

/// What is to be done for the nodes of a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Nodes that get ranges, in this order.
    pub give: Vec<(String, Vec<Range>)>,
    /// Nodes for which nothing is left.
    pub without: Vec<String>,
    /// Nodes whose range has addresses of another's, which was there before: node, its range, the other node, its range.
    pub overlapping: Vec<(String, Range, String, Range)>,
}

/// `given` was written and may not be seen yet.
pub(super) fn plan<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    cluster: &[Range],
    given: &BTreeMap<String, Vec<Range>>,
) -> Plan {
    let mut nodes: Vec<&Node> = nodes.collect();
    nodes.sort_by_key(|node| (node.metadata.creation_timestamp.clone(), node.metadata.name.clone()));
    let mut plan = Plan::default();
    let mut taken: Vec<(String, Range)> = Vec::new();
    for node in &nodes {
        let name = name(node);
        for range in ranges(node).into_iter().chain(given.get(&name).into_iter().flatten().copied()) {
            let other = taken.iter().find(|(owner, other)| *owner != name && other.overlaps(&range));
            if let Some((owner, other)) = other {
                plan.overlapping.push((name.clone(), range, owner.clone(), *other));
            } else if !taken.contains(&(name.clone(), range)) {
                taken.push((name.clone(), range));
            }
        }
    }
    for node in nodes {
        let name = name(node);
        if !wants(node) || given.contains_key(&name) {
            continue;
        }
        let free = |range: &Range| node_parts(range).find(|part| !taken.iter().any(|(_, taken)| taken.overlaps(part)));
        let found: Option<Vec<Range>> = cluster.iter().map(free).collect();
        match found {
            Some(ranges) => {
                taken.extend(ranges.iter().map(|range| (name.clone(), *range)));
                plan.give.push((name, ranges));
            }
            None => plan.without.push(name),
        }
    }
    plan
}

pub(super) fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

/// The ranges that a node has.
pub(super) fn ranges(node: &Node) -> Vec<Range> {
    let spec = node.spec.as_ref();
    spec.map(|spec| pod_ranges(spec.pod_cidr.as_ref(), spec.pod_cidrs.as_ref())).unwrap_or_default()
}

/// Pods of simulated nodes have addresses that nobody has.
pub(super) fn wants(node: &Node) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    let is_simulated = info.is_some_and(|info| info.container_runtime_version.starts_with("simulated://"));
    ranges(node).is_empty() && !is_simulated && node.metadata.deletion_timestamp.is_none()
}
