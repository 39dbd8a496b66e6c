//! A Pod that gets a node gets the labels that say in which zone and region it runs.

use super::{Operation, Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

pub struct TopologyLabels;

impl Plugin for TopologyLabels {
    fn concerns(&self, review: &Review<'_>) -> bool {
        let bound = review.operation == Operation::Create && review.is_of("", "pods", "binding");
        review.is_new("", "pods") || bound
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    /// What a Binding has for labels, the Pod gets.
    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let node = match review.call.path.subresource.as_str() {
                "binding" if object::text(object, &["target", "kind"]) == "Node" => {
                    object::text(object, &["target", "name"])
                }
                "binding" => "",
                _ => object::text(object, &["spec", "nodeName"]),
            };
            if node.is_empty() {
                return Ok(());
            }
            let Some(node) = review.read(&keys::named(keys::NODES, node)).await? else { return Ok(()) };
            for label in LABELS {
                if let Some(value) = object::at(&node, &["metadata", "labels", label]) {
                    object::set(object, &["metadata", "labels", label], value.clone());
                }
            }
            Ok(())
        })
    }
}
