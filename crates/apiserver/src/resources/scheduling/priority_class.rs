//! A PriorityClass: a name for how much a Pod matters.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, boolean, count, integer, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

const COLUMNS: &[Printed] = &[
    NAME,
    integer("Value", "scheduling.v1.PriorityClass.value", |class, _| count(class, &["value"])),
    boolean("Global-Default", "scheduling.v1.PriorityClass.globalDefault", |class, _| {
        object::flag(class, &["globalDefault"]).into()
    }),
    AGE,
    text("PreemptionPolicy", "scheduling.v1.PriorityClass.preemptionPolicy", |class, _| {
        object::text(class, &["preemptionPolicy"]).into()
    }),
];

const HIGHEST_OF_USERS: i64 = 1_000_000_000;
/// The classes that every cluster has, with their values.
const OF_SYSTEM: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub struct PriorityClass;

impl Strategy for PriorityClass {
    fn validate(&self, class: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let (name, value) = (object::name(class), object::integer(class, &["value"]).unwrap_or(0));
        if OF_SYSTEM.contains(&(name, value)) {
            return;
        }
        if name.starts_with("system-") {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
            );
            errors.push(Error::forbidden(&Path::new("metadata").child("name"), detail));
        }
        if value > HIGHEST_OF_USERS {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
            errors.push(Error::forbidden(&Path::new("value"), detail));
        }
    }

    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        if object::integer(class, &["value"]).unwrap_or(0) != object::integer(old, &["value"]).unwrap_or(0) {
            errors.push(Error::forbidden(&Path::new("value"), "may not be changed in an update."));
        }
        check::immutable(class, old, &["preemptionPolicy"], errors);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}
