//! What tables show: columns that many kinds share, and how values are put into words.

use crate::strategy::{self, Column, Printed};
use crate::table;
use jiff::Timestamp;
use pintle_meta::{labels::Selector, object};
use serde_json::Value;

type Cell = fn(&Value, Timestamp) -> Value;

pub const NONE: &str = "<none>";
pub const UNSET: &str = "<unset>";
pub const UNKNOWN: &str = "<unknown>";

pub const NAME: Printed = Printed { column: strategy::NAME, cell: |object, _| object::name(object).into() };
pub const AGE: Printed = Printed { column: strategy::AGE, cell: table::age_of };

/// Of a workload: what its template runs.
pub const CONTAINERS: Printed =
    wide("Containers", "Names of each container in the template.", |object, _| containers(object, "name"));
pub const IMAGES: Printed =
    wide("Images", "Images referenced by each container in the template.", |object, _| containers(object, "image"));

/// A column of text. `about` names the field whose documentation describes it, if there is one.
pub const fn text(name: &'static str, about: &'static str, cell: Cell) -> Printed {
    Printed { column: strategy::column(name, "string", about), cell }
}

pub const fn integer(name: &'static str, about: &'static str, cell: Cell) -> Printed {
    Printed { column: strategy::column(name, "integer", about), cell }
}

pub const fn boolean(name: &'static str, about: &'static str, cell: Cell) -> Printed {
    Printed { column: strategy::column(name, "boolean", about), cell }
}

/// A column of text that only `-o wide` shows.
pub const fn wide(name: &'static str, about: &'static str, cell: Cell) -> Printed {
    Printed { column: strategy::wide(name, "string", about), cell }
}

/// The same column for machines to take the name from.
pub const fn name_like(printed: Printed) -> Printed {
    Printed { column: Column { format: "name", ..printed.column }, cell: printed.cell }
}

/// A number, or zero.
pub fn count(object: &Value, path: &[&str]) -> Value {
    object::integer(object, path).unwrap_or(0).into()
}

pub fn length(object: &Value, path: &[&str]) -> Value {
    let found = object::at(object, path);
    let length =
        found.map_or(0, |v| v.as_array().map_or_else(|| v.as_object().map_or(0, serde_json::Map::len), Vec::len));
    length.into()
}

/// A text, or what stands for its absence.
pub fn or<'a>(text: &'a str, absent: &'a str) -> &'a str {
    if text.is_empty() { absent } else { text }
}

pub fn text_or(object: &Value, path: &[&str], absent: &str) -> Value {
    or(object::text(object, path), absent).into()
}

/// A flag as a word.
pub fn flag_word(object: &Value, path: &[&str]) -> Value {
    if object::flag(object, path) { "True".into() } else { "False".into() }
}

/// How long ago a field's time was; `absent` when it was never.
pub fn since(object: &Value, path: &[&str], absent: &str, now: Timestamp) -> Value {
    match object::text(object, path) {
        "" => absent.into(),
        moment => table::age(moment, now).into(),
    }
}

/// `app=x,tier=web`
pub fn labels(labels: Option<&Value>) -> String {
    let pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A label selector in one line.
pub fn selector(selector: Option<&Value>) -> Value {
    match Selector::from_label_selector(selector) {
        Some(selector) if !selector.is_everything() => selector.to_string().into(),
        _ => NONE.into(),
    }
}

fn containers(object: &Value, key: &str) -> Value {
    let template: &[&str] = match object::kind(object) {
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec", "containers"],
        "PodTemplate" => &["template", "spec", "containers"],
        _ => &["spec", "template", "spec", "containers"],
    };
    let all: Vec<&str> = object::list(object, template).iter().map(|c| object::text(c, &[key])).collect();
    all.join(",").into()
}

/// `RWO,ROX`
pub fn access_modes(modes: &[Value]) -> Value {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let present = SHORT.iter().filter(|(long, _)| modes.iter().any(|m| m == long));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}
