//! What a Pod may ask for: its containers, what they are called, what they mount, need and are probed with.

use super::{scheduling, security, volumes};
use crate::registry::validate_labels;
use crate::resources::check;
use crate::resources::rules::items;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::quantity::Quantity;
use pintle_meta::{object, rules};
use serde_json::Value;
use std::collections::BTreeSet;

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const ONE_HANDLER: &str = "may not specify more than 1 handler type";
const NO_PROBE: &str = "may not be set for init containers without restartPolicy=Always";

/// The labels of a template are those of the Pods made from it.
pub fn template(template: &Value, path: &Path, errors: &mut Errors) {
    let labels = object::at(template, &["metadata", "labels"]);
    validate_labels(labels, &path.child("metadata").child("labels"), errors);
}

pub fn spec(spec: &Value, path: &Path, errors: &mut Errors) {
    let volume_names = volumes::check(spec, path, errors);
    let mut names = BTreeSet::new();
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for (here, container) in items(spec, path, kind) {
            let name = object::text(container, &["name"]);
            if !name.is_empty() && !names.insert(name) {
                errors.push(Error::duplicate(&here.child("name"), name));
            }
            check_container(container, &here, &volume_names, errors);
            let restarts = object::text(container, &["restartPolicy"]) == "Always";
            if kind == "initContainers" && !restarts {
                for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                    if container.get(key).is_some_and(|v| !v.is_null()) {
                        errors.push(Error::forbidden(&here.child(key), NO_PROBE));
                    }
                }
            } else {
                check_probes(container, &here, errors);
            }
        }
    }
    validate_labels(spec.get("nodeSelector"), &path.child("nodeSelector"), errors);
    scheduling::check(spec, path, errors);
    check_host_network(spec, path, errors);
    security::check(spec, path, errors);
    if object::text(spec, &["dnsPolicy"]) == "None" && object::list(spec, &["dnsConfig", "nameservers"]).is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(Error::required(&path.child("dnsConfig").child("nameservers"), detail));
    }
}

fn check_container(container: &Value, path: &Path, volume_names: &BTreeSet<&str>, errors: &mut Errors) {
    let image = object::text(container, &["image"]);
    if image != image.trim() {
        errors.push(Error::invalid(&path.child("image"), image, "must not have leading or trailing whitespace"));
    }
    let mut port_names = BTreeSet::new();
    for (here, port) in items(container, path, "ports") {
        let name = object::text(port, &["name"]);
        if !name.is_empty() && !port_names.insert(name) {
            errors.push(Error::duplicate(&here.child("name"), name));
        }
    }
    for (here, variable) in items(container, path, "env") {
        check_variable(variable, &here, errors);
    }
    let mut mount_paths = BTreeSet::new();
    for (here, mount) in items(container, path, "volumeMounts") {
        let (name, at) = (object::text(mount, &["name"]), object::text(mount, &["mountPath"]));
        if !name.is_empty() && !volume_names.contains(name) {
            errors.push(Error::not_found(&here.child("name"), name));
        }
        if !at.is_empty() && !mount_paths.insert(at) {
            errors.push(Error::invalid(&here.child("mountPath"), at, "must be unique"));
        }
        volumes::check_sub_path(mount, &here, errors);
    }
    if let Some(resources) = container.get("resources") {
        check_resources(resources, &path.child("resources"), errors);
    }
    if object::flag(container, &["securityContext", "privileged"])
        && object::at(container, &["securityContext", "allowPrivilegeEscalation"]) == Some(&Value::Bool(false))
    {
        errors.push(Error::invalid(
            &path.child("securityContext"),
            container["securityContext"].clone(),
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ));
    }
}

fn check_variable(variable: &Value, path: &Path, errors: &mut Errors) {
    let name = object::text(variable, &["name"]);
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    } else {
        check::text(name, &path.child("name"), rules::env_name, errors);
    }
    let Some(source) = variable.get("valueFrom").and_then(Value::as_object) else { return };
    let here = path.child("valueFrom");
    match source.values().filter(|v| !v.is_null()).count() {
        0 => errors.push(Error::invalid(
            &here,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        )),
        1 if !object::text(variable, &["value"]).is_empty() => {
            errors.push(Error::invalid(&here, "", "may not be specified when `value` is not empty"));
        }
        1 => {}
        _ => errors.push(Error::invalid(&here, "", "may not have more than one field specified at a time")),
    }
    let field = object::text(variable, &["valueFrom", "fieldRef", "fieldPath"]);
    let subscripted = field.starts_with("metadata.labels['") || field.starts_with("metadata.annotations['");
    if !field.is_empty() && !subscripted && !VARIABLE_FIELDS.contains(&field) {
        errors.push(Error::not_supported(&here.child("fieldRef").child("fieldPath"), field, &VARIABLE_FIELDS));
    }
}

/// The fields of a Pod that its environment may show.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub fn check_resources(resources: &Value, path: &Path, errors: &mut Errors) {
    for of in ["limits", "requests"] {
        for (name, amount) in resources.get(of).and_then(Value::as_object).into_iter().flatten() {
            let here = path.child(of).key(name);
            check::text(name, &here, rules::qualified_name, errors);
            if !name.contains('/') && !is_standard_resource(name) {
                errors.push(Error::invalid(&here, name.as_str(), "must be a standard resource for containers"));
            }
            check::amount(amount, &here, errors);
        }
    }
    let amount = |of: &str, name: &str| Quantity::parse(object::text(resources, &[of, name])).ok();
    for (name, shown) in resources.get("requests").and_then(Value::as_object).into_iter().flatten() {
        let (Some(request), limit) = (amount("requests", name), amount("limits", name)) else { continue };
        let extended = name.contains('/') || name.starts_with("hugepages-");
        match limit {
            Some(limit) if extended && request != limit => errors.push(Error::invalid(
                &path.child("requests"),
                shown.clone(),
                format!("must be equal to {name} limit of {limit}"),
            )),
            Some(limit) if request > limit => errors.push(Error::invalid(
                &path.child("requests"),
                shown.clone(),
                format!("must be less than or equal to {name} limit of {limit}"),
            )),
            None if extended => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(Error::required(&path.child("limits"), detail));
            }
            _ => {}
        }
    }
}

fn is_standard_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn check_probes(container: &Value, path: &Path, errors: &mut Errors) {
    for kind in PROBES {
        let Some(probe) = container.get(kind).filter(|p| p.is_object()) else { continue };
        let here = path.child(kind);
        check_handler(probe, &here, errors);
        let threshold = object::integer(probe, &["successThreshold"]).unwrap_or(1);
        if kind != "readinessProbe" && threshold != 1 {
            errors.push(Error::invalid(&here.child("successThreshold"), threshold, "must be 1"));
        }
        if kind == "readinessProbe"
            && let Some(seconds) = object::integer(probe, &["terminationGracePeriodSeconds"])
        {
            let field = here.child("terminationGracePeriodSeconds");
            errors.push(Error::invalid(&field, seconds, "must not be set for readinessProbes"));
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = object::at(container, &["lifecycle", hook]).filter(|h| h.is_object()) {
            check_handler(handler, &path.child("lifecycle").child(hook), errors);
        }
    }
}

fn check_handler(handler: &Value, path: &Path, errors: &mut Errors) {
    let mut given = HANDLERS.iter().filter(|kind| handler.get(**kind).is_some_and(|h| !h.is_null()));
    if given.next().is_none() {
        errors.push(Error::required(path, "must specify a handler type"));
    }
    errors.extend(given.map(|kind| Error::forbidden(&path.child(kind), ONE_HANDLER)));
    for kind in ["httpGet", "tcpSocket"] {
        let here = path.child(kind).child("port");
        match object::at(handler, &[kind, "port"]) {
            Some(Value::Number(port)) => {
                let port = port.as_i64().unwrap_or_default();
                errors.extend(rules::port_number(port).into_iter().map(|p| Error::invalid(&here, port, p)));
            }
            Some(Value::String(name)) => check::text(name, &here, rules::port_name, errors),
            _ => {}
        }
    }
}

/// On the host's network every port is the host's.
fn check_host_network(spec: &Value, path: &Path, errors: &mut Errors) {
    if !object::flag(spec, &["hostNetwork"]) {
        return;
    }
    for (here, container) in items(spec, path, "containers") {
        for (here, port) in items(container, &here, "ports") {
            let (inside, outside) = (object::integer(port, &["containerPort"]), object::integer(port, &["hostPort"]));
            if let Some(inside) = inside.filter(|_| outside.is_some_and(|o| Some(o) != inside)) {
                let detail = "must match `hostPort` when `hostNetwork` is true";
                errors.push(Error::invalid(&here.child("containerPort"), inside, detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors_of(container: Value) -> Vec<String> {
        let mut errors = Errors::new();
        let pod = json!({"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]});
        spec(&pod, &Path::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_that_cannot_run_is_refused_when_it_is_made() {
        for (container, error) in [
            (
                json!({"name": "a", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ),
            (
                json!({"name": "a", "volumeMounts": [{"name": "none", "mountPath": "/a"}]}),
                "spec.containers[0].volumeMounts[0].name: Not found: \"none\"",
            ),
            (
                json!({"name": "a", "livenessProbe": {}}),
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
            ),
            (json!({"name": "a", "env": [{"name": ""}]}), "spec.containers[0].env[0].name: Required value"),
            (
                json!({"name": "a", "livenessProbe": {"tcpSocket": {"port": 0}}}),
                "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
        ] {
            assert_eq!(errors_of(container), [error]);
        }
        let fine = json!({"name": "a", "volumeMounts": [{"name": "data", "mountPath": "/a"}], "env": [{"name": "A"}]});
        assert!(errors_of(fine).is_empty());
    }
}
