//! A StatefulSet: Pods with names and storage of their own, one after the other.

use super::scale_paths;
use crate::resources::check::{self, same};
use crate::resources::print::{AGE, CONTAINERS, IMAGES, NAME, count, text};
use crate::strategy::{Printed, ScalePaths, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("Ready", "Number of the pod with ready state", |set, _| {
        format!("{}/{}", count(set, &["status", "readyReplicas"]), count(set, &["spec", "replicas"])).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const OTHER_FIELDS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub struct StatefulSet;

impl Strategy for StatefulSet {
    fn default(&self, set: &mut Value) {
        let templates = object::at_mut(set, &["spec", "volumeClaimTemplates"]).and_then(Value::as_array_mut);
        for template in templates.into_iter().flatten() {
            let template = object::as_map(template);
            object::fill(template, "apiVersion", "v1");
            object::fill(template, "kind", "PersistentVolumeClaim");
        }
    }

    fn prepare_create(&self, set: &mut Value) {
        object::set(set, &["status"], json!({"replicas": 0, "availableReplicas": 0}));
    }

    fn validate(&self, set: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let policy = object::text(set, &["spec", "podManagementPolicy"]);
        if !matches!(policy, "OrderedReady" | "Parallel") {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(Error::invalid(&spec.child("podManagementPolicy"), policy, detail));
        }
        let strategy = spec.child("updateStrategy");
        match object::text(set, &["spec", "updateStrategy", "type"]) {
            "RollingUpdate" => {}
            "OnDelete" => {
                if object::at(set, &["spec", "updateStrategy", "rollingUpdate"]).is_some_and(Value::is_object) {
                    let shown = set["spec"]["updateStrategy"]["rollingUpdate"].clone();
                    let detail = "only allowed for updateStrategy 'RollingUpdate'";
                    errors.push(Error::invalid(&strategy.child("rollingUpdate"), shown, detail));
                }
            }
            other => errors.push(Error::invalid(&strategy, other, "must be 'RollingUpdate' or 'OnDelete'")),
        }
        check::selects_template(set, "statefulset", errors);
        check::always_restarts(set, errors);
    }

    fn validate_update(&self, set: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        let mut spec = set.get("spec").cloned().unwrap_or_default();
        let was = old.get("spec").cloned().unwrap_or_default();
        for key in CHANGEABLE {
            match was.get(key) {
                Some(value) => object::set(&mut spec, &[key], value.clone()),
                None => drop(object::remove(&mut spec, &[key])),
            }
        }
        // What is stored spells out an empty name.
        object::fill(object::as_map(&mut spec), "serviceName", "");
        if !same(&spec, &was) {
            errors.push(Error::forbidden(&Path::new("spec"), OTHER_FIELDS));
        }
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::dns_label(name)
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
