//! What is special about a kind: what to fill in, what to refuse, which columns to print. Nothing else is.
//!
//! Every method has the answer that fits most kinds, so that a kind's own file says only where it differs.

use jiff::Timestamp;
use pintle_meta::{field, rules};
use serde_json::Value;
use std::borrow::Cow;

/// A printed column. Descriptions come from the type's documentation at run time.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub format: &'static str,
    /// 0 is always printed, 1 with `-o wide`.
    pub priority: u8,
    /// Which field's documentation describes it, `core.v1.PodStatus.phase`; or words of our own.
    pub about: &'static str,
}

pub const fn column(name: &'static str, kind: &'static str, about: &'static str) -> Column {
    Column { name, kind, format: "", priority: 0, about }
}

pub const fn wide(name: &'static str, kind: &'static str, about: &'static str) -> Column {
    Column { name, kind, format: "", priority: 1, about }
}

/// A column and what stands in it for an object.
#[derive(Clone, Copy)]
pub struct Printed {
    pub column: Column,
    pub cell: fn(&Value, Timestamp) -> Value,
}

pub const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", priority: 0, about: "meta.v1.ObjectMeta.name" };
pub const AGE: Column = column("Age", "string", "meta.v1.ObjectMeta.creationTimestamp");
pub const CREATED_AT: Column = column("Created At", "date", "meta.v1.ObjectMeta.creationTimestamp");

/// The columns of a kind that has none of its own.
const PLAIN: &[Printed] = &[
    Printed { column: NAME, cell: |object, _| pintle_meta::object::name(object).into() },
    Printed {
        column: CREATED_AT,
        cell: |object, _| pintle_meta::object::text(object, &["metadata", "creationTimestamp"]).into(),
    },
];

/// What the grace period of a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// Deleted at once.
    None,
    /// Marked now, deleted when this many seconds have passed or the owner of the process says so.
    Seconds(i64),
}

/// What becomes of dependents when the deletion does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    Background,
    Orphan,
}

pub trait Strategy: Send + Sync + 'static {
    /// Fills in what was left out. Runs on everything that comes in, before admission.
    fn default(&self, _object: &mut Value) {}

    /// The last touch before a new object is checked and stored; `status` is already taken off where it is a
    /// subresource.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Whoever creates an object of this kind also says its first status, as a node agent does.
    fn creates_with_status(&self) -> bool {
        false
    }

    /// The same for a changed object; `status` is already the old one where it is a subresource. A write through
    /// another subresource (`finalize`, `approval`, `resize`) names it; the kind lets through what belongs to it.
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _subresource: &str) {}

    /// The same for a write through the status subresource; everything but `status` and some metadata is the old one.
    fn prepare_status(&self, _object: &mut Value, _old: &Value) {}

    /// After either of them: fills in moments that a writer may leave out.
    fn fill_in_times(&self, _object: &mut Value, _old: &Value, _now: Timestamp) {}

    /// The object as its types are checked, where a loop changes what is in it before it counts.
    fn as_checked<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(object)
    }

    /// What is wrong with an object, whichever way it is written but through its status. `old` is the stored one, if there is one.
    fn validate(&self, _object: &Value, _old: Option<&Value>, _errors: &mut field::Errors) {}

    /// What may not change. `validate` runs too.
    fn validate_update(&self, _object: &Value, _old: &Value, _subresource: &str, _errors: &mut field::Errors) {}

    fn validate_status(&self, _object: &Value, _old: &Value, _errors: &mut field::Errors) {}

    /// A remark that every answer about this kind carries.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// A remark on a deletion that says nothing about dependents.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Remarks that do not refuse anything. `old` is the stored object, if there is one.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::dns_subdomain(name)
    }

    /// `metadata.generation` counts changes of the spec.
    fn counts_generations(&self) -> bool {
        false
    }

    /// Changed annotations count as a change of the spec.
    fn counts_annotations(&self) -> bool {
        false
    }

    /// The fields besides name and namespace that a field selector may ask for.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Those of them by which objects are watched so often that the store finds the watchers by their value.
    fn indexed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The same for a custom kind: its definition declares them.
    fn declared_fields(&self) -> &[String] {
        &[]
    }

    /// The value of one of them.
    fn selectable_field(&self, object: &Value, field: &str) -> String {
        let path: Vec<&str> = field.split('.').collect();
        match pintle_meta::object::at(object, &path) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }

    /// What to say about a field that selectors may not ask for.
    fn unknown_field(&self, field: &str) -> String {
        let offered = self.selectable_fields();
        if offered.is_empty() {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        } else {
            format!("field label not supported: {field}")
        }
    }

    /// The schema that the definition of a custom kind brings.
    fn open_api(&self) -> Option<Value> {
        None
    }

    /// The columns of a built-in kind and what stands in them.
    fn printed(&self) -> &'static [Printed] {
        PLAIN
    }

    fn columns(&self) -> Vec<ColumnDefinition> {
        self.printed().iter().map(|printed| ColumnDefinition::from(&printed.column)).collect()
    }

    /// One cell a column, in their order.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.printed().iter().map(|printed| (printed.cell)(object, now)).collect()
    }

    fn grace(&self, _object: &Value, _asked: Option<i64>) -> Grace {
        Grace::None
    }

    /// `PUT` to a name that does not exist creates it.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// An update without a resourceVersion overwrites whatever is there.
    fn updates_unconditionally(&self) -> bool {
        true
    }

    fn dependents(&self) -> Dependents {
        Dependents::Background
    }

    /// A deletion answers with the object, not with a Status.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Seconds after which an object expires by itself.
    fn time_to_live(&self, _object: &Value) -> Option<i64> {
        None
    }

    /// Losing the last second of these in a crash does no harm.
    fn is_ephemeral(&self) -> bool {
        false
    }

    /// From the version that is stored to the one that is asked for.
    fn read_stored(&self, _object: &mut Value) {}

    /// From the version that came in to the one that is stored.
    fn to_stored(&self, _object: &mut Value) {}

    /// Names that this object alone may hold (an address, a port), as keys of the store. Those of an object as it
    /// came in are what the user asked for; those that `prepare_…` adds were chosen.
    fn claims(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The IPAddress that shows everybody that this object has a claim.
    fn shown_claim(&self, _object: &Value, _claim: &str) -> Option<Value> {
        None
    }

    /// The error that says a claim of this object is held by another.
    fn claim_error(&self, _object: &Value, claim: &str) -> field::Error {
        field::Error::invalid(&field::Path::root(), claim, "provided value is already allocated")
    }

    /// Chooses another value in place of a claim that was chosen and turned out to be taken.
    fn reassign(&self, _object: &mut Value, _claim: &str) {}

    /// A deletion waits until what belongs to the object is gone, and is not counted in seconds.
    fn waits_for_contents(&self) -> bool {
        false
    }

    /// May an object without finalizers go? A namespace has finalizers of its own in its spec.
    fn is_deletable(&self, _object: &Value) -> bool {
        true
    }

    /// What a deletion that waits writes into the object besides its time.
    fn mark_deleted(&self, _object: &mut Value) {}

    /// Where replicas, their status and their selector stand, for the scale subresource.
    fn scale(&self) -> Option<ScalePaths> {
        Some(ScalePaths {
            replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("status.selector".into()),
        })
    }
}

#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

/// A column as it is served: a built-in one, or one that a definition declares.
#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub priority: i64,
    pub about: String,
}

impl From<&Column> for ColumnDefinition {
    fn from(column: &Column) -> Self {
        ColumnDefinition {
            name: column.name.into(),
            kind: column.kind.into(),
            format: column.format.into(),
            priority: column.priority.into(),
            about: column.about.into(),
        }
    }
}

/// A kind with nothing special about it.
pub struct Plain;

impl Strategy for Plain {}
