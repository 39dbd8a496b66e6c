//! A PodDisruptionBudget: how many Pods may be away at once, by anybody's will.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, count, integer, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("Min Available", "", |budget, _| number(budget, "minAvailable").into()),
    text("Max Unavailable", "", |budget, _| number(budget, "maxUnavailable").into()),
    integer("Allowed Disruptions", "", |budget, _| count(budget, &["status", "disruptionsAllowed"])),
    AGE,
];

pub struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn prepare_create(&self, budget: &mut Value) {
        let zero = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        object::set(budget, &["status"], zero);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn number(budget: &Value, key: &str) -> String {
    match object::at(budget, &["spec", key]) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "N/A".to_owned(),
    }
}

pub fn check_spec(spec: &Value, path: &Path, errors: &mut Errors) {
    let given = |key: &str| spec.get(key).filter(|v| !v.is_null());
    if given("minAvailable").is_some() && given("maxUnavailable").is_some() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(Error::invalid(path, spec.clone(), detail));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        check::number_or_percent(given(key), &path.child(key), errors);
        check::not_more_than_all(given(key), &path.child(key), errors);
    }
    let policy = object::text(spec, &["unhealthyPodEvictionPolicy"]);
    if !matches!(policy, "" | "IfHealthyBudget" | "AlwaysAllow") {
        let supported = &["AlwaysAllow", "IfHealthyBudget"];
        errors.push(Error::not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, supported));
    }
}
