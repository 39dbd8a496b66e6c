//! The entries of `metadata.managedFields`: read, written in the API's order, and kept few.

use crate::fieldset::FieldSet;
use crate::scalar;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who changes an object, and when.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    pub name: &'a str,
    pub operation: Operation,
    pub api_version: &'a str,
    pub subresource: &'a str,
    /// RFC 3339, in UTC and whole seconds.
    pub time: &'a str,
}

/// What tells one entry from another. Appliers are one entry whatever version they applied last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl Identity {
    pub(crate) fn of(manager: &Manager<'_>) -> Self {
        let name = if manager.name.is_empty() { "unknown" } else { manager.name };
        Identity::new(name, manager.operation, manager.api_version, manager.subresource)
    }

    fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Identity {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// The manager as conflict messages name it: `"me"`, `"me" with subresource "status" using v1`.
    pub(crate) fn described(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) api_version: String,
    pub(crate) time: Option<String>,
    pub(crate) fields: Fields,
}

/// The fields of an entry, parsed when they matter. An object may have a thousand appliers, of which a write touches few: the
/// others are written back as they stood.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// As the server wrote them; gone once they are parsed.
    stored: Option<Value>,
    set: FieldSet,
}

impl Fields {
    pub(crate) fn new(set: FieldSet) -> Self {
        Fields { stored: None, set }
    }

    fn stored(fields: &Value) -> Self {
        Fields { stored: Some(fields.clone()), set: FieldSet::new() }
    }

    pub(crate) fn parsed(&mut self) -> &mut FieldSet {
        if let Some(stored) = self.stored.take() {
            // It was written from a set; one that does not read owns nothing.
            self.set = FieldSet::parse(&stored).unwrap_or_default();
        }
        &mut self.set
    }

    pub(crate) fn to_set(&self) -> FieldSet {
        self.clone().parsed().clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.stored {
            Some(stored) => stored.as_object().is_none_or(Map::is_empty),
            None => self.set.is_empty(),
        }
    }

    /// Whether a member of `set` is among them. `written` is that set as [`FieldSet::to_value`] writes it.
    pub(crate) fn meets(&self, set: &FieldSet, written: &Value) -> bool {
        match &self.stored {
            Some(stored) => share_a_member(stored, written),
            None => !self.set.intersection(set).is_empty(),
        }
    }

    fn into_value(self) -> Value {
        self.stored.unwrap_or_else(|| self.set.to_value())
    }
}

/// Whether two written sets have a member in common.
fn share_a_member(left: &Value, right: &Value) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else { return false };
    let (small, large) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    let is_member = |below: &Value| below.as_object().is_none_or(|map| map.is_empty() || map.contains_key("."));
    small.iter().filter(|(step, _)| *step != ".").any(|(step, below)| {
        large.get(step).is_some_and(|other| (is_member(below) && is_member(other)) || share_a_member(below, other))
    })
}

/// All managers of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed(pub(crate) BTreeMap<Identity, Owned>);

/// More updaters than this are merged into one.
const MOST_UPDATERS: usize = 10;

impl Managed {
    /// The managers of a stored object, which the server itself wrote.
    pub(crate) fn of_stored(object: &Value) -> Result<Managed, String> {
        Managed::of(object, |fields| Ok(Fields::stored(fields)))
    }

    /// The managers that a client sent.
    pub(crate) fn of_sent(object: &Value) -> Result<Managed, String> {
        Managed::of(object, |fields| FieldSet::parse(fields).map(Fields::new))
    }

    fn of(object: &Value, read: impl Fn(&Value) -> Result<Fields, String>) -> Result<Managed, String> {
        match object.pointer("/metadata/managedFields") {
            None | Some(Value::Null) => Ok(Managed::default()),
            Some(Value::Array(entries)) => Managed::parse(entries, read),
            Some(_) => Err("managedFields must be a list".to_owned()),
        }
    }

    fn parse(entries: &[Value], read: impl Fn(&Value) -> Result<Fields, String>) -> Result<Managed, String> {
        let mut managed = Managed::default();
        for (index, entry) in entries.iter().enumerate() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if text("apiVersion").is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => Fields::new(FieldSet::new()),
                Some(fields) => read(fields)?,
            };
            let identity = Identity::new(text("manager"), operation, text("apiVersion"), text("subresource"));
            let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
            managed.0.insert(identity, Owned { api_version: text("apiVersion").to_owned(), time, fields });
        }
        Ok(managed)
    }

    /// Whether the object asks to forget all managers: an empty list, or one empty entry.
    pub(crate) fn is_reset(object: &Value) -> bool {
        match object.pointer("/metadata/managedFields") {
            Some(Value::Array(entries)) => match entries.as_slice() {
                [] => true,
                [Value::Object(entry)] => entry.values().all(|value| value.is_null() || value.as_str() == Some("")),
                _ => false,
            },
            _ => false,
        }
    }

    /// Writes the entries into the object: appliers first, then by age and name.
    pub(crate) fn write(self, object: &mut Value) {
        let Value::Object(object) = object else { return };
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(metadata) = metadata else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        let timed = self.0.into_iter().map(|(identity, owned)| (seconds(&owned), identity, owned));
        let mut entries: Vec<(i64, Identity, Owned)> = timed.collect();
        entries.sort_by(|(left_time, left, left_owned), (right_time, right, right_owned)| {
            (left.operation, left_time)
                .cmp(&(right.operation, right_time))
                .then_with(|| left.manager.cmp(&right.manager))
                .then_with(|| left_owned.api_version.cmp(&right_owned.api_version))
                .then_with(|| left.subresource.cmp(&right.subresource))
        });
        let entries = entries.into_iter().map(|(_, identity, owned)| entry(&identity, owned));
        metadata.insert("managedFields".to_owned(), Value::Array(entries.collect()));
    }

    /// Merges the oldest updaters of a version into one until few enough are left.
    pub(crate) fn cap_updaters(&mut self) {
        let mut updaters: Vec<(i64, Identity)> = self
            .0
            .iter()
            .filter(|(identity, _)| identity.operation == Operation::Update)
            .map(|(identity, owned)| (seconds(owned), identity.clone()))
            .collect();
        updaters.sort();
        let mut count = updaters.len();
        let mut first_of_version: BTreeMap<String, Identity> = BTreeMap::new();
        for (_, identity) in updaters {
            if count <= MOST_UPDATERS {
                return;
            }
            let Some(first) = first_of_version.get(&identity.api_version) else {
                first_of_version.insert(identity.api_version.clone(), identity);
                continue;
            };
            let bucket = Identity::new("ancient-changes", Operation::Update, &identity.api_version, "");
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), owned);
            }
            let (Some(newer), Some(ancient)) = (self.0.remove(&identity), self.0.get_mut(&bucket)) else { continue };
            ancient.fields.parsed().extend(&newer.fields.to_set());
            ancient.time = newer.time;
            count -= 1;
        }
    }
}

fn seconds(owned: &Owned) -> i64 {
    owned.time.as_deref().and_then(scalar::unix_seconds).unwrap_or(0)
}

fn entry(identity: &Identity, owned: Owned) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name.to_owned(), Value::from(value));
        }
    };
    put("manager", &identity.manager);
    put("operation", identity.operation.name());
    put("apiVersion", &owned.api_version);
    put("time", owned.time.as_deref().unwrap_or_default());
    put("fieldsType", "FieldsV1");
    put("subresource", &identity.subresource);
    entry.insert("fieldsV1".to_owned(), owned.fields.into_value());
    Value::Object(entry)
}

/// The object without its managers, as it is compared. They may be most of it, and are not copied.
pub(crate) fn without_managers(object: &Value) -> Value {
    let Value::Object(map) = object else { return object.clone() };
    let copied = map.iter().map(|(name, value)| match (name.as_str(), value) {
        ("metadata", Value::Object(metadata)) => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(copied.collect())
}

pub(crate) fn remove_managers(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}
