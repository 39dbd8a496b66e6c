//! The names of those who write objects, each kept once.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Names beyond so many are not shared: someone makes up a new one for each write.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Writers(BTreeSet<Arc<str>>);

impl Writers {
    pub(super) fn shared(&mut self, name: Option<&str>) -> Option<Arc<str>> {
        let name = name?;
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
