//! A write on its way: what it makes of what is there, and what all its steps need.

use super::Registry;
use crate::admission::Conditions;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::notes::Notes;
use pintle_meta::{Status, object};
use pintle_schema::diff::Diff;
use pintle_store::Entry;
use serde_json::Value;
use std::sync::Arc;

/// What a write makes of what is there.
pub struct Change {
    /// The whole new object, decoded, defaulted and in the version that is stored.
    pub object: Value,
    /// Its managed fields are already right (an apply wrote them).
    pub tracked: bool,
    /// What admission is shown.
    pub shown: Shown,
}

/// What of an object admission plugins see and may change.
pub enum Shown {
    Object,
    /// An object of another kind that stands for a part of it, as a Scale does.
    Part(Arc<dyn Part>),
    /// They have seen what the client sent.
    Nothing,
}

/// A part of an object with a kind of its own.
pub trait Part: Send + Sync {
    fn of(&self, object: &Value) -> Value;
    fn put(&self, object: &mut Value, part: &Value) -> Result<(), Status>;
}

impl Change {
    pub fn new(object: Value) -> Self {
        Change { object, tracked: false, shown: Shown::Object }
    }
}

/// An object as it is stored.
pub(super) struct Stored {
    pub(super) entry: Arc<Entry>,
    pub(super) value: Value,
}

/// What all steps of a write need.
pub(super) struct Write<'a> {
    pub(super) registry: &'a Registry,
    pub(super) call: &'a Call,
    pub(super) notes: &'a Notes,
    /// In the version in which objects are stored.
    pub(super) resource: Arc<Resource>,
    /// By whose schema the object is checked and its fields are owned: the version that the client speaks, where versions differ
    /// in nothing but their schemas.
    pub(super) spoken: Arc<Resource>,
    pub(super) manager: String,
    pub(super) dry_run: bool,
}

/// The object on its way through the steps.
pub(super) struct Draft<'a> {
    pub(super) old: Option<&'a Stored>,
    pub(super) object: Value,
    pub(super) tracked: bool,
    pub(super) shown: Shown,
    /// The resourceVersion of a new object, which should have none.
    pub(super) sent_version: String,
    /// Its name was generated, and may be generated again.
    pub(super) generated: bool,
    /// Names that the client asks for; others are chosen.
    pub(super) asked: Vec<String>,
    /// What the write changes.
    pub(super) diff: Diff,
    /// What must be as it is now when the write is committed.
    pub(super) conditions: Conditions,
}

impl<'a> Draft<'a> {
    pub(super) fn new(old: Option<&'a Stored>, change: Change) -> Self {
        let Change { object, tracked, shown } = change;
        Draft {
            old,
            sent_version: object::resource_version(&object).to_owned(),
            object,
            tracked,
            shown,
            generated: false,
            asked: Vec::new(),
            diff: Diff::default(),
            conditions: Conditions::default(),
        }
    }

    pub(super) fn old_value(&self) -> Option<&'a Value> {
        self.old.map(|old| &old.value)
    }
}
