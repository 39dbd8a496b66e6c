//! Defaults of the namespace's limit ranges for containers that say nothing.

use super::{Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Value, json};

pub struct Limits;

impl Plugin for Limits {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("", "pods")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, pod: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(limit(review, pod))
    }
}

async fn limit(review: &Review<'_>, pod: &mut Value) -> Result<(), Status> {
    for limit_range in review.list(keys::namespace(keys::LIMIT_RANGES, review.call.namespace())).await? {
        let rules = object::list(&limit_range, &["spec", "limits"]).iter().filter(|l| l["type"] == "Container");
        for rule in rules {
            for (from, to) in [("defaultRequest", "requests"), ("default", "limits")] {
                for (resource, amount) in rule.get(from).and_then(Value::as_object).into_iter().flatten() {
                    for kind in ["initContainers", "containers"] {
                        let containers = object::at_mut(pod, &["spec", kind]).and_then(Value::as_array_mut);
                        for container in containers.into_iter().flatten() {
                            let resources = object::map_at(container, "resources");
                            let slot = object::as_map(resources.entry(to).or_insert_with(|| json!({})));
                            object::fill(slot, resource, amount.clone());
                        }
                    }
                }
            }
        }
    }
    Ok(())
}
