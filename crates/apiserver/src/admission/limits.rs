//! LimitRanger: what containers get that say nothing, and the bounds of what containers, Pods and claims may ask for.

mod bounds;

use super::{Operation, Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Map, Value, json};

/// Where a Pod says what it has got from a limit range.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

pub struct Limits;

impl Plugin for Limits {
    fn concerns(&self, review: &Review<'_>) -> bool {
        // A Pod's resources change through their own subresource alone.
        let resized = review.operation == Operation::Update && review.is_of("", "pods", "resize");
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        let claim = written && review.is_of("", "persistentvolumeclaims", "");
        let going = review.old.is_some_and(object::is_being_deleted);
        (review.is_new("", "pods") || resized || claim) && !going
    }

    fn changes(&self, review: &Review<'_>) -> bool {
        review.resource.name == "pods"
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, pod: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if self.changes(review) {
                limit_ranges(review).await?.iter().for_each(|range| fill_in(range, pod));
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(object) = object else { return Ok(()) };
            for range in limit_ranges(review).await? {
                let broken = bounds::broken(&range, &review.resource.name, object);
                if let Some(why) = joined(broken) {
                    return Err(review.forbidden(object::name(object), &why));
                }
            }
            Ok(())
        })
    }
}

async fn limit_ranges(review: &Review<'_>) -> Result<Vec<Value>, Status> {
    review.list(keys::namespace(keys::LIMIT_RANGES, review.call.namespace())).await
}

/// Several errors as one.
fn joined(mut errors: Vec<String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}

/// Gives each container the defaults that it lacks, and notes which.
fn fill_in(range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for rule in object::list(range, &["spec", "limits"]).iter().filter(|limit| limit["type"] == "Container") {
        for (from, into) in [("defaultRequest", &mut requests), ("default", &mut limits)] {
            let defaults = rule.get(from).and_then(Value::as_object).into_iter().flatten();
            into.extend(defaults.map(|(name, amount)| (name.clone(), amount.clone())));
        }
    }
    let mut notes = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = object::at_mut(pod, &["spec", list]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = object::text(container, &["name"]).to_owned();
            let resources = object::map_at(container, "resources");
            for (side, singular, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let set = fill_side(resources, side, defaults);
                if !set.is_empty() {
                    notes.push(format!("{} {singular} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        object::set(pod, &["metadata", "annotations", ANNOTATION], note);
    }
}

/// Answers with what was missing, in order.
fn fill_side(resources: &mut Map<String, Value>, side: &str, defaults: &Map<String, Value>) -> Vec<String> {
    if defaults.is_empty() {
        return Vec::new();
    }
    let amounts = object::as_map(resources.entry(side).or_insert_with(|| json!({})));
    let mut missing: Vec<String> = defaults.keys().filter(|name| !amounts.contains_key(*name)).cloned().collect();
    missing.sort();
    amounts.extend(missing.iter().map(|name| (name.clone(), defaults[name].clone())));
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_gets_what_it_lacks_and_the_pod_says_so() {
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"},
            "defaultRequest": {"cpu": "200m", "memory": "1Mi"}}]}});
        let mut pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "i"}]}});
        fill_in(&range, &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "500m"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: memory request for container c; cpu limit for container c; cpu, memory request for init container i; cpu limit for init container i"
        );
    }
}
