//! What the cluster says to this node: the addresses of its Pods.

use k8s_openapi::api::core::v1::Node;
use pintle_meta::network::{CLUSTER_CIDRS, pod_ranges};
use pintle_runtime::{Change, Context, Key, Selection};
use tokio::sync::watch;

use crate::address::Range;
use crate::node::PodRanges;

/// The ranges that a Node was given; nothing if it has none yet.
pub fn ranges_of(node: &Node) -> Option<PodRanges> {
    let spec = node.spec.as_ref()?;
    let node_ranges = pod_ranges(spec.pod_cidr.as_ref(), spec.pod_cidrs.as_ref());
    let all = node.metadata.annotations.as_ref().and_then(|all| all.get(CLUSTER_CIDRS)).map_or("", String::as_str);
    let mut cluster: Vec<Range> = all.split(',').filter_map(|text| text.trim().parse().ok()).collect();
    if cluster.is_empty() {
        cluster.clone_from(&node_ranges);
    }
    (!node_ranges.is_empty()).then_some(PodRanges { node: node_ranges, cluster })
}

/// Waits until this node has ranges. Nothing if it is told to stop before.
pub async fn wait(context: &Context, node: &str) -> Option<PodRanges> {
    let nodes = context.informers.select::<Node>(Selection::fields(format!("metadata.name={node}")));
    let (tell, mut told) = watch::channel(nodes.get(&Key::cluster(node)).as_deref().and_then(ranges_of));
    let _registration = nodes.on_change(move |change: &Change<Node>| {
        if let Some(ranges) = ranges_of(change.object()) {
            tell.send_replace(Some(ranges));
        }
    });
    let found = tokio::select! {
        biased;
        () = context.shutdown.fired() => return None,
        found = told.wait_for(Option::is_some) => found.ok()?.clone(),
    };
    found
}
