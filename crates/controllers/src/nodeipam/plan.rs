//! Which node gets which part of the Pods' addresses.

use k8s_openapi::api::core::v1::Node;
use pintle_meta::Range;
use pintle_meta::network::{CLUSTER_CIDRS, node_parts, pod_ranges};
use pintle_runtime::plan::{Note, Pace};
use pintle_runtime::{Plan, Write};
use serde_json::json;

/// Gives ranges to nodes that have none, and tells those whose ranges are of no use.
pub(super) fn plan<'a>(nodes: impl Iterator<Item = &'a Node>, cluster: &[Range]) -> Plan {
    let mut nodes: Vec<&Node> = nodes.collect();
    nodes.sort_by_key(|node| (node.metadata.creation_timestamp.clone(), node.metadata.name.clone()));
    let mut plan = Plan::default();
    let mut taken: Vec<(&str, Range)> = Vec::new();
    for node in &nodes {
        let name = name(node);
        for range in ranges(node) {
            // Of two nodes with the same addresses the one that was there first has them.
            match taken.iter().find(|(owner, other)| *owner != name && other.overlaps(&range)) {
                Some((owner, other)) => plan.events.push(overlap(node, range, owner, *other)),
                None => taken.push((name, range)),
            }
        }
    }
    for node in nodes.into_iter().filter(|node| wants(node)) {
        let free = |range: &Range| node_parts(range).find(|part| !taken.iter().any(|(_, taken)| taken.overlaps(part)));
        let found: Option<Vec<Range>> = cluster.iter().map(free).collect();
        match found {
            Some(ranges) => {
                taken.extend(ranges.iter().map(|range| (name(node), *range)));
                plan.writes.push(given(node, &ranges, cluster));
            }
            None => {
                let message = format!("Node {} status is now: CIDRNotAvailable", name(node));
                plan.events.push(Note::warning("CIDRNotAvailable", message).about(node));
            }
        }
    }
    plan
}

fn given(node: &Node, ranges: &[Range], cluster: &[Range]) -> Write {
    let text = |ranges: &[Range]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (own, all) = (text(ranges), text(cluster).join(","));
    let patch = json!({
        "metadata": {"annotations": {CLUSTER_CIDRS: all}},
        "spec": {"podCIDR": own.first(), "podCIDRs": own},
    });
    Write::merge(node, patch).paced(Pace::Together)
}

fn overlap(node: &Node, range: Range, owner: &str, taken: Range) -> Note {
    let message = format!(
        "its Pods' addresses {range} overlap with {taken} of node {owner}: its Pods are not reached from other nodes; \
        delete the Node, so that it gets another range when it joins again"
    );
    Note::warning("CIDROverlap", message).about(node)
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
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
