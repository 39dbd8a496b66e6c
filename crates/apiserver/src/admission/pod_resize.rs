//! A Pod that runs is resized only to what its node has at all.

use super::{Operation, Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::quantity::Quantity;
use pintle_meta::{Status, object};
use pintle_rules::Amounts;
use pintle_rules::pod::{self, Look};
use pintle_rules::resources::{CPU, MEMORY};
use serde_json::{Value, json};

pub struct PodResize;

impl Plugin for PodResize {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Update && review.is_of("", "pods", "resize")
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, pod: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let (Some(pod), Some(old)) = (pod, review.old) else { return Ok(()) };
            let name = object::text(pod, &["spec", "nodeName"]);
            let generation = |pod| object::integer(pod, &["metadata", "generation"]);
            if name.is_empty() || generation(pod) == generation(old) {
                return Ok(());
            }
            let Some(node) = review.read(&keys::named(keys::NODES, name)).await? else {
                return Err(review.forbidden(object::name(pod), &format!("node {name:?} not found")));
            };
            let Some((cause, why)) = obstacle(pod, &node) else { return Ok(()) };
            let mut status = review.forbidden(object::name(pod), &why);
            if let Some(details) = &mut status.details {
                details["causes"] = json!([{"reason": cause}]);
            }
            Err(status)
        })
    }
}

/// Why the node could never do it: the cause, and the sentence.
fn obstacle(pod: &Value, node: &Value) -> Option<(&'static str, String)> {
    let system = object::text(node, &["metadata", "labels", "kubernetes.io/os"]);
    if !system.is_empty() && system != "linux" {
        let name = object::name(node);
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Some(("UnsupportedPlatform", why));
    }
    let requests = pod::requests(pod, Look::Spec);
    let allocatable = Amounts::of(object::at(node, &["status", "allocatable"]));
    let zero = Quantity::from_units(0);
    let too_much = |resource: &str, number: fn(&Quantity) -> i64| {
        let amounts = [&requests, &allocatable].map(|amounts| amounts.get(resource).unwrap_or(zero));
        let sentence = format!("{resource}, requested: {}, allocatable: {}", number(&amounts[0]), number(&amounts[1]));
        (amounts[0] > amounts[1]).then_some(sentence)
    };
    let found: Vec<String> =
        [too_much(CPU, Quantity::milli), too_much(MEMORY, Quantity::units)].into_iter().flatten().collect();
    let why = format!("node didn't have enough allocatable resources: {}", found.join("; "));
    (!found.is_empty()).then_some(("NodeCapacity", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_does_not_outgrow_its_node() {
        let node = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}});
        let pod = |cpu: &str| json!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}});
        assert_eq!(obstacle(&pod("2"), &node), None);
        assert_eq!(
            obstacle(&pod("2500m"), &node),
            Some((
                "NodeCapacity",
                "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000".to_owned()
            ))
        );
        let windows = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/os": "windows"}}});
        assert_eq!(obstacle(&pod("1"), &windows).unwrap().0, "UnsupportedPlatform");
    }
}
