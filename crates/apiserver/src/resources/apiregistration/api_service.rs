//! An APIService: who serves a version of a group.

use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
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

    fn validate(&self, service: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let text = |key: &str| object::text(service, &["spec", key]);
        let expected = format!("{}.{}", text("version"), text("group"));
        if object::name(service) != expected {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
            errors.push(Error::invalid(&Path::new("metadata").child("name"), object::name(service), detail));
        }
        if text("version").is_empty() {
            errors.push(Error::required(&Path::new("spec").child("version"), ""));
        }
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
