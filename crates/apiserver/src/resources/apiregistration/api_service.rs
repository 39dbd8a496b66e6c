//! An APIService: who serves a version of a group.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("Service", "", |service, _| match object::at(service, &["spec", "service"]) {
        Some(at) if at.is_object() => {
            format!("{}/{}", object::text(at, &["namespace"]), object::text(at, &["name"])).into()
        }
        _ => "Local".into(),
    }),
    text("Available", "", |service, _| {
        let conditions = object::list(service, &["status", "conditions"]);
        let Some(available) = conditions.iter().find(|c| c["type"] == "Available") else { return "Unknown".into() };
        match (object::text(available, &["status"]), object::text(available, &["reason"])) {
            ("True", _) => "True".into(),
            (status, reason) => format!("{status} ({reason})").into(),
        }
    }),
    AGE,
];

pub struct ApiService;

impl Strategy for ApiService {
    /// What this server serves itself is available as soon as it is named.
    fn prepare_create(&self, service: &mut Value) {
        let status = if object::at(service, &["spec", "service"]).is_some_and(Value::is_object) {
            json!({})
        } else {
            let now = object::text(service, &["metadata", "creationTimestamp"]).to_owned();
            json!({"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local",
                "message": "Local APIServices are always available"}]})
        };
        object::set(service, &["status"], status);
    }

    fn default(&self, service: &mut Value) {
        if let Some(reference) = object::at_mut(service, &["spec", "service"]).and_then(Value::as_object_mut) {
            object::fill(reference, "port", 443);
        }
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::path_segment(name)
    }

    fn validate(&self, service: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let text = |key: &str| object::text(service, &["spec", key]);
        let (group, version, name) = (text("group"), text("version"), object::name(service));
        let expected = format!("{version}.{group}");
        if name != expected && rules::path_segment(name).is_empty() {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
            errors.push(Error::invalid(&Path::new("metadata").child("name"), name, detail));
        }
        if group.is_empty() && version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.push(Error::required(&spec.child("group"), detail));
        }
        if !group.is_empty() {
            check::text(group, &spec.child("group"), rules::dns_subdomain, errors);
        }
        check::text(version, &spec.child("version"), rules::dns_1035_label, errors);
        for (key, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
            let priority = object::integer(service, &["spec", key]).unwrap_or_default();
            if !(1..=most).contains(&priority) {
                let detail = format!("must be positive and less than {most}");
                errors.push(Error::invalid(&spec.child(key), priority, detail));
            }
        }
        how_it_is_trusted(service, &spec, errors);
    }

    fn validate_status(&self, service: &Value, _old: &Value, errors: &mut Errors) {
        let conditions = Path::new("status").child("conditions");
        for (index, condition) in object::list(service, &["status", "conditions"]).iter().enumerate() {
            let status = object::text(condition, &["status"]);
            if !["True", "False", "Unknown"].contains(&status) {
                let here = conditions.index(index).child("status");
                errors.push(Error::not_supported(&here, status, &["False", "True", "Unknown"]));
            }
        }
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

/// A server of its own has a place, and is recognised in one way. What is served here needs neither.
fn how_it_is_trusted(service: &Value, spec: &Path, errors: &mut Errors) {
    let bundle = BASE64_STANDARD.decode(object::text(service, &["spec", "caBundle"])).unwrap_or_default();
    let trusts_anyone = object::flag(service, &["spec", "insecureSkipTLSVerify"]);
    let Some(reference) = object::at(service, &["spec", "service"]).filter(|reference| reference.is_object()) else {
        if !bundle.is_empty() {
            let (shown, detail) = (format!("{} bytes", bundle.len()), "local APIServices may not have a caBundle");
            errors.push(Error::invalid(&spec.child("caBundle"), shown, detail));
        }
        if trusts_anyone {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(Error::invalid(&spec.child("insecureSkipTLSVerify"), true, detail));
        }
        return;
    };
    let here = spec.child("service");
    for key in ["namespace", "name"] {
        if object::text(reference, &[key]).is_empty() {
            errors.push(Error::required(&here.child(key), ""));
        }
    }
    let port = object::integer(reference, &["port"]).unwrap_or_default();
    let problems = rules::port_number(port);
    if !problems.is_empty() {
        let detail = format!("port is not valid: {}", problems.join(", "));
        errors.push(Error::invalid(&here.child("port"), port, detail));
    }
    if trusts_anyone && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(Error::invalid(&spec.child("insecureSkipTLSVerify"), true, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(spec: Value) -> Vec<String> {
        let mut service = json!({"metadata": {"name": "v1.a.example.com"},
            "spec": {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}});
        for (key, value) in spec.as_object().unwrap() {
            service["spec"][key] = value.clone();
        }
        ApiService.default(&mut service);
        let mut errors = Errors::new();
        ApiService.validate(&service, None, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_registration_that_cannot_work_is_refused() {
        let place = json!({"namespace": "a", "name": "b"});
        for (spec, expected) in [
            (json!({"service": place}), &[][..]),
            (json!({}), &[]),
            (
                json!({"group": "b.example.com"}),
                &[
                    r#"metadata.name: Invalid value: "v1.a.example.com": must be `spec.version+"."+spec.group`: "v1.b.example.com""#,
                ],
            ),
            (
                json!({"groupPriorityMinimum": 20001, "versionPriority": 0}),
                &[
                    "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                    "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
                ],
            ),
            (
                json!({"service": place, "caBundle": "YQ==", "insecureSkipTLSVerify": true}),
                &["spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"],
            ),
            (
                json!({"service": {"name": "b", "port": 70000}}),
                &[
                    "spec.service.namespace: Required value",
                    "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                json!({"caBundle": "YQ==", "insecureSkipTLSVerify": true}),
                &[
                    r#"spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle"#,
                    "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
                ],
            ),
        ] {
            assert_eq!(problems(spec), expected);
        }
    }
}
