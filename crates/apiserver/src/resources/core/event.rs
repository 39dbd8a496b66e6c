//! An event: lives an hour, and may be lost in a crash without harm.

use crate::strategy::Strategy;
use pintle_meta::rules;
use serde_json::Value;

const SECONDS_TO_LIVE: i64 = 3600;

pub struct Event;

impl Strategy for Event {
    fn name_problems(&self, _name: &str) -> rules::Problems {
        rules::Problems::new()
    }

    fn time_to_live(&self, _event: &Value) -> Option<i64> {
        Some(SECONDS_TO_LIVE)
    }

    fn is_ephemeral(&self) -> bool {
        true
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn selectable_field(&self, event: &Value, field: &str) -> String {
        let text = |path: &[&str]| pintle_meta::object::text(event, path).to_owned();
        match field {
            "source" => match text(&["source", "component"]) {
                component if component.is_empty() => text(&["reportingComponent"]),
                component => component,
            },
            other => text(&other.split('.').collect::<Vec<_>>()),
        }
    }
}
