//! Checks the body of a built-in object as the API's own decoder does, and brings it to its canonical form.
//!
//! - A value of the wrong type refuses the whole body, with the decoder's words.
//! - A field that the type does not have is dropped and named, for `fieldValidation` to warn of or refuse.
//! - `null` is absence; inside lists and maps it is the zero value of the item.
//! - A zero value stays only where the API would write it (`facts/presence.tsv`); structs that the API always writes
//!   appear as `{}`.

use crate::node::{Field, Kind, Node, NodeId, Presence, Schema};
use crate::scalar;
use crate::strict::{Findings, Problem};
use pintle_meta::quantity;
use serde_json::{Map, Value};

/// A body as it will be stored, and what was unknown in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    pub unknown: Findings,
}

/// The body cannot be an object of this type; the text continues `Pod in version "v1" cannot be handled as a Pod: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// Types that hold themselves (the schemas of custom types) may nest so deep, which no real one comes near.
const DEEPEST: usize = 400;

pub fn decode(schema: &Schema, value: Value) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder { schema, unknown: Findings::new(), fields: Vec::new(), shown: String::new() };
    let holder = schema.root().type_name.unwrap_or_default();
    let value = decoder.value(schema.root, holder, value)?;
    Ok(Decoded { value: value.unwrap_or_else(|| Value::Object(Map::new())), unknown: decoder.unknown })
}

struct Decoder<'a> {
    schema: &'a Schema,
    unknown: Findings,
    /// Field names on the way here, without keys and indices: what type errors show.
    fields: Vec<String>,
    /// The way here with keys and indices: what unknown fields show.
    shown: String,
}

impl Decoder<'_> {
    /// The value in canonical form; nothing for `null`. `holder` is the struct whose field this is.
    fn value(&mut self, id: NodeId, holder: &str, value: Value) -> Result<Option<Value>, DecodeError> {
        let schema = self.schema;
        let node = schema.node(id);
        if self.fields.len() > DEEPEST {
            return Err(DecodeError("exceeded max depth".to_owned()));
        }
        let decoded = match (&node.kind, value) {
            (Kind::Any, value) => match schema_or(node, value)? {
                Some(value) => value,
                None => return Ok(None),
            },
            (_, Value::Null) => return Ok(None),
            (Kind::Object { fields, additional }, Value::Object(map)) => match additional {
                Some(item) if fields.is_empty() => self.map(*item, holder, map)?,
                _ => self.object(id, node.type_name.unwrap_or(holder), map)?,
            },
            (Kind::List { items }, Value::Array(list)) => self.list(*items, holder, list)?,
            (Kind::String, Value::String(text)) => Value::String(text),
            (Kind::Bool, Value::Bool(flag)) => Value::Bool(flag),
            (Kind::Int32, Value::Number(number)) => match number.as_i64() {
                Some(small) if i32::try_from(small).is_ok() => Value::Number(number),
                _ => return Err(self.mismatch(node, holder, &format!("number {number}"))),
            },
            (Kind::Int64 | Kind::Integer, Value::Number(number)) => match number.as_i64() {
                Some(_) => Value::Number(number),
                None => return Err(self.mismatch(node, holder, &format!("number {number}"))),
            },
            (Kind::Number, Value::Number(number)) => Value::Number(number),
            (Kind::Bytes, Value::String(text)) => Value::String(scalar::canonical_base64(&text).map_err(DecodeError)?),
            (Kind::IntOrString, value) => int_or_string(value)?,
            (Kind::Quantity, value) => canonical_quantity(&value)?,
            (Kind::Time, Value::String(text)) => time(&text, false)?,
            (Kind::MicroTime, Value::String(text)) => time(&text, true)?,
            (Kind::Time | Kind::MicroTime, other) => return Err(plain_mismatch(&other, "string")),
            (Kind::Duration, Value::String(text)) => Value::String(text),
            (_, other) => return Err(self.mismatch(node, holder, describe(&other))),
        };
        // An empty time is the zero time, which is absence.
        if matches!(node.kind, Kind::Time | Kind::MicroTime) && decoded.is_null() {
            return Ok(None);
        }
        Ok(Some(decoded))
    }

    fn object(&mut self, id: NodeId, holder: &str, map: Map<String, Value>) -> Result<Value, DecodeError> {
        let schema = self.schema;
        let Kind::Object { fields, .. } = &schema.node(id).kind else { return Ok(Value::Object(map)) };
        let mut kept = Map::new();
        for (name, value) in map {
            let length = self.enter_key(&name);
            match fields.get(name.as_str()) {
                None => self.note_unknown(),
                Some(field) => {
                    self.fields.push(name.clone());
                    let decoded = self.value(field.node, holder, value)?;
                    self.fields.pop();
                    match decoded {
                        Some(value)
                            if field.presence == Presence::OmittedWhenZero
                                && is_zero(&value, schema.node(field.node)) => {}
                        Some(value) => {
                            kept.insert(name, value);
                        }
                        None => {}
                    }
                }
            }
            self.shown.truncate(length);
        }
        fill_objects(schema, id, &mut kept);
        Ok(Value::Object(kept))
    }

    fn map(&mut self, item: NodeId, holder: &str, map: Map<String, Value>) -> Result<Value, DecodeError> {
        let mut kept = Map::new();
        for (name, value) in map {
            let length = self.enter_key(&name);
            let value = self.value(item, holder, value)?.unwrap_or_else(|| zero(self.schema.node(item)));
            self.shown.truncate(length);
            kept.insert(name, value);
        }
        Ok(Value::Object(kept))
    }

    fn list(&mut self, item: NodeId, holder: &str, list: Vec<Value>) -> Result<Value, DecodeError> {
        let mut kept = Vec::with_capacity(list.len());
        for (index, value) in list.into_iter().enumerate() {
            let length = self.shown.len();
            self.shown.push_str(&format!("[{index}]"));
            kept.push(self.value(item, holder, value)?.unwrap_or_else(|| zero(self.schema.node(item))));
            self.shown.truncate(length);
        }
        Ok(Value::Array(kept))
    }

    fn enter_key(&mut self, name: &str) -> usize {
        let length = self.shown.len();
        if length > 0 {
            self.shown.push('.');
        }
        self.shown.push_str(name);
        length
    }

    fn note_unknown(&mut self) {
        if !self.unknown.is_full() {
            self.unknown.add(Problem::Unknown, self.shown.clone());
        }
    }

    fn mismatch(&self, node: &Node, holder: &str, given: &str) -> DecodeError {
        let wanted = self.go_type(node, 0);
        if self.fields.is_empty() {
            return DecodeError(format!("json: cannot unmarshal {given} into Go value of type {wanted}"));
        }
        let holder = holder.rsplit('.').next().unwrap_or(holder);
        let path = self.fields.join(".");
        DecodeError(format!("json: cannot unmarshal {given} into Go struct field {holder}.{path} of type {wanted}"))
    }

    /// The name by which clients know the wanted type from the API's messages.
    fn go_type(&self, node: &Node, depth: usize) -> String {
        if depth > 8 {
            return "interface {}".to_owned();
        }
        if let Some(name) = node.type_name {
            let mut parts = name.rsplit('.');
            let short = parts.next().unwrap_or(name);
            return format!("{}.{short}", parts.next().unwrap_or("v1"));
        }
        match &node.kind {
            Kind::String | Kind::Time | Kind::MicroTime | Kind::Duration => "string".to_owned(),
            Kind::Int32 => "int32".to_owned(),
            Kind::Int64 | Kind::Integer => "int64".to_owned(),
            Kind::Number => "float64".to_owned(),
            Kind::Bool => "bool".to_owned(),
            Kind::Bytes => "[]uint8".to_owned(),
            Kind::List { items } => format!("[]{}", self.go_type(self.schema.node(*items), depth + 1)),
            Kind::Object { additional: Some(item), .. } => {
                format!("map[string]{}", self.go_type(self.schema.node(*item), depth + 1))
            }
            Kind::Object { .. } | Kind::Any => "map[string]interface {}".to_owned(),
            Kind::IntOrString => "intstr.IntOrString".to_owned(),
            Kind::Quantity => "resource.Quantity".to_owned(),
        }
    }
}

/// Where the schema of a custom type may stand, or something else. The API's decoder reads such a schema apart from what is
/// around it: its errors start there, and what is unknown in it is dropped silently.
fn schema_or(node: &Node, value: Value) -> Result<Option<Value>, DecodeError> {
    let Some(other) = node.type_name.and_then(|name| name.strip_prefix("apiextensions.v1.JSONSchemaPropsOr")) else {
        return Ok(Some(value));
    };
    let whole = |value: Value| match Schema::builtin("apiextensions.v1.JSONSchemaProps") {
        Some(schema) => decode(&schema, value).map(|decoded| decoded.value),
        None => Ok(value),
    };
    match (other, value) {
        (_, Value::Null) => Ok(None),
        (_, value @ Value::Object(_)) => whole(value).map(Some),
        ("Array", Value::Array(list)) => {
            list.into_iter().map(whole).collect::<Result<_, _>>().map(|list| Some(Value::Array(list)))
        }
        ("Array", _) => Ok(None),
        ("Bool", value @ Value::Bool(_)) | ("StringArray", value @ Value::Array(_)) => Ok(Some(value)),
        ("Bool", _) => Err(DecodeError("boolean or JSON schema expected".to_owned())),
        (_, other) => Err(plain_mismatch(&other, "v1.JSONSchemaProps")),
    }
}

/// Adds the structs that the API always writes, at any depth below a struct that was not given.
pub fn fill_objects(schema: &Schema, id: NodeId, map: &mut Map<String, Value>) {
    fill(schema, id, map, 0);
}

fn fill(schema: &Schema, id: NodeId, map: &mut Map<String, Value>, depth: usize) {
    let Kind::Object { fields, .. } = &schema.node(id).kind else { return };
    // No type holds itself by value, so the depth is that of the types; the bound only guards the table.
    if depth > 16 {
        return;
    }
    for (name, field) in fields.iter() {
        let amount = matches!(schema.node(field.node).kind, Kind::Quantity);
        let always = field.presence == Presence::AlwaysObject || (field.presence == Presence::AlwaysWritten && amount);
        if !always || map.contains_key(&**name) {
            continue;
        }
        let mut inner = Map::new();
        fill(schema, field.node, &mut inner, depth + 1);
        map.insert(name.to_string(), if amount { Value::from("0") } else { Value::Object(inner) });
    }
}

/// Adds what the API writes even where nothing was said: `null` for a list, `""` for a text, at every level that is
/// there. For the object as it is stored and served; checks read better without.
pub fn complete(schema: &Schema, value: &mut Value) {
    complete_at(schema, schema.root, value);
}

fn complete_at(schema: &Schema, id: NodeId, value: &mut Value) {
    match (value, &schema.node(id).kind) {
        (Value::Object(map), Kind::Object { fields, additional }) => {
            for (name, value) in map.iter_mut() {
                if let Some(child) = fields.get(name.as_str()).map(|field| field.node).or(*additional) {
                    complete_at(schema, child, value);
                }
            }
            for (name, field) in fields.iter() {
                if let Some(value) = said_by_silence(schema, field, 0).filter(|_| !map.contains_key(&**name)) {
                    map.insert(name.to_string(), value);
                }
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            list.iter_mut().for_each(|item| complete_at(schema, *items, item));
        }
        _ => {}
    }
}

/// The object of this type of which nothing was said, as the API compares a new object against it.
pub fn zero_object(schema: &Schema) -> Value {
    zero_of(schema, schema.root, 0)
}

fn zero_of(schema: &Schema, id: NodeId, depth: usize) -> Value {
    let Kind::Object { fields, .. } = &schema.node(id).kind else { return Value::Object(Map::new()) };
    let said =
        fields.iter().filter_map(|(name, field)| Some((name.to_string(), said_by_silence(schema, field, depth)?)));
    Value::Object(said.collect())
}

/// What the API writes for a field that was not given.
fn said_by_silence(schema: &Schema, field: &Field, depth: usize) -> Option<Value> {
    match field.presence {
        // No type holds itself by value; the bound only guards the table.
        _ if depth > 16 => None,
        Presence::AlwaysObject => Some(zero_of(schema, field.node, depth + 1)),
        Presence::AlwaysWritten => match schema.node(field.node) {
            node if matches!(node.kind, Kind::Object { .. }) => Some(Value::Null),
            node => Some(zero(node)),
        },
        Presence::NullWhenAbsent => Some(Value::Null),
        Presence::AsGiven | Presence::OmittedWhenZero => None,
    }
}

fn is_zero(value: &Value, node: &Node) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(flag) => !flag && matches!(node.kind, Kind::Bool),
        Value::Number(number) => {
            number.as_f64() == Some(0.0) && matches!(node.kind, Kind::Int32 | Kind::Int64 | Kind::Number)
        }
        // A struct behind a pointer stays when empty (`emptyDir: {}`); a map does not.
        Value::Object(map) => map.is_empty() && matches!(node.kind, Kind::Object { additional: Some(_), .. }),
        Value::Null => true,
    }
}

fn zero(node: &Node) -> Value {
    match node.kind {
        Kind::String | Kind::Bytes => Value::from(""),
        Kind::Int32 | Kind::Int64 | Kind::Integer | Kind::Number | Kind::IntOrString => Value::from(0),
        Kind::Quantity => Value::from("0"),
        Kind::Bool => Value::from(false),
        Kind::Object { .. } => Value::Object(Map::new()),
        Kind::List { .. } | Kind::Time | Kind::MicroTime | Kind::Duration | Kind::Any => Value::Null,
    }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn plain_mismatch(value: &Value, wanted: &str) -> DecodeError {
    DecodeError(format!("json: cannot unmarshal {} into Go value of type {wanted}", describe(value)))
}

fn int_or_string(value: Value) -> Result<Value, DecodeError> {
    match &value {
        Value::String(_) => Ok(value),
        Value::Number(number) => match number.as_i64() {
            Some(small) if i32::try_from(small).is_ok() => Ok(value),
            _ => Err(DecodeError(format!("json: cannot unmarshal number {number} into Go value of type int32"))),
        },
        other => Err(plain_mismatch(other, "int32")),
    }
}

fn canonical_quantity(value: &Value) -> Result<Value, DecodeError> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match quantity::canonical(text.trim()) {
        Some(canonical) => Ok(Value::String(canonical)),
        None => Err(DecodeError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned(),
        )),
    }
}

fn time(text: &str, micro: bool) -> Result<Value, DecodeError> {
    let canonical = if micro { scalar::canonical_micro_time(text) } else { scalar::canonical_time(text) };
    match canonical {
        Some(canonical) => Ok(Value::String(canonical)),
        None => Err(DecodeError(scalar::time_error(text, micro))),
    }
}

#[cfg(test)]
mod tests;
