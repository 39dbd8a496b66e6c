//! A new node takes no Pods until it has said that it is ready.

use super::{Plugin, Review};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Value, json};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub struct NodeTaint;

impl Plugin for NodeTaint {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("", "nodes")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, _: &'a Review<'a>, node: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        taint(node);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn taint(node: &mut Value) {
    let is_it = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    if object::list(node, &["spec", "taints"]).iter().any(is_it) {
        return;
    }
    let taints = object::map_at(node, "spec").entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut() {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}
