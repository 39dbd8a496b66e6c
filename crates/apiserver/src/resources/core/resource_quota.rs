//! A ResourceQuota: how much a namespace may have of everything.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Request", "", |quota, _| used(quota, false).into()),
    text("Limit", "", |quota, _| used(quota, true).into()),
    AGE,
];

pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn validate(&self, quota: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let path = Path::new("spec").child("hard");
        for (name, amount) in object::at(quota, &["spec", "hard"]).and_then(Value::as_object).into_iter().flatten() {
            check::text(name, &path.key(name), rules::qualified_name, errors);
            check::amount(amount, &path.key(name), errors);
        }
    }

    fn validate_update(&self, quota: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(quota, old, &["spec", "scopes"], errors);
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

/// `pods: 1/10, requests.cpu: 1/2`
fn used(quota: &Value, limits: bool) -> String {
    let hard = object::at(quota, &["status", "hard"]).and_then(Value::as_object).into_iter().flatten();
    let all: Vec<String> = hard
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, hard)| {
            let used = object::text(quota, &["status", "used", name]);
            format!("{name}: {}/{}", if used.is_empty() { "0" } else { used }, hard.as_str().unwrap_or_default())
        })
        .collect();
    all.join(", ")
}
