//! The name of a priority class becomes its number.

use super::{Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

pub struct Priority;

impl Plugin for Priority {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("", "pods")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, pod: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(rank(review, pod))
    }
}

async fn rank(review: &Review<'_>, pod: &mut Value) -> Result<(), Status> {
    let name = object::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if name.is_empty() {
        let classes = review.list(keys::PRIORITY_CLASSES).await?.into_iter();
        classes.filter(|c| object::flag(c, &["globalDefault"])).min_by_key(|c| object::integer(c, &["value"]))
    } else {
        let found = review.read(&keys::named(keys::PRIORITY_CLASSES, &name)).await?;
        if found.is_none() {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(review.forbidden(object::name(pod), &why));
        }
        found
    };
    let value = class.as_ref().and_then(|c| object::integer(c, &["value"])).unwrap_or(0);
    let policy = class.as_ref().map(|c| object::text(c, &["preemptionPolicy"])).filter(|p| !p.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    if let Some(asked) = object::integer(pod, &["spec", "priority"]).filter(|asked| *asked != value) {
        let why = format!(
            "the integer value of priority ({asked}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(review.forbidden(object::name(pod), &why));
    }
    let spec = object::map_at(pod, "spec");
    if let Some(class) = class.filter(|_| name.is_empty()) {
        spec.insert("priorityClassName".into(), object::name(&class).into());
    }
    spec.insert("priority".into(), value.into());
    object::fill(spec, "preemptionPolicy", policy);
    Ok(())
}
