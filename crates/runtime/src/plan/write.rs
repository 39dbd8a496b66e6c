//! One write: where, what, at which pace, and what is said about it.

use std::fmt;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use pintle_kinds::Kind;
use serde_json::{Value, json};

use crate::owner::Cascade;

/// One request that changes something, or that must go well before the next one is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The path of the collection, such as `/api/v1/namespaces/shop/pods`.
    pub collection: String,
    /// Empty if the server makes it.
    pub name: String,
    pub subresource: Option<&'static str>,
    pub what: What,
    pub pace: Pace,
    pub said: Said,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// So many objects of this text. More than one need a `generateName`.
    Create { body: Bytes, count: usize, if_there: IfThere },
    /// The whole object, at the version that it carries.
    Replace { body: Bytes },
    /// RFC 7386. What it is to be guarded by stands in its metadata.
    Merge { patch: Value },
    /// With Kubernetes' list semantics.
    Strategic { patch: Value },
    /// Server-side apply in the name of this manager, by force; not if this process applied the same before and it still shows.
    Apply { object: Value, manager: &'static str, shows: bool },
    /// Exactly this object, not a successor of the same name.
    Delete { uid: Option<String>, version: Option<String>, cascade: Option<Cascade>, grace_seconds: Option<u32> },
    /// Changes nothing: the object must still be there and not on its way out, asked of the server and not of the cache.
    StillThere { uid: Option<String> },
}

/// What a creation of a name that is taken means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfThere {
    Fine,
    Fail,
}

/// How a write goes with its neighbours in the same collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One after the other.
    InOrder,
    /// All at once with neighbours that say the same; one that fails does not keep the others from being tried.
    Together,
    /// In rounds of 1, 2, 4, …; the round in which one fails is the last.
    SlowStart,
}

/// The Events that come of a write: a reason and a message, in which `{name}` and `{error}` are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub if_done: Option<(&'static str, String)>,
    pub if_failed: Option<(&'static str, String)>,
}

impl Write {
    pub fn create<K: Kind<DynamicType = ()>>(object: &K) -> Self {
        let what = What::Create { body: encoded(object), count: 1, if_there: IfThere::Fail };
        Write::at(collection_of(object), name_of(object.meta()), what)
    }

    pub fn replace<K: Kind<DynamicType = ()>>(object: &K) -> Self {
        Write::at(collection_of(object), name_of(object.meta()), What::Replace { body: encoded(object) })
    }

    /// A merge patch of this object, and of no successor of the same name.
    pub fn merge<K: Resource<DynamicType = ()>>(object: &K, patch: Value) -> Self {
        let patch = guarded(patch, object.meta().uid.as_deref(), None);
        Write::at(collection_of(object), name_of(object.meta()), What::Merge { patch })
    }

    /// The same if the object is still at the version that was read.
    pub fn merge_at_version<K: Resource<DynamicType = ()>>(object: &K, patch: Value) -> Self {
        let meta = object.meta();
        let patch = guarded(patch, meta.uid.as_deref(), meta.resource_version.as_deref());
        Write::at(collection_of(object), name_of(meta), What::Merge { patch })
    }

    /// A strategic patch of this object, and of no successor of the same name.
    pub fn strategic<K: Resource<DynamicType = ()>>(object: &K, patch: Value) -> Self {
        let patch = guarded(patch, object.meta().uid.as_deref(), None);
        Write::at(collection_of(object), name_of(object.meta()), What::Strategic { patch })
    }

    /// Makes the fields of the object so, and owns them, in the name of the manager. Say what is there with [`Write::over`], and
    /// nothing is sent while nothing changes.
    pub fn apply<K: Kind<DynamicType = ()>>(object: &K, manager: &'static str) -> Self {
        let mut applied: Value = serde_json::from_slice(&encoded(object)).unwrap_or_default();
        applied["apiVersion"] = K::api_version(&()).into();
        applied["kind"] = K::kind(&()).into();
        Write::at(collection_of(object), name_of(object.meta()), What::Apply { object: applied, manager, shows: false })
    }

    /// An apply over what the informer shows: it is left out if every applied field shows already and this process applied the
    /// same before. So each process applies an object once, and again when somebody changed it or when other fields are wanted.
    pub fn over<K: Kind<DynamicType = ()>>(mut self, observed: Option<&K>) -> Self {
        if let What::Apply { object, shows, .. } = &mut self.what {
            let observed = observed.and_then(|observed| serde_json::from_slice(&encoded(observed)).ok());
            *shows = observed.is_some_and(|observed: Value| contains(&observed, object));
        }
        self
    }

    /// Exactly this object goes.
    pub fn delete<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let what = What::Delete { uid: object.meta().uid.clone(), version: None, cascade: None, grace_seconds: None };
        Write::at(collection_of(object), name_of(object.meta()), what)
    }

    /// What comes after it is only done if the server still has this object, and it is not on its way out.
    pub fn still_there<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let what = What::StillThere { uid: object.meta().uid.clone() };
        Write::at(collection_of(object), name_of(object.meta()), what)
    }

    pub(crate) fn at(collection: String, name: String, what: What) -> Self {
        Write { collection, name, subresource: None, what, pace: Pace::InOrder, said: Said::default() }
    }

    /// So many of them, in rounds that double.
    pub fn times(mut self, times: usize) -> Self {
        if let What::Create { count, .. } = &mut self.what {
            *count = times;
            self.pace = Pace::SlowStart;
        }
        self
    }

    /// A creation whose name is taken is no failure.
    pub fn unless_there(mut self) -> Self {
        if let What::Create { if_there, .. } = &mut self.what {
            *if_there = IfThere::Fine;
        }
        self
    }

    /// A deletion that happens only if nobody has written the object since it was read.
    pub fn at_version_of(mut self, meta: &ObjectMeta) -> Self {
        if let What::Delete { version, .. } = &mut self.what {
            version.clone_from(&meta.resource_version);
        }
        self
    }

    /// What becomes of what the deleted object owns.
    pub fn cascading(mut self, how: Cascade) -> Self {
        if let What::Delete { cascade, .. } = &mut self.what {
            *cascade = Some(how);
        }
        self
    }

    pub fn within_seconds(mut self, grace: u32) -> Self {
        if let What::Delete { grace_seconds, .. } = &mut self.what {
            *grace_seconds = Some(grace);
        }
        self
    }

    pub fn of(mut self, subresource: &'static str) -> Self {
        self.subresource = Some(subresource);
        self
    }

    pub fn paced(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// An Event when it is done; `{name}` is the object's name.
    pub fn saying(mut self, reason: &'static str, message: impl Into<String>) -> Self {
        self.said.if_done = Some((reason, message.into()));
        self
    }

    /// A warning when it fails; `{error}` is what the server said.
    pub fn warning(mut self, reason: &'static str, message: impl Into<String>) -> Self {
        self.said.if_failed = Some((reason, message.into()));
        self
    }

    /// What is sent, for readers of a plan.
    pub fn body(&self) -> Value {
        match &self.what {
            What::Create { body, .. } | What::Replace { body } => serde_json::from_slice(body).unwrap_or_default(),
            What::Merge { patch } | What::Strategic { patch } | What::Apply { object: patch, .. } => patch.clone(),
            What::Delete { .. } | What::StillThere { .. } => Value::Null,
        }
    }

    /// How many requests this is.
    pub(crate) fn count(&self) -> usize {
        match self.what {
            What::Create { count, .. } => count,
            _ => 1,
        }
    }
}

/// `create pods`, `create 3 pods`, `delete pods/web-0`: plans in tests and logs.
impl fmt::Display for Write {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self.collection.rsplit('/').next().unwrap_or_default();
        match &self.what {
            What::Create { .. } if !self.name.is_empty() => write!(formatter, "create {resource}/{}", self.name),
            What::Create { count: 1, .. } => write!(formatter, "create {resource}"),
            What::Create { count, .. } => write!(formatter, "create {count} {resource}"),
            What::Replace { .. } => write!(formatter, "replace {resource}/{}", self.name),
            What::Merge { .. } | What::Strategic { .. } => write!(formatter, "patch {resource}/{}", self.name),
            What::Apply { .. } => write!(formatter, "apply {resource}/{}", self.name),
            What::Delete { .. } => write!(formatter, "delete {resource}/{}", self.name),
            What::StillThere { .. } => write!(formatter, "check {resource}/{}", self.name),
        }?;
        self.subresource.map_or(Ok(()), |subresource| write!(formatter, "/{subresource}"))
    }
}

pub(crate) fn collection_of<K: Resource<DynamicType = ()>>(object: &K) -> String {
    K::url_path(&(), object.meta().namespace.as_deref())
}

pub(crate) fn name_of(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

/// Types of the API are always JSON; what is not is refused by the server.
fn encoded<K: Kind>(object: &K) -> Bytes {
    K::CODEC.encode(object).unwrap_or_default().into()
}

pub(crate) fn guarded(mut patch: Value, uid: Option<&str>, version: Option<&str>) -> Value {
    if !patch["metadata"].is_object() {
        patch["metadata"] = json!({});
    }
    if let Some(uid) = uid {
        patch["metadata"]["uid"] = uid.into();
    }
    if let Some(version) = version {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    patch
}

/// Whether all that is wanted is there; there may be more. Items of lists are compared one by one.
fn contains(observed: &Value, wanted: &Value) -> bool {
    match (observed, wanted) {
        (Value::Object(observed), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            // What people leave out, many clients write as null; the type of an observed object is known anyway.
            let observed = observed.get(name).unwrap_or(&Value::Null);
            matches!(name.as_str(), "apiVersion" | "kind") || contains(observed, wanted)
        }),
        (Value::Array(observed), Value::Array(wanted)) => {
            observed.len() == wanted.len() && observed.iter().zip(wanted).all(|(one, two)| contains(one, two))
        }
        (observed, wanted) => observed == wanted,
    }
}
