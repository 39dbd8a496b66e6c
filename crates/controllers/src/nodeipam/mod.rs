//! The nodeipam loop: every node gets a part of the addresses of Pods.
//!
//! Watches Nodes. What it gives stands in `spec.podCIDRs`; beside it the node is told the addresses of all Pods, so that it can
//! tell them from the rest of the world.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use pintle_meta::Range;
use pintle_runtime::{Change, Context, Controller, Executor, Key};

/// All nodes are looked at together.
const NODES: &str = "nodes";

/// Runs until the context's shutdown fires. There is one key.
pub(crate) async fn run(context: Context, cluster: Vec<Range>) {
    if cluster.is_empty() {
        return context.shutdown.fired().await;
    }
    let nodes = context.informers.of::<Node>();
    let matters = |change: &Change<Node>| match change {
        Change::Updated { old, new } => plan::ranges(old) != plan::ranges(new) || plan::wants(new),
        Change::Added(_) | Change::Deleted(_) => true,
        Change::Resync(_) => false,
    };
    let executor = Executor::new(&context, "node-ipam-controller");
    Controller::new("node-ipam", &context)
        .workers(1)
        .watch(&nodes, move |change| if matters(change) { vec![Key::cluster(NODES)] } else { Vec::new() })
        .run_plans(executor, move |_| plan::plan(nodes.all().iter().map(Arc::as_ref), &cluster))
        .await;
}
