//! A ReplicaSet: so many Pods of one template.

use super::scale_paths;
use crate::resources::check;
use crate::resources::print::{AGE, CONTAINERS, IMAGES, NAME, count, integer, selector, wide};
use crate::strategy::{Printed, ScalePaths, Strategy};
use pintle_meta::field::Errors;
use pintle_meta::object;
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    integer("Desired", "apps.v1.ReplicaSetSpec.replicas", |set, _| count(set, &["spec", "replicas"])),
    integer("Current", "apps.v1.ReplicaSetStatus.replicas", |set, _| count(set, &["status", "replicas"])),
    integer("Ready", "apps.v1.ReplicaSetStatus.readyReplicas", |set, _| count(set, &["status", "readyReplicas"])),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", "apps.v1.ReplicaSetSpec.selector", |set, _| selector(object::at(set, &["spec", "selector"]))),
];

const COUNTS: [&str; 4] = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

pub struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn prepare_create(&self, set: &mut Value) {
        object::set(set, &["status"], json!({"replicas": 0}));
    }

    fn validate(&self, set: &Value, _old: Option<&Value>, errors: &mut Errors) {
        check::selects_template(set, "replicaset", errors);
        check::always_restarts(set, "ReplicaSet", errors);
    }

    fn validate_update(&self, set: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(set, old, &["spec", "selector"], errors);
    }

    fn validate_status(&self, set: &Value, old: &Value, errors: &mut Errors) {
        check::counts(set, old, &COUNTS, errors);
        check::parts_of_replicas(set, &COUNTS[1..], errors);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn scale(&self) -> Option<ScalePaths> {
        scale_paths()
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
