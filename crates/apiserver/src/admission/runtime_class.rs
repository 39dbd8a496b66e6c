//! What a new Pod gets from its RuntimeClass: what running it costs beside its containers, and where it can run.

use super::{Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Map, Value};

pub struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("", "pods")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, pod: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(admit(review, pod))
    }
}

async fn admit(review: &Review<'_>, pod: &mut Value) -> Result<(), Status> {
    let class = match object::text(pod, &["spec", "runtimeClassName"]) {
        "" => None,
        name => {
            let found = review.read(&keys::named(keys::RUNTIME_CLASSES, name)).await?;
            let why = format!("pod rejected: RuntimeClass {name:?} not found");
            Some(found.ok_or_else(|| review.forbidden(object::name(pod), &why))?)
        }
    };
    applied(class.as_ref(), pod).map_err(|why| review.forbidden(object::name(pod), &why))
}

fn applied(class: Option<&Value>, pod: &mut Value) -> Result<(), String> {
    let map_of = |value: &Value, path: &[&str]| object::at(value, path).and_then(Value::as_object).cloned();
    let costs = class.and_then(|class| map_of(class, &["overhead", "podFixed"]));
    let own = map_of(pod, &["spec", "overhead"]);
    match (costs, own) {
        (None, Some(_)) => {
            return Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned());
        }
        (Some(costs), Some(own)) if !own.is_empty() && own != costs => {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        (Some(costs), _) => {
            object::map_at(pod, "spec").insert("overhead".to_owned(), Value::Object(costs));
        }
        (None, None) => {}
    }
    let Some(place) = class.and_then(|class| map_of(class, &["scheduling"])) else { return Ok(()) };
    if let Some(selector) = place.get("nodeSelector").and_then(Value::as_object) {
        select(selector, object::as_map(object::map_at(pod, "spec").entry("nodeSelector").or_insert(Value::Null)))?;
    }
    let more = place.get("tolerations").and_then(Value::as_array);
    for toleration in more.into_iter().flatten() {
        let tolerations = object::map_at(pod, "spec").entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(tolerations) = tolerations.as_array_mut()
            && !tolerations.iter().any(|wider| covers(wider, toleration))
        {
            tolerations.retain(|narrower| !covers(toleration, narrower));
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

fn select(from_class: &Map<String, Value>, own: &mut Map<String, Value>) -> Result<(), String> {
    for (key, value) in from_class {
        if let Some(other) = own.get(key).filter(|other| *other != value) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(other)
            ));
        }
        own.insert(key.clone(), value.clone());
    }
    Ok(())
}

/// Whether everything that the narrower one tolerates is tolerated by the wider one, for at least as long.
fn covers(wider: &Value, narrower: &Value) -> bool {
    let text = |of: &Value, field: &str| object::text(of, &[field]).to_owned();
    let exists = |of: &Value| text(of, "operator") == "Exists";
    let any_key = text(wider, "key").is_empty() && exists(wider);
    let effect = text(wider, "effect");
    let seconds = |of: &Value| object::integer(of, &["tolerationSeconds"]);
    let lasts = match (seconds(wider), seconds(narrower)) {
        (None, _) => true,
        (Some(wider), Some(narrower)) => narrower <= wider,
        (Some(_), None) => false,
    };
    (any_key || text(wider, "key") == text(narrower, "key"))
        && (effect.is_empty() || effect == text(narrower, "effect"))
        && (exists(wider) || !exists(narrower) && text(wider, "value") == text(narrower, "value"))
        && lasts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_pays_for_its_runtime_and_goes_where_it_is() {
        let class = json!({"handler": "kata", "overhead": {"podFixed": {"memory": "120Mi"}}, "scheduling": {
            "nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}});
        let mut pod = json!({"spec": {"nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "kata", "operator": "Equal", "value": "x", "effect": "NoSchedule"}]}});
        applied(Some(&class), &mut pod).unwrap();
        assert_eq!(
            pod["spec"],
            json!({"overhead": {"memory": "120Mi"}, "nodeSelector": {"disk": "ssd", "kata": "yes"},
                   "tolerations": [{"key": "kata", "operator": "Exists"}]})
        );
    }

    #[test]
    fn a_pod_that_contradicts_its_class_is_refused() {
        let class = json!({"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"a": "b"}}});
        let refused = |class: Option<&Value>, spec: Value| applied(class, &mut json!({"spec": spec})).unwrap_err();
        assert!(refused(Some(&class), json!({"overhead": {"cpu": "2"}})).contains("doesn't match"));
        assert!(refused(None, json!({"overhead": {"cpu": "2"}})).contains("without corresponding"));
        let other = refused(Some(&class), json!({"nodeSelector": {"a": "c"}}));
        assert_eq!(other, "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c");
    }

    #[test]
    fn a_toleration_that_ends_does_not_stand_in_for_one_that_lasts() {
        let lasting = json!({"key": "k", "operator": "Exists", "effect": "NoExecute"});
        let ending = json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        assert!(covers(&lasting, &ending) && !covers(&ending, &lasting));
        assert!(covers(&json!({"operator": "Exists"}), &lasting));
    }
}
