//! A ReplicationController: so many Pods of one template, as it was before ReplicaSets.

use crate::registry::validate_labels;
use crate::resources::check;
use crate::resources::print::{AGE, CONTAINERS, IMAGES, NAME, count, integer, labels, wide};
use crate::strategy::{Dependents, Printed, ScalePaths, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    integer("Desired", "core.v1.ReplicationControllerSpec.replicas", |rc, _| count(rc, &["spec", "replicas"])),
    integer("Current", "core.v1.ReplicationControllerStatus.replicas", |rc, _| count(rc, &["status", "replicas"])),
    integer("Ready", "core.v1.ReplicationControllerStatus.readyReplicas", |rc, _| {
        count(rc, &["status", "readyReplicas"])
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", "core.v1.ReplicationControllerSpec.selector", |rc, _| {
        labels(object::at(rc, &["spec", "selector"])).into()
    }),
];

const COUNTS: [&str; 4] = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

pub struct ReplicationController;

impl Strategy for ReplicationController {
    /// One that says little selects what its template is labelled with, and is labelled so itself.
    fn default(&self, controller: &mut Value) {
        let Some(labels) = object::at(controller, &["spec", "template", "metadata", "labels"]).cloned() else { return };
        let empty = |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
        if empty(object::at(controller, &["spec", "selector"])) {
            object::set(controller, &["spec", "selector"], labels.clone());
        }
        if empty(object::at(controller, &["metadata", "labels"])) {
            object::set(controller, &["metadata", "labels"], labels);
        }
    }

    /// As it was before there was a garbage collector.
    fn dependents(&self) -> Dependents {
        Dependents::Orphan
    }

    fn prepare_create(&self, controller: &mut Value) {
        object::set(controller, &["status"], json!({"replicas": 0}));
    }

    fn validate(&self, controller: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let selector = object::at(controller, &["spec", "selector"]).and_then(Value::as_object);
        validate_labels(object::at(controller, &["spec", "selector"]), &spec.child("selector"), errors);
        let Some(selector) = selector.filter(|s| !s.is_empty()) else {
            errors.push(Error::required(&spec.child("selector"), ""));
            return;
        };
        if object::at(controller, &["spec", "template"]).is_none() {
            errors.push(Error::required(&spec.child("template"), ""));
            return;
        }
        let labels = object::at(controller, &["spec", "template", "metadata", "labels"]);
        if !selector.iter().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value)) {
            errors.push(Error::invalid(
                &spec.child("template").child("metadata").child("labels"),
                labels.cloned().unwrap_or_else(|| json!({})),
                "`selector` does not match template `labels`",
            ));
        }
        check::always_restarts(controller, "ReplicationController", errors);
    }

    fn validate_status(&self, controller: &Value, old: &Value, errors: &mut Errors) {
        check::counts(controller, old, &COUNTS, errors);
        check::parts_of_replicas(controller, &COUNTS[1..], errors);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn scale(&self) -> Option<ScalePaths> {
        Some(ScalePaths {
            replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        })
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
