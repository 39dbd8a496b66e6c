//! What may change in a Pod that runs through its `resize` door: processors and memory of its containers, nothing else.

use crate::resources::check::same;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use pintle_rules::pod::quality;
use serde_json::Value;

const KINDS: [&str; 2] = ["containers", "initContainers"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Leaves of the change what this door is for.
pub fn only(pod: &mut Value, old: &Value) {
    let mut spec = old.get("spec").cloned().unwrap_or_default();
    for kind in KINDS {
        let Some(containers) = spec.get_mut(kind).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let name = object::text(container, &["name"]).to_owned();
            let wanted = object::list(pod, &["spec", kind]).iter().find(|c| object::text(c, &["name"]) == name);
            for field in ["resources", "resizePolicy"] {
                if let Some(value) = wanted.and_then(|wanted| wanted.get(field)) {
                    object::as_map(container).insert(field.to_owned(), value.clone());
                }
            }
        }
    }
    object::set(pod, &["spec"], spec);
}

pub fn check(pod: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    if object::at(old, &["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some() {
        errors.push(Error::forbidden(&path, "static pods cannot be resized"));
        return;
    }
    let of_pod =
        |pod: &Value| object::at(pod, &["spec", "resources"]).and_then(Value::as_object).is_some_and(|r| !r.is_empty());
    if of_pod(old) {
        errors.push(Error::forbidden(&path, "pods with pod-level resources cannot be resized"));
        return;
    }
    let class = quality(pod);
    if class != quality(old) {
        errors.push(Error::invalid(&path, class.name(), "Pod QOS Class may not change as a result of resizing"));
    }
    for kind in KINDS {
        let before = object::list(old, &["spec", kind]);
        for (index, (container, was)) in object::list(pod, &["spec", kind]).iter().zip(before).enumerate() {
            let here = path.child(kind).index(index).child("resources");
            check_container(container, was, &here, errors);
        }
    }
}

fn check_container(container: &Value, was: &Value, path: &Path, errors: &mut Errors) {
    let (new, old) = (container.get("resources"), was.get("resources"));
    if same(new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null)) {
        return;
    }
    for list in ["requests", "limits"] {
        let of = |resources: Option<&Value>| resources.and_then(|r| r.get(list)).and_then(Value::as_object).cloned();
        let (new, old) = (of(new).unwrap_or_default(), of(old).unwrap_or_default());
        for name in old.keys().filter(|name| RESIZABLE.contains(&name.as_str()) && !new.contains_key(*name)) {
            let what = format!("resource {list} cannot be removed");
            errors.push(Error::forbidden(&path.child(list).child(name), what));
        }
        let others = |of: &serde_json::Map<String, Value>| {
            let mut of = of.clone();
            of.retain(|name, _| !RESIZABLE.contains(&name.as_str()));
            Value::Object(of)
        };
        if !same(&others(&new), &others(&old)) {
            errors.push(Error::forbidden(&path.child(list), "only cpu and memory resources are mutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(cpu: &str, more: Value) -> Value {
        let mut pod = json!({"spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}]}});
        for (field, value) in more.as_object().unwrap() {
            pod["spec"]["containers"][0][field] = value.clone();
        }
        pod
    }

    fn problems(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(new, old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn processors_and_memory_change_and_nothing_else_does() {
        let old = pod("1", json!({}));
        let mut new = pod("2", json!({"image": "other", "resizePolicy": [{"resourceName": "cpu"}]}));
        new["spec"]["nodeName"] = "m".into();
        only(&mut new, &old);
        assert_eq!(new, pod("2", json!({"resizePolicy": [{"resourceName": "cpu"}]})));
        assert_eq!(problems(&new, &old), Vec::<String>::new());
    }

    #[test]
    fn a_resize_that_changes_the_kind_of_service_or_takes_a_bound_away_is_refused() {
        let old = pod("1", json!({}));
        let guaranteed =
            json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}});
        assert!(problems(&pod("1", guaranteed), &old)[0].contains("QOS Class may not change"));
        let without = json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
        assert!(problems(&pod("1", without), &old)[0].contains("limits cannot be removed"));
        let lamp = json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi", "e.com/lamp": "1"}}});
        assert!(problems(&pod("1", lamp), &old)[0].contains("only cpu and memory"));
        let mut mirror = old.clone();
        mirror["metadata"] = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
        assert!(problems(&pod("2", json!({})), &mirror)[0].contains("static pods cannot be resized"));
    }
}
