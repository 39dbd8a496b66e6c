//! What a watch is about: the keys under a prefix, one key, or those under a prefix with a value in an index.

use std::fmt;
use std::sync::Arc;

use crate::{Entry, Event, EventKind};

/// The changes that a watch delivers; it is not woken for others.
#[derive(Debug, Clone)]
pub enum Interest {
    /// Every key that starts with this.
    Prefix(Arc<str>),
    /// This key alone.
    Key(Arc<str>),
    /// The keys under a prefix whose version before or after the change has a value in an index: a change that
    /// moves a key from `a` to `b` concerns the watches of both.
    Indexed { prefix: Arc<str>, index: Index, value: Arc<str> },
}

/// A function from an entry's bytes to one value, which the store does not understand but can route changes by.
///
/// The store calls it while it publishes a change, for the versions before and after it, and only if somebody watches by
/// this index under a prefix of the key. It should take its answer from what was [derived](Entry::derive), so that it is
/// computed at most once for each version. Under one prefix, a name always stands for the same function.
#[derive(Clone)]
pub struct Index {
    name: Arc<str>,
    value_of: Arc<ValueOf>,
}

type ValueOf = dyn Fn(&Entry) -> &str + Send + Sync;

impl Index {
    pub fn new(name: impl Into<Arc<str>>, value_of: impl Fn(&Entry) -> &str + Send + Sync + 'static) -> Self {
        Self { name: name.into(), value_of: Arc::new(value_of) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The values that a change concerns: of the version before it, and of the one after it if that is another.
    pub(crate) fn values<'a>(&self, event: &'a Event) -> impl Iterator<Item = &'a str> {
        let before = event.previous.as_deref().map(|entry| (self.value_of)(entry));
        // The entry of a delete is the version before it again.
        let after = (event.kind == EventKind::Put).then(|| (self.value_of)(&event.entry));
        before.into_iter().chain(after.filter(|after| before != Some(*after)))
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

impl Interest {
    pub fn prefix(prefix: impl Into<Arc<str>>) -> Self {
        Self::Prefix(prefix.into())
    }

    pub(crate) fn concerns(&self, event: &Event) -> bool {
        let key = &event.entry.key;
        match self {
            Self::Prefix(prefix) => key.starts_with(&**prefix),
            Self::Key(name) => key == name,
            Self::Indexed { prefix, index, value } => {
                key.starts_with(&**prefix) && index.values(event).any(|found| found == &**value)
            }
        }
    }
}
