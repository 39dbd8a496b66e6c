//! Events as the newer group names their fields; they are kept as the core group does.

use crate::resources::core::event;
use crate::strategy::{Printed, Strategy};
use jiff::Timestamp;
use pintle_meta::{object, rules};
use serde_json::{Value, json};

/// The name of each field here and in the core group.
const FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

pub struct Event;

impl Strategy for Event {
    fn to_stored(&self, value: &mut Value) {
        for (here, there) in FIELDS {
            rename(value, here, there);
        }
        let event = object::as_map(value);
        object::fill(event, "involvedObject", json!({}));
        object::fill(event, "source", json!({}));
    }

    fn read_stored(&self, value: &mut Value) {
        for (here, there) in FIELDS {
            rename(value, there, here);
        }
        // What the core group spells out when it is not said, this one leaves out.
        object::as_map(value).retain(|key, value| !(value.is_null() && key.starts_with("deprecated")));
        for key in ["reportingController", "reportingInstance", "note"] {
            if object::text(value, &[key]).is_empty() {
                object::remove(value, &[key]);
            }
        }
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        event::Event.name_problems(name)
    }

    fn time_to_live(&self, value: &Value) -> Option<i64> {
        event::Event.time_to_live(value)
    }

    fn is_ephemeral(&self) -> bool {
        true
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        event::Event.selectable_fields()
    }

    fn selectable_field(&self, value: &Value, field: &str) -> String {
        event::Event.selectable_field(value, field)
    }

    fn printed(&self) -> &'static [Printed] {
        event::COLUMNS
    }

    fn cells(&self, value: &Value, now: Timestamp) -> Vec<Value> {
        let mut stored = value.clone();
        self.to_stored(&mut stored);
        event::Event.cells(&stored, now)
    }
}

fn rename(value: &mut Value, from: &str, to: &str) {
    if let Some(found) = object::remove(value, &[from]) {
        object::set(value, &[to], found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_the_same_in_both_groups() {
        let newer = json!({"regarding": {"kind": "Pod", "name": "p"}, "note": "hello", "reportingController": "c", "deprecatedSource": {}});
        let mut stored = newer.clone();
        Event.to_stored(&mut stored);
        assert_eq!(stored["involvedObject"]["name"], "p");
        assert_eq!(stored["message"], "hello");
        Event.read_stored(&mut stored);
        assert_eq!(stored, newer);
    }
}
