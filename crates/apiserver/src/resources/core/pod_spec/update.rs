//! What may change in a Pod that exists: its images, its deadline, and a little of where it may run.

use crate::resources::check::same;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Map, Value};

const OTHER_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Through which door the Pod is changed decides what may change.
pub fn check(pod: &Value, old: &Value, subresource: &str, errors: &mut Errors) {
    let (Some(spec), Some(was)) = (pod.get("spec"), old.get("spec")) else { return };
    let path = Path::new("spec");
    for kind in ["containers", "initContainers"] {
        if object::list(spec, &[kind]).len() != object::list(was, &[kind]).len() {
            errors.push(Error::forbidden(&path.child(kind), "pod updates may not add or remove containers"));
            return;
        }
    }
    check_deadline(spec, was, &path, errors);
    check_tolerations(spec, was, &path, errors);
    check_gates(spec, was, &path, errors);
    let allowed = alike(spec, was, subresource);
    if !same(&allowed, was) {
        let detail = format!("{OTHER_FIELDS}\n{}", differences(was, &allowed));
        errors.push(Error::forbidden(&path, detail));
    }
}

/// A deadline may be set or shortened.
fn check_deadline(spec: &Value, was: &Value, path: &Path, errors: &mut Errors) {
    let here = path.child("activeDeadlineSeconds");
    match (object::integer(spec, &["activeDeadlineSeconds"]), object::integer(was, &["activeDeadlineSeconds"])) {
        (Some(now), Some(before)) if now > before => {
            errors.push(Error::invalid(&here, now, "must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            errors.push(Error::invalid(&here, Value::Null, "must not update from a positive integer to nil value"));
        }
        _ => {}
    }
}

fn check_tolerations(spec: &Value, was: &Value, path: &Path, errors: &mut Errors) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object::remove(&mut toleration, &["tolerationSeconds"]);
        toleration
    };
    let now: Vec<Value> = object::list(spec, &["tolerations"]).iter().map(without_time).collect();
    let kept = object::list(was, &["tolerations"]).iter().all(|t| now.iter().any(|n| same(n, &without_time(t))));
    if !kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(&path.child("tolerations"), detail));
    }
}

/// Gates only open.
fn check_gates(spec: &Value, was: &Value, path: &Path, errors: &mut Errors) {
    let had: Vec<&str> = object::list(was, &["schedulingGates"]).iter().map(|g| object::text(g, &["name"])).collect();
    for (i, gate) in object::list(spec, &["schedulingGates"]).iter().enumerate() {
        let name = object::text(gate, &["name"]);
        if !had.contains(&name) {
            let here = path.child("schedulingGates").index(i);
            errors.push(Error::forbidden(
                &here,
                "only deletion is allowed, but found new scheduling gate '".to_owned() + name + "'",
            ));
        }
    }
}

/// The new spec with everything that may change put back.
fn alike(spec: &Value, was: &Value, subresource: &str) -> Value {
    let mut spec = spec.clone();
    for kind in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(kind).and_then(Value::as_array_mut) else { continue };
        for (container, was) in containers.iter_mut().zip(object::list(was, &[kind])) {
            put_back(container, was, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put_back(&mut spec, was, key);
    }
    if subresource == "ephemeralcontainers" {
        put_back(&mut spec, was, "ephemeralContainers");
    }
    // A node is assigned once, by the scheduler.
    if subresource == "binding" {
        put_back(&mut spec, was, "nodeName");
    }
    let before = object::integer(was, &["terminationGracePeriodSeconds"]);
    if before.is_some_and(|b| b < 0) && object::integer(&spec, &["terminationGracePeriodSeconds"]) == Some(1) {
        put_back(&mut spec, was, "terminationGracePeriodSeconds");
    }
    // A Pod that waits at a gate has no node yet: its wishes may still become narrower.
    if !object::list(was, &["schedulingGates"]).is_empty() {
        put_back(&mut spec, was, "nodeSelector");
        put_back(&mut spec, was, "affinity");
    }
    spec
}

fn put_back(spec: &mut Value, was: &Value, key: &str) {
    match was.get(key) {
        Some(value) => drop(object::as_map(spec).insert(key.to_owned(), value.clone())),
        None => drop(object::as_map(spec).remove(key)),
    }
}

/// Which members differ: `-  name: old` and `+  name: new`.
fn differences(was: &Value, now: &Value) -> String {
    let empty = Map::new();
    let (was, now) = (was.as_object().unwrap_or(&empty), now.as_object().unwrap_or(&empty));
    let mut keys: Vec<&String> = was.keys().chain(now.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut lines = String::new();
    for key in keys {
        let (before, after) = (was.get(key).unwrap_or(&Value::Null), now.get(key).unwrap_or(&Value::Null));
        if !same(before, after) {
            lines.push_str(&format!("- {key}: {before}\n+ {key}: {after}\n"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_running_pod_changes_its_image_and_not_its_ports() {
        let pod = |image: &str, port: i64| json!({"spec": {"containers": [{"name": "a", "image": image, "ports": [{"containerPort": port}]}]}});
        let errors = |new: &Value| {
            let mut errors = Errors::new();
            check(new, &pod("a:1", 80), "", &mut errors);
            errors.len()
        };
        assert_eq!(errors(&pod("a:2", 80)), 0);
        assert_eq!(errors(&pod("a:1", 81)), 1);
    }

    #[test]
    fn tolerations_are_added_and_not_taken_away() {
        let pod = |keys: &[&str]| json!({"spec": {"tolerations": keys.iter().map(|k| json!({"key": k})).collect::<Vec<_>>()}});
        for (now, fine) in [(&["a", "b"][..], true), (&["b"], false), (&["a"], true)] {
            let mut errors = Errors::new();
            check(&pod(now), &pod(&["a"]), "", &mut errors);
            assert_eq!(errors.is_empty(), fine, "{now:?}");
        }
    }
}
