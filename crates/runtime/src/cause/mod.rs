//! Why a reconcile runs: the objects that changed, at which revision, by whose hand, and in which fields.
//!
//! A change becomes a [`Cause`] when it wakes a key; the causes of a key add up to [`Causes`] until a worker takes them.
//! The reconcile finds them in its [`Attempt`](crate::Attempt), every log line inside it has them in its span, and every
//! write it makes tells them to the server (see [`header`]), which any server but ours ignores.
//!
//! A cause holds names and versions, never the object: keys may wait for long, and objects are large. All loops that one change
//! wakes share what it says.

pub mod header;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_kinds::{Codec, Kind, Object, changed};
use serde::Serialize;

use crate::informer::Change;
use crate::key::Key;
use crate::owner::GroupKind;
use crate::trace::{self, TraceParent};

/// A key remembers so many; the first and the newest stay.
pub const MOST: usize = 8;

/// What sort of thing woke a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wake {
    Added,
    Updated,
    Deleted,
    /// The period has passed; nothing changed.
    Resync,
    /// The reconciler asked to be called again, or nobody said why.
    Timer,
    /// The attempt before failed.
    Retry,
}

/// One reason for a reconcile.
#[derive(Clone)]
pub struct Cause {
    wake: Wake,
    /// Nothing for a retry.
    subject: Option<Arc<Subject>>,
    /// Which fields changed, also by earlier changes that this one took in.
    paths: Arc<[String]>,
}

/// Which object changed, and by whose hand.
struct Subject {
    of: Arc<GroupKind>,
    key: Key,
    uid: Box<str>,
    revision: Box<str>,
    writer: Option<Arc<str>>,
    trace: Option<TraceParent>,
}

/// A cause as people and servers read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    pub event: Wake,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Who wrote that revision, as far as the object tells.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub writer: String,
    /// Which fields are not what they were, two levels deep: `spec.replicas`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

impl Subject {
    fn of(kind: Arc<GroupKind>, meta: &ObjectMeta, writer: Option<&Arc<str>>) -> Self {
        let part = |part: &Option<String>| part.as_deref().unwrap_or_default().into();
        let (uid, revision) = (part(&meta.uid), part(&meta.resource_version));
        Subject { of: kind, key: Key::of_meta(meta), uid, revision, writer: writer.cloned(), trace: trace::of(meta) }
    }
}

impl Cause {
    /// A change, and who made it.
    pub fn of<K: Kind<DynamicType = ()>>(change: &Change<K>, writer: Option<&Arc<str>>) -> Self {
        let kind = Arc::new(GroupKind::of_dynamic::<K>(&()));
        let subject = Subject::of(kind, change.object().meta(), writer);
        let states = change.old().map(|old| (old.as_ref() as &dyn Object, change.object().as_ref() as &dyn Object));
        Cause { paths: paths(states, K::CODEC), ..Cause::about(wake_of(change), subject) }
    }

    /// A change that an informer told.
    pub(crate) fn of_change(
        change: &Change<dyn Object>,
        writer: Option<&Arc<str>>,
        (kind, codec): (&Arc<GroupKind>, &Codec),
    ) -> Self {
        let subject = Subject::of(kind.clone(), change.object().metadata(), writer);
        let states = change.old().map(|old| (old.as_ref(), change.object().as_ref()));
        Cause { paths: paths(states, codec), ..Cause::about(wake_of(change), subject) }
    }

    /// A change of an object whose kind is known only at run time, and of which only the metadata is at hand.
    pub fn named(wake: Wake, group: &str, kind: &str, meta: &ObjectMeta) -> Self {
        let kind = GroupKind { group: group.to_owned(), kind: kind.to_owned(), is_cluster_scoped: false };
        Cause::about(wake, Subject::of(Arc::new(kind), meta, None))
    }

    /// The reconciler asked for it. The kind is empty where the loop has not said what its keys name.
    pub(crate) fn timer(of: Arc<GroupKind>, key: &Key) -> Self {
        let (uid, revision) = Default::default();
        Cause::about(Wake::Timer, Subject { of, key: key.clone(), uid, revision, writer: None, trace: None })
    }

    /// The attempt before failed.
    pub fn retry() -> Self {
        Cause { wake: Wake::Retry, subject: None, paths: Arc::default() }
    }

    fn about(wake: Wake, subject: Subject) -> Self {
        Cause { wake, subject: Some(Arc::new(subject)), paths: Arc::default() }
    }

    pub fn wake(&self) -> Wake {
        self.wake
    }

    /// The trace that the object carries.
    pub fn trace(&self) -> Option<TraceParent> {
        self.subject.as_ref()?.trace
    }

    /// In full.
    pub fn told(&self) -> Told {
        let subject = self.subject.as_deref();
        let text = |part: fn(&Subject) -> &str| subject.map(part).unwrap_or_default().to_owned();
        Told {
            event: self.wake,
            group: text(|subject| &subject.of.group),
            kind: text(|subject| &subject.of.kind),
            namespace: text(|subject| subject.key.namespace()),
            name: text(|subject| subject.key.name()),
            uid: text(|subject| &subject.uid),
            revision: text(|subject| &subject.revision),
            writer: text(|subject| subject.writer.as_deref().unwrap_or_default()),
            paths: self.paths.to_vec(),
        }
    }

    /// Whether both are about the same object, in the same life.
    fn concerns_same(&self, other: &Cause) -> bool {
        match (&self.subject, &other.subject) {
            (Some(one), Some(two)) if one.uid.is_empty() => {
                self.wake == other.wake && two.uid.is_empty() && one.key == two.key
            }
            (Some(one), Some(two)) => one.uid == two.uid,
            (None, None) => self.wake == other.wake,
            _ => false,
        }
    }

    /// The later of two causes by one object, as a change since the state before the earlier.
    fn since(mut self, earlier: &Cause) -> Self {
        if self.wake == Wake::Resync {
            return earlier.clone();
        }
        match (earlier.wake, self.wake) {
            (Wake::Added, Wake::Updated) => (self.wake, self.paths) = (Wake::Added, Arc::default()),
            (Wake::Updated, Wake::Updated) if self.paths.is_empty() => self.paths = earlier.paths.clone(),
            (Wake::Updated, Wake::Updated) => {
                let mut both: Vec<String> = earlier.paths.iter().chain(self.paths.iter()).cloned().collect();
                both.sort();
                both.dedup();
                self.paths = both.into();
            }
            _ => {}
        }
        self
    }
}

fn wake_of<K: ?Sized>(change: &Change<K>) -> Wake {
    match change {
        Change::Added(_) => Wake::Added,
        Change::Updated { .. } => Wake::Updated,
        Change::Deleted(_) => Wake::Deleted,
        Change::Resync(_) => Wake::Resync,
    }
}

fn paths(states: Option<(&dyn Object, &dyn Object)>, codec: &Codec) -> Arc<[String]> {
    states.map_or_else(Arc::default, |(old, new)| changed::paths(codec, old, new).into())
}

impl fmt::Debug for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// `updated ReplicaSet default/web@123 by kubectl (spec.replicas)`
impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.told();
        let event = match told.event {
            Wake::Added => "added",
            Wake::Updated => "updated",
            Wake::Deleted => "deleted",
            Wake::Resync => "resync",
            Wake::Timer => return write!(formatter, "timer of {} {}/{}", told.kind, told.namespace, told.name),
            Wake::Retry => return formatter.write_str("retry"),
        };
        let slash = if told.namespace.is_empty() { "" } else { "/" };
        write!(formatter, "{event} {} {}{slash}{}@{}", told.kind, told.namespace, told.name, told.revision)?;
        if !told.writer.is_empty() {
            write!(formatter, " by {}", told.writer)?;
        }
        if !told.paths.is_empty() {
            write!(formatter, " ({})", told.paths.join(", "))?;
        }
        Ok(())
    }
}

/// All reasons for one reconcile, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    causes: Vec<Cause>,
    /// How many more there were.
    left_out: usize,
}

impl Causes {
    /// Adds one; several changes of one object become one change.
    pub fn add(&mut self, cause: Cause) {
        if let Some(known) = self.causes.iter_mut().find(|known| known.concerns_same(&cause)) {
            *known = cause.since(known);
        } else if self.causes.len() < MOST {
            self.causes.push(cause);
        } else {
            self.left_out += 1;
            if let Some(newest) = self.causes.last_mut() {
                *newest = cause;
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.causes.iter()
    }

    /// The trace of the first cause that has one.
    pub fn trace(&self) -> Option<TraceParent> {
        self.causes.iter().find_map(Cause::trace)
    }

    pub fn len(&self) -> usize {
        self.causes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cause) in self.causes.iter().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(formatter, "{comma}{cause}")?;
        }
        if self.left_out > 0 {
            write!(formatter, "; and {} more", self.left_out)?;
        }
        Ok(())
    }
}
