//! Why a reconcile runs: the objects that changed, at which revision, by whose hand, and in which fields.
//!
//! A change becomes a [`Cause`] when it wakes a key; the causes of a key add up to [`Causes`] until a worker takes them.
//! The reconcile finds them in its [`Attempt`](crate::Attempt), every log line inside it has them in its span, and every
//! write it makes tells them to the server (see [`header`]), which any server but ours ignores.
//!
//! Nothing is copied or compared before somebody asks: a cause holds on to the two states and looks when it is told.

pub mod header;
mod paths;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;

use crate::informer::Change;
use crate::key::Key;

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
    old: Option<Arc<dyn Subject>>,
    new: Option<Arc<dyn Subject>>,
    /// Group, kind and key where no state is at hand.
    about: Option<(String, String, Key)>,
    writer: Option<Arc<str>>,
    told: OnceLock<Told>,
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

/// An object of any kind, as a cause needs it.
trait Subject: Send + Sync {
    fn metadata(&self) -> &ObjectMeta;
    fn group_and_kind(&self) -> (String, String);
    fn digest(&self) -> paths::Digest;
}

impl<K: Resource<DynamicType = ()> + Serialize + Send + Sync> Subject for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn group_and_kind(&self) -> (String, String) {
        (K::group(&()).into_owned(), K::kind(&()).into_owned())
    }

    fn digest(&self) -> paths::Digest {
        paths::digest(self)
    }
}

impl Cause {
    /// A change that an informer told, and who made it.
    pub fn of<K>(change: &Change<K>, writer: Option<&Arc<str>>) -> Self
    where
        K: Resource<DynamicType = ()> + Serialize + Send + Sync + 'static,
    {
        let wake = match change {
            Change::Added(_) => Wake::Added,
            Change::Updated { .. } => Wake::Updated,
            Change::Deleted(_) => Wake::Deleted,
            Change::Resync(_) => Wake::Resync,
        };
        let old = change.old().map(|old| old.clone() as Arc<dyn Subject>);
        let new: Arc<dyn Subject> = change.object().clone();
        Cause { old, new: Some(new), writer: writer.cloned(), ..Cause::bare(wake) }
    }

    /// A change of an object whose kind is known only at run time, and of which only the metadata is at hand.
    pub fn named(wake: Wake, group: &str, kind: &str, meta: &ObjectMeta) -> Self {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let told = Told {
            event: wake,
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: part(&meta.namespace),
            name: part(&meta.name),
            uid: part(&meta.uid),
            revision: part(&meta.resource_version),
            writer: String::new(),
            paths: Vec::new(),
        };
        Cause { told: OnceLock::from(told), ..Cause::bare(wake) }
    }

    /// The reconciler asked for it. Group and kind are empty where the loop has not said what its keys name.
    pub fn timer(group: &str, kind: &str, key: &Key) -> Self {
        Cause { about: Some((group.to_owned(), kind.to_owned(), key.clone())), ..Cause::bare(Wake::Timer) }
    }

    /// The attempt before failed.
    pub fn retry() -> Self {
        Cause::bare(Wake::Retry)
    }

    fn bare(wake: Wake) -> Self {
        Cause { wake, old: None, new: None, about: None, writer: None, told: OnceLock::new() }
    }

    pub fn wake(&self) -> Wake {
        self.wake
    }

    /// In full; the first call compares the two states.
    pub fn told(&self) -> &Told {
        self.told.get_or_init(|| {
            let (group, kind, key) = match (&self.new, &self.about) {
                (Some(object), _) => {
                    let ((group, kind), meta) = (object.group_and_kind(), object.metadata());
                    let part = |part: &Option<String>| part.clone().unwrap_or_default();
                    (group, kind, Key::new(part(&meta.namespace), part(&meta.name)))
                }
                (None, about) => about.clone().unwrap_or_default(),
            };
            let meta = self.new.as_ref().map(|object| object.metadata());
            let paths = match (&self.old, &self.new) {
                (Some(old), Some(new)) => paths::changed(&old.digest(), &new.digest()),
                _ => Vec::new(),
            };
            Told {
                event: self.wake,
                group,
                kind,
                namespace: key.namespace().to_owned(),
                name: key.name().to_owned(),
                uid: meta.and_then(|meta| meta.uid.clone()).unwrap_or_default(),
                revision: meta.and_then(|meta| meta.resource_version.clone()).unwrap_or_default(),
                writer: self.writer.as_deref().unwrap_or_default().to_owned(),
                paths,
            }
        })
    }

    /// Whether both are about the same object, in the same life.
    fn concerns_same(&self, other: &Cause) -> bool {
        match (&self.new, &other.new) {
            (Some(one), Some(two)) => one.metadata().uid == two.metadata().uid && one.metadata().uid.is_some(),
            (None, None) => self.wake == other.wake && self.told().uid == other.told().uid,
            _ => false,
        }
    }

    /// The later of two causes by one object, as a change since the state before the earlier.
    fn since(mut self, earlier: &Cause) -> Self {
        if self.wake == Wake::Resync {
            return earlier.clone();
        }
        if self.new.is_none() {
            return self;
        }
        if self.wake == Wake::Updated && matches!(earlier.wake, Wake::Added | Wake::Updated) {
            self.wake = earlier.wake;
            self.old.clone_from(&earlier.old);
        }
        self.told = OnceLock::new();
        self
    }
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
