//! An event: lives an hour, and may be lost in a crash without harm.

use crate::resources::print::{self, UNKNOWN, text, wide};
use crate::strategy::{Column, NAME, Printed, Strategy};
use crate::table;
use jiff::Timestamp;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

/// Also those of the events of the newer group: both are one kind in store.
pub const COLUMNS: &[Printed] = &[
    text("Last Seen", "core.v1.Event.lastTimestamp", |event, now| last_seen(event, now).into()),
    text("Type", "core.v1.Event.type", |event, _| object::text(event, &["type"]).into()),
    text("Reason", "core.v1.Event.reason", |event, _| object::text(event, &["reason"]).into()),
    text("Object", "core.v1.Event.involvedObject", |event, _| about(event).into()),
    wide("Subobject", "core.v1.ObjectReference.fieldPath", |event, _| {
        object::text(event, &["involvedObject", "fieldPath"]).into()
    }),
    wide("Source", "core.v1.Event.source", |event, _| source(event).into()),
    text("Message", "core.v1.Event.message", |event, _| object::text(event, &["message"]).trim().into()),
    wide("First Seen", "core.v1.Event.firstTimestamp", |event, now| first_seen(event, now).into()),
    wide("Count", "core.v1.Event.count", |event, _| {
        let series = object::integer(event, &["series", "count"]);
        series.or_else(|| object::integer(event, &["count"]).filter(|n| *n > 0)).unwrap_or(1).into()
    }),
    Printed { column: Column { priority: 1, ..NAME }, cell: print::NAME.cell },
];

const SECONDS_TO_LIVE: i64 = 3600;

pub struct Event;

impl Strategy for Event {
    fn validate(&self, event: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let about = object::text(event, &["involvedObject", "namespace"]);
        let here = Path::new("involvedObject").child("namespace");
        let namespace = object::namespace(event);
        // What has no namespace is spoken of in the default one, or by newer clients in the system's.
        let newer = !object::text(event, &["eventTime"]).is_empty();
        let fits = match about {
            "" => namespace == "default" || (newer && namespace == "kube-system"),
            about => newer || about == namespace,
        };
        if !fits {
            errors.push(Error::invalid(&here, about, "does not match event.namespace"));
        }
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }

    fn name_problems(&self, _name: &str) -> rules::Problems {
        rules::Problems::new()
    }

    fn time_to_live(&self, _event: &Value) -> Option<i64> {
        Some(SECONDS_TO_LIVE)
    }

    fn is_ephemeral(&self) -> bool {
        true
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            // The names of the newer group: an object's facets are made once, whoever asks first.
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
        ]
    }

    fn selectable_field(&self, event: &Value, field: &str) -> String {
        let text = |path: &[&str]| pintle_meta::object::text(event, path).to_owned();
        match field {
            "source" => match text(&["source", "component"]) {
                component if component.is_empty() => text(&["reportingComponent"]),
                component => component,
            },
            "reportingController" => text(&["reportingComponent"]),
            other => text(&other.replace("regarding.", "involvedObject.").split('.').collect::<Vec<_>>()),
        }
    }
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let times = ["firstTimestamp", "eventTime"].map(|key| object::text(event, &[key]));
    times.into_iter().find(|t| !t.is_empty()).map_or_else(|| UNKNOWN.to_owned(), |time| table::age(time, now))
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    let times = [object::text(event, &["series", "lastObservedTime"]), object::text(event, &["lastTimestamp"])];
    times.into_iter().find(|t| !t.is_empty()).map_or_else(|| first_seen(event, now), |time| table::age(time, now))
}

fn about(event: &Value) -> String {
    let kind = object::text(event, &["involvedObject", "kind"]).to_lowercase();
    match object::text(event, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let either = |old: &[&str], new: &str| match object::text(event, old) {
        "" => object::text(event, &[new]).to_owned(),
        text => text.to_owned(),
    };
    let component = either(&["source", "component"], "reportingComponent");
    match either(&["source", "host"], "reportingInstance") {
        host if host.is_empty() => component,
        host => format!("{component}, {host}"),
    }
}
