//! Tables and bare metadata: what `kubectl get` prints, made by the server so that every client prints the same.

use crate::ApiServer;
use crate::catalogue::Resource;
use crate::codec;
use crate::request::Query;
use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use pintle_meta::object;
use serde_json::{Value, json};

/// What a row shows of its object beside the cells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// How the objects of one request become rows.
#[derive(Clone, Copy)]
pub struct Rows {
    include: Include,
    now: Timestamp,
}

impl Rows {
    pub fn new(query: &Query, now: Timestamp) -> Self {
        let include = match query.get("includeObject") {
            "None" => Include::Nothing,
            "Object" => Include::Object,
            _ => Include::Metadata,
        };
        Rows { include, now }
    }

    pub fn columns(&self, resource: &Resource) -> Vec<Value> {
        let column = |c: &crate::strategy::ColumnDefinition| {
            json!({"name": c.name, "type": c.kind, "format": c.format, "priority": c.priority,
                "description": crate::serve::descriptions::describe(&c.about)})
        };
        resource.strategy.columns().iter().map(column).collect()
    }

    fn row(&self, resource: &Resource, object: &Value) -> Value {
        let mut row = json!({"cells": resource.strategy.cells(object, self.now)});
        match self.include {
            Include::Nothing => {}
            Include::Object => row["object"] = object.clone(),
            Include::Metadata => row["object"] = partial(object),
        }
        row
    }

    /// A row of an encoded object, whose own bytes are passed on as they are.
    pub fn encoded(&self, resource: &Resource, encoded: &[u8]) -> Bytes {
        let cells = Value::from(resource.strategy.cells(&codec::decode(encoded), self.now)).to_string();
        let mut out = BytesMut::with_capacity(cells.len() + 1024);
        out.put_slice(b"{\"cells\":");
        out.put_slice(cells.as_bytes());
        match self.include {
            Include::Nothing => {}
            Include::Object => {
                out.put_slice(b",\"object\":");
                out.put_slice(encoded);
            }
            Include::Metadata => {
                out.put_slice(b",\"object\":");
                out.put_slice(&partial_bytes(encoded));
            }
        }
        out.put_u8(b'}');
        out.freeze()
    }
}

/// A table of a few objects.
pub fn table(server: &ApiServer, resource: &Resource, objects: &[Value], query: &Query, metadata: Value) -> Value {
    let rows = Rows::new(query, server.registry.clock.now());
    let columns = rows.columns(resource);
    let rows: Vec<Value> = objects.iter().map(|object| rows.row(resource, object)).collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// The bare metadata of an encoded object, cut out of its bytes: nothing behind it is looked at.
pub fn partial_bytes(encoded: &[u8]) -> Bytes {
    match codec::metadata(encoded) {
        Some(metadata) => {
            let mut out = BytesMut::with_capacity(metadata.len() + 80);
            out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
            out.put_slice(metadata.as_bytes());
            out.put_u8(b'}');
            out.freeze()
        }
        None => partial(&codec::decode(encoded)).to_string().into(),
    }
}

/// How long ago, as people say it: `5s`, `3m20s`, `4d`.
pub fn age(since: &str, now: Timestamp) -> String {
    match since.parse::<Timestamp>() {
        Ok(moment) => duration(now.as_second() - moment.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// The age of an object.
pub fn age_of(value: &Value, now: Timestamp) -> Value {
    age(object::text(value, &["metadata", "creationTimestamp"]), now).into()
}

/// A number of seconds in at most two units.
pub fn duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match seconds {
        s if s < -1 => "<invalid>".to_owned(),
        s if s < 0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (3600, "60m"),
            (4 * 3600 + 60, "4h1m"),
            (86400, "24h"),
            (3 * 86400, "3d"),
            (30 * 86400, "30d"),
            (800 * 86400, "2y70d"),
            (-5, "<invalid>"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
