//! Defaults of Pods that depend on other fields: which image is pulled, what is requested, which ports are the host's.

use pintle_meta::object;
use serde_json::{Map, Value, json};

/// A container, of any sort.
pub fn container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    object::fill(container, "imagePullPolicy", policy);
}

/// A volume with no source is an empty directory.
pub fn volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = if is_latest(reference) { "Always" } else { "IfNotPresent" };
        object::fill(image, "pullPolicy", policy);
    }
}

/// An image without a tag and without a digest is the latest.
fn is_latest(image: &str) -> bool {
    if image.is_empty() || image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// What only Pods get, and templates do not.
pub fn pod(pod: &mut Value) {
    let host_network = object::flag(pod, &["spec", "hostNetwork"]);
    for kind in ["containers", "initContainers"] {
        let containers = object::at_mut(pod, &["spec", kind]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            request_what_is_limited(container);
            if host_network {
                host_ports(container);
            }
        }
    }
    let spec = object::map_at(pod, "spec");
    object::fill(spec, "enableServiceLinks", true);
    // The two names of one field say the same.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(name) = spec.get(from).cloned() {
            object::fill(spec, to, name);
        }
    }
}

/// A limit without a request is the request too.
fn request_what_is_limited(container: &mut Value) {
    let Some(Value::Object(limits)) = object::at(container, &["resources", "limits"]).cloned() else { return };
    let resources = object::map_at(container, "resources");
    let requests = object::as_map(resources.entry("requests").or_insert_with(|| json!({})));
    for (name, amount) in limits {
        object::fill(requests, &name, amount);
    }
}

/// On the host's network a container's port is the host's.
fn host_ports(container: &mut Value) {
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port["containerPort"].clone();
        object::fill(object::as_map(port), "hostPort", number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_pulled_anew_each_time() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1", false),
            ("registry:5000/nginx", true),
            ("registry:5000/nginx:1", false),
            ("nginx@sha256:0123", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }
}
