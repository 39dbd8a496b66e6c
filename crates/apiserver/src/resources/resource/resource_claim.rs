//! A ResourceClaim: devices that a Pod asks for, and who has them.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::Errors;
use pintle_meta::object;
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("State", "A summary of the current state (allocated, pending, reserved, etc.).", |claim, _| {
        state(claim).into()
    }),
    AGE,
];

pub struct ResourceClaim;

impl Strategy for ResourceClaim {
    fn prepare_create(&self, claim: &mut Value) {
        object::set(claim, &["status"], json!({}));
    }

    fn validate_update(&self, claim: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(claim, old, &["spec"], errors);
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn state(claim: &Value) -> String {
    let mut words = Vec::new();
    if object::is_being_deleted(claim) {
        words.push("deleted");
    }
    if object::at(claim, &["status", "allocation"]).is_some_and(Value::is_object) {
        words.push("allocated");
        if !object::list(claim, &["status", "reservedFor"]).is_empty() {
            words.push("reserved");
        }
    } else if words.is_empty() {
        words.push("pending");
    }
    words.join(",")
}
