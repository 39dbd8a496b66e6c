//! Whose requests wait when there are too many.

mod level;
mod schema;

use crate::flow::defaults;
use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, NONE, text, text_or};
use pintle_meta::object;
use serde_json::Value;

pub const FLOW_SCHEMA: Described = Described {
    generations: true,
    checks: schema::check,
    printed: Some(&[
        NAME,
        text("PriorityLevel", "flowcontrol.v1.PriorityLevelConfigurationReference.name", |schema, _| {
            object::text(schema, &["spec", "priorityLevelConfiguration", "name"]).into()
        }),
        text("MatchingPrecedence", "flowcontrol.v1.FlowSchemaSpec.matchingPrecedence", |schema, _| {
            number(schema, &["spec", "matchingPrecedence"])
        }),
        text("DistinguisherMethod", "flowcontrol.v1.FlowSchemaSpec.distinguisherMethod", |schema, _| {
            text_or(schema, &["spec", "distinguisherMethod", "type"], NONE)
        }),
        AGE,
        text("MissingPL", "", |schema, _| {
            let conditions = object::list(schema, &["status", "conditions"]);
            let dangling = conditions.iter().find(|c| c["type"] == "Dangling");
            dangling.map_or("?", |c| object::text(c, &["status"])).into()
        }),
    ]),
    ..PLAIN
};

pub const PRIORITY_LEVEL_CONFIGURATION: Described = Described {
    generations: true,
    checks: level::check,
    printed: Some(&[
        NAME,
        text("Type", "flowcontrol.v1.PriorityLevelConfigurationSpec.type", |level, _| {
            object::text(level, &["spec", "type"]).into()
        }),
        text(
            "NominalConcurrencyShares",
            "flowcontrol.v1.LimitedPriorityLevelConfiguration.nominalConcurrencyShares",
            |level, _| number(level, &["spec", "limited", "nominalConcurrencyShares"]),
        ),
        text("Queues", "flowcontrol.v1.QueuingConfiguration.queues", |level, _| queuing(level, "queues")),
        text("HandSize", "flowcontrol.v1.QueuingConfiguration.handSize", |level, _| queuing(level, "handSize")),
        text("QueueLengthLimit", "flowcontrol.v1.QueuingConfiguration.queueLengthLimit", |level, _| {
            queuing(level, "queueLengthLimit")
        }),
        AGE,
    ]),
    ..PLAIN
};

fn queuing(level: &Value, key: &str) -> Value {
    number(level, &["spec", "limited", "limitResponse", "queuing", key])
}

fn number(object: &Value, path: &[&str]) -> Value {
    object::integer(object, path).map_or_else(|| NONE.into(), Value::from)
}

/// The one of the objects that must be there with this kind and name.
fn mandatory(kind: &str, name: &str) -> Option<Value> {
    if !defaults::is_mandatory(name) {
        return None;
    }
    defaults::mandatory().find(|object| object::kind(object) == kind && object::name(object) == name)
}
