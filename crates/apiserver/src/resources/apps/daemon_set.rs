//! A DaemonSet: one Pod on every node that fits.

use crate::resources::check;
use crate::resources::print::{AGE, CONTAINERS, IMAGES, NAME, count, integer, labels, selector, text, wide};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

const COLUMNS: &[Printed] = &[
    NAME,
    integer("Desired", "apps.v1.DaemonSetStatus.desiredNumberScheduled", |set, _| {
        count(set, &["status", "desiredNumberScheduled"])
    }),
    integer("Current", "apps.v1.DaemonSetStatus.currentNumberScheduled", |set, _| {
        count(set, &["status", "currentNumberScheduled"])
    }),
    integer("Ready", "apps.v1.DaemonSetStatus.numberReady", |set, _| count(set, &["status", "numberReady"])),
    integer("Up-to-date", "apps.v1.DaemonSetStatus.updatedNumberScheduled", |set, _| {
        count(set, &["status", "updatedNumberScheduled"])
    }),
    integer("Available", "apps.v1.DaemonSetStatus.numberAvailable", |set, _| {
        count(set, &["status", "numberAvailable"])
    }),
    text("Node Selector", "core.v1.PodSpec.nodeSelector", |set, _| {
        labels(object::at(set, &["spec", "template", "spec", "nodeSelector"])).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", "apps.v1.DaemonSetSpec.selector", |set, _| selector(object::at(set, &["spec", "selector"]))),
];

const COUNTS: [&str; 7] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
];

/// How often the template changed: a field of old versions of the API, kept for clients that read it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(set: &Value) -> i64 {
    object::text(set, &["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    object::set(set, &["metadata", "annotations", TEMPLATE_GENERATION], generation.to_string());
}

pub struct DaemonSet;

impl Strategy for DaemonSet {
    fn default(&self, set: &mut Value) {
        let generation = template_generation(set);
        set_template_generation(set, generation);
    }

    fn prepare_create(&self, set: &mut Value) {
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    }

    fn prepare_update(&self, set: &mut Value, old: &Value, _subresource: &str) {
        let template = |set: &Value| object::at(set, &["spec", "template"]).cloned().unwrap_or_default();
        let changed = !check::same(&template(set), &template(old));
        set_template_generation(set, template_generation(old) + i64::from(changed));
    }

    fn prepare_status(&self, set: &mut Value, old: &Value) {
        set_template_generation(set, template_generation(old));
    }

    fn validate(&self, set: &Value, _old: Option<&Value>, errors: &mut Errors) {
        check::selects_template(set, "daemonset", errors);
        check::always_restarts(set, "DaemonSet", errors);
        let path = Path::new("spec").child("updateStrategy").child("rollingUpdate");
        let Some(rolling) = object::at(set, &["spec", "updateStrategy", "rollingUpdate"]) else { return };
        let (away, extra) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
        for (key, value) in [("maxUnavailable", away), ("maxSurge", extra)] {
            check::number_or_percent(value, &path.child(key), errors);
            check::not_more_than_all(value, &path.child(key), errors);
        }
        match (check::is_zero(away), check::is_zero(extra)) {
            (false, false) => errors.push(Error::invalid(
                &path.child("maxSurge"),
                extra.cloned().unwrap_or_default(),
                "may not be set when maxUnavailable is non-zero",
            )),
            (true, true) => {
                errors.push(Error::required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
            }
            _ => {}
        }
    }

    fn validate_update(&self, set: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(set, old, &["spec", "selector"], errors);
    }

    fn validate_status(&self, set: &Value, old: &Value, errors: &mut Errors) {
        check::counts(set, old, &COUNTS, errors);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
