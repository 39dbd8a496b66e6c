//! Server-side apply, and the tracking of who set which field on every other write.
//!
//! - What a manager applies, it owns. What it applied before and does not apply now is removed, unless another owns it.
//! - Applying a value that another manager owns and that differs is a conflict; with force, ownership moves.
//! - Every other write gives the changed fields to its manager and takes them from all others.
//! - Names, versions, times and the like that the server sets are nobody's.

use crate::decode;
use crate::diff::Diff;
use crate::element::Element;
use crate::fieldset::FieldSet;
use crate::last_applied;
use crate::managed::{Fields, Identity, Managed, Owned, remove_managers, without_managers};
use crate::node::{Kind, Schema};
use crate::typed::{self, Comparison};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::LazyLock;

pub use crate::managed::{Manager, Operation};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// The applied object does not fit its type, or the stored managers cannot be read.
    #[error("{0}")]
    Invalid(String),
}

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// As messages name it: `"kubectl" using v1`.
    pub manager: String,
    /// As messages show it: `.metadata.labels.s`.
    pub field: String,
}

/// One cause of the API's conflict answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

/// The causes that go with the message of [`ApplyError::Conflicts`].
pub fn conflict_causes(conflicts: &[Conflict]) -> Vec<Cause> {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict",
        message: format!("conflict with {}", conflict.manager),
        field: conflict.field.clone(),
    };
    conflicts.iter().map(cause).collect()
}

/// `Apply failed with 1 conflict: conflict with "other" using v1: .metadata.labels.s`.
pub fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.field);
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last: Option<&str> = None;
    for conflict in conflicts {
        if last != Some(conflict.manager.as_str()) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Applies `applied` onto `live` and returns the new object with its managers.
///
/// Fields under the `reset` paths are not owned through this request, as the API resets them. An apply that changes
/// nothing returns an object equal to `live`. The caller brings the result of a built-in type through
/// [`decode::decode`] and its defaults, as it does with every other write.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    manager: &Manager<'_>,
    force: bool,
    reset: &[&[&str]],
) -> Result<Value, ApplyError> {
    let mut outcome = apply_once(schema, live, applied, manager, force, reset);
    if manager.name != last_applied::MANAGER {
        return outcome;
    }
    if let (Err(ApplyError::Conflicts(conflicts)), Some(live)) = (&outcome, live)
        && let Some(ours) = last_applied::still_applied(schema, live, manager.api_version)
    {
        let ours: BTreeSet<String> = ours.paths().iter().map(|path| shown(path)).collect();
        let others: Vec<Conflict> =
            conflicts.iter().filter(|conflict| !ours.contains(&conflict.field)).cloned().collect();
        outcome = if others.is_empty() {
            apply_once(schema, Some(live), applied, manager, true, reset)
        } else {
            Err(ApplyError::Conflicts(others))
        };
    }
    outcome.map(|mut object| {
        last_applied::refresh(&mut object, applied);
        object
    })
}

fn apply_once(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    manager: &Manager<'_>,
    force: bool,
    reset: &[&[&str]],
) -> Result<Value, ApplyError> {
    check_applied(schema, applied, manager)?;
    let mut managed = match live {
        Some(live) => Managed::of_stored(live)
            .map_err(|error| ApplyError::Invalid(format!("failed to decode managed fields: {error}")))?,
        None => Managed::default(),
    };
    let reset = FieldSet::from_paths(reset);
    let identity = Identity::of(manager);
    let live_value = live.map_or_else(|| Value::Object(Map::new()), without_managers);
    let nothing = nothing_of(schema, applied);
    if managed.0.is_empty() && live.is_some() {
        // An object from before tracking: what it holds belongs to somebody, so that applying can conflict.
        let before = Manager { name: "before-first-apply", operation: Operation::Update, ..*manager };
        own_changes(typed::compare(schema, &nothing, &live_value).without(&reset), &mut managed, &before);
    }
    let base = if live.is_some() { &live_value } else { &nothing };
    let merged = typed::merge(schema, &live_value, applied);
    let last = managed.0.get(&identity).map(Last::of);
    let fields = FieldSet::of(schema, applied).recursive_difference(&reset);
    let time = last.as_ref().and_then(|last| last.time.clone());
    // Who applies the same fields again gives none up.
    let gives_up = last.as_ref().filter(|last| last.fields != fields).map(|last| &last.fields);
    let owned = Owned { api_version: manager.api_version.to_owned(), time, fields: Fields::new(fields) };
    managed.0.insert(identity.clone(), owned);
    let object = match gives_up {
        Some(last) => prune(schema, &merged, &managed, last),
        None => merged,
    };
    let comparison = typed::compare(schema, base, &object).without(&reset);
    take_from_others(&mut managed, &identity, &comparison, force)?;

    let unchanged = live.is_some() && typed::equal(&live_value, &object);
    if let Some(owned) = managed.0.get_mut(&identity) {
        let fields = owned.fields.parsed();
        fields.subtract(&SERVER_FIELDS);
        let same_set =
            last.as_ref().is_some_and(|last| last.fields == *fields && last.api_version == owned.api_version);
        if owned.fields.is_empty() {
            managed.0.remove(&identity);
        } else if !(unchanged && same_set) {
            owned.time = Some(manager.time.to_owned());
        }
    }
    let mut object = if unchanged { live_value } else { object };
    managed.write(&mut object);
    Ok(object)
}

/// What a manager owned before it applied again.
struct Last {
    api_version: String,
    time: Option<String>,
    fields: FieldSet,
}

impl Last {
    fn of(owned: &Owned) -> Self {
        Last { api_version: owned.api_version.clone(), time: owned.time.clone(), fields: owned.fields.to_set() }
    }
}

/// Sets `metadata.managedFields` of an object that was created, updated or patched.
///
/// A client that sends no managers keeps those of the stored object; one that sends an empty list, or one empty
/// entry, turns tracking off for an object that exists. Where it is known what differs, `diff` says so.
pub fn track_update(
    schema: &Schema,
    old: Option<&Value>,
    new: &mut Value,
    manager: &Manager<'_>,
    reset: &[&[&str]],
    diff: Option<&Diff>,
) {
    let stored = || old.and_then(|old| Managed::of_stored(old).ok()).unwrap_or_default();
    let mut managed = if !manager.subresource.is_empty() {
        stored()
    } else if Managed::is_reset(new) {
        Managed::default()
    } else {
        match Managed::of_sent(new) {
            Ok(managed) if !managed.0.is_empty() => managed,
            _ => stored(),
        }
    };
    remove_managers(new);
    if !(managed.0.is_empty() && old.is_some()) {
        // That the stored object still has its managers makes no difference: they are a field that nobody owns.
        let nothing;
        let before = match old {
            Some(old) => old,
            None => {
                nothing = nothing_of(schema, new);
                &nothing
            }
        };
        let manager = Manager { operation: Operation::Update, ..*manager };
        let reset = FieldSet::from_paths(reset);
        let comparison = typed::compare_within(schema, before, new, diff.filter(|_| old.is_some())).without(&reset);
        own_changes(comparison, &mut managed, &manager);
    }
    managed.write(new);
}

/// Whether the managers of two objects differ in no more than their times: such a difference alone is no change.
pub fn same_managers_but_for_times(old: &Value, new: &Value) -> bool {
    let managers = |object: &Value| object.pointer("/metadata/managedFields").cloned().unwrap_or_default();
    match (managers(old), managers(new)) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| same_but_for(old, new, "time"))
        }
        (old, new) => old == new,
    }
}

/// Whether two values are the same apart from one member.
fn same_but_for(old: &Value, new: &Value, member: &str) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    let others = |map: &'_ Map<String, Value>| map.len() - usize::from(map.contains_key(member));
    others(old) == others(new)
        && old.iter().filter(|(name, _)| *name != member).all(|(name, value)| new.get(name) == Some(value))
}

fn own_changes(comparison: Comparison, managed: &mut Managed, manager: &Manager<'_>) {
    // The manager's own entry loses what changed like any other and gets it back with the new time.
    let Comparison { added, modified: mut changed, removed } = comparison;
    changed.extend(&added);
    let taken = changed.union(&removed);
    let written = taken.to_value();
    for owned in managed.0.values_mut().filter(|owned| owned.fields.meets(&taken, &written)) {
        owned.fields.parsed().subtract(&taken);
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());
    changed.subtract(&SERVER_FIELDS);
    if !changed.is_empty() {
        let owned = managed.0.entry(Identity::of(manager)).or_insert_with(|| Owned {
            api_version: manager.api_version.to_owned(),
            time: None,
            fields: Fields::new(FieldSet::new()),
        });
        owned.fields.parsed().extend(&changed);
        owned.time = Some(manager.time.to_owned());
    }
    managed.cap_updaters();
}

fn take_from_others(
    managed: &mut Managed,
    identity: &Identity,
    comparison: &Comparison,
    force: bool,
) -> Result<(), ApplyError> {
    let changed = comparison.modified.union(&comparison.added);
    let touched = changed.union(&comparison.removed);
    let written = touched.to_value();
    let mut conflicts = Vec::new();
    let others = managed.0.iter_mut().filter(|(other, _)| *other != identity);
    for (other, owned) in others.filter(|(_, owned)| owned.fields.meets(&touched, &written)) {
        let fields = owned.fields.parsed();
        let taken = fields.intersection(&changed);
        if !taken.is_empty() && !force {
            let conflict = |path: &Vec<Element>| Conflict { manager: other.described(), field: shown(path) };
            conflicts.extend(taken.paths().iter().map(conflict));
        }
        fields.subtract(&taken);
        fields.subtract(&comparison.removed);
    }
    if !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());
    Ok(())
}

fn shown(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// Removes what the manager applied last time, does not apply now, and nobody else owns.
fn prune(schema: &Schema, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
    let root = Some(schema.root_id());
    let full = |set: &FieldSet| set.with_named_fields(schema, root);
    let last = full(last);
    let without_last = typed::remove(schema, merged, &last);
    let mut all_owned = FieldSet::new();
    managed.0.values().for_each(|owned| all_owned.extend(&owned.fields.to_set()));
    let merged_set = full(&FieldSet::of(schema, merged));
    // Back comes what somebody owns now ...
    let kept = full(&FieldSet::of(schema, &without_last)).union(&full(&all_owned));
    let with_owned = typed::remove(schema, merged, &merged_set.difference(&kept));
    // ... and what went along with its parent but was never this manager's.
    let gone = merged_set.difference(&full(&FieldSet::of(schema, &with_owned))).intersection(&last);
    typed::remove(schema, merged, &gone)
}

fn check_applied(schema: &Schema, applied: &Value, manager: &Manager<'_>) -> Result<(), ApplyError> {
    let text = |pointer: &str| applied.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    if version != manager.api_version {
        let message = format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            manager.api_version
        );
        return Err(ApplyError::BadRequest(message));
    }
    if applied.pointer("/metadata/managedFields").is_some_and(|managed| !managed.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    typed::verify(schema, applied).map_err(|error| {
        let (namespace, name, kind) = (text("/metadata/namespace"), text("/metadata/name"), text("/kind"));
        ApplyError::Invalid(format!(
            "failed to create typed patch object ({namespace}/{name}; {version}, Kind={kind}): {error}"
        ))
    })
}

/// The object before it was created: for a built-in type all that the API always writes.
fn nothing_of(schema: &Schema, object: &Value) -> Value {
    let mut nothing = match schema.root().kind {
        Kind::Object { .. } if schema.root().type_name.is_some() => decode::zero_object(schema),
        _ => Value::Object(Map::new()),
    };
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            nothing[name] = value.clone();
        }
    }
    nothing
}

/// What the server sets and nobody owns.
static SERVER_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::from_paths(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

#[cfg(test)]
mod tests;
