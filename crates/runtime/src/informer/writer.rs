//! Who wrote an object last, as its managed fields tell.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Names beyond so many are not shared: someone makes up a new one for each write.
const MOST: usize = 1024;

/// The names of writers, each kept once.
#[derive(Debug, Default)]
pub(super) struct Writers(BTreeSet<Arc<str>>);

impl Writers {
    /// The manager of the newest entry; of several of one second, the last in the list.
    pub(super) fn last(&mut self, meta: &ObjectMeta) -> Option<Arc<str>> {
        let newest = meta.managed_fields.iter().flatten().max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
        let name = newest.manager.as_deref()?;
        if let Some(known) = self.0.get(name) {
            return Some(known.clone());
        }
        let name: Arc<str> = name.into();
        if self.0.len() < MOST {
            self.0.insert(name.clone());
        }
        Some(name)
    }
}
