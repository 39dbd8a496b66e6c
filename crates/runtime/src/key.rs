//! The identity that queues carry: a namespace and a name, never the object itself.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Which object. Loops get a key and read the latest state; the event that woke them is never trusted.
///
/// The namespace is empty for cluster-scoped kinds. Keys sort by namespace, then name. A clone shares the letters.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Of the text. Queues look keys up again and again; their letters are read once.
    hash: u32,
    namespace: u32,
    /// The namespace, then the name. Two keys with one text and one length are the same.
    text: Arc<str>,
}

impl Key {
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        let (namespace, name) = (namespace.as_ref(), name.as_ref());
        let text: Arc<str> = match namespace {
            "" => Arc::from(name),
            namespace => Arc::from([namespace, name].concat()),
        };
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        let hash = hasher.finish() as u32;
        Key { hash, namespace: u32::try_from(namespace.len()).unwrap_or(u32::MAX), text }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl AsRef<str>) -> Self {
        Key::new("", name)
    }

    pub fn of<K: Resource>(object: &K) -> Self {
        Key::of_meta(object.meta())
    }

    pub fn of_meta(meta: &ObjectMeta) -> Self {
        Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    pub fn namespace(&self) -> &str {
        self.split().0
    }

    pub fn name(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        self.text.split_at_checked(self.namespace as usize).unwrap_or((&self.text, ""))
    }
}

impl Default for Key {
    fn default() -> Self {
        Key::cluster("")
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.split().cmp(&other.split())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.split() {
            ("", name) => formatter.write_str(name),
            (namespace, name) => write!(formatter, "{namespace}/{name}"),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({self})")
    }
}
