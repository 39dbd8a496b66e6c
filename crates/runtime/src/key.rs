//! The identity that queues carry: a namespace and a name, never the object itself.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use kube::Resource;

/// Which object. Loops get a key and read the latest state; the event that woke them is never trusted.
///
/// The namespace is empty for cluster-scoped kinds. Keys sort by namespace, then name. A clone shares the letters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The namespace, then the name. Two keys with one text and one length are the same.
    text: Arc<str>,
    namespace: u32,
}

impl Key {
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        let (namespace, name) = (namespace.as_ref(), name.as_ref());
        let text = match namespace {
            "" => Arc::from(name),
            namespace => Arc::from([namespace, name].concat()),
        };
        Key { text, namespace: u32::try_from(namespace.len()).unwrap_or(u32::MAX) }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl AsRef<str>) -> Self {
        Key::new("", name)
    }

    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
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
