//! What was written, by key: how a cluster is known to be at rest, and what keeps it from resting.

use futures::FutureExt;
use pintle_store::{Store, Watch};
use std::collections::BTreeMap;

/// Written again and again by a healthy cluster.
const RESTLESS: [&str; 2] = ["/registry/leases/", "/registry/events/"];

pub(crate) struct Activity {
    watch: Option<Watch>,
    count: u64,
    by_key: BTreeMap<String, u64>,
}

impl Activity {
    pub(crate) fn of(store: &dyn Store) -> Self {
        Activity { watch: store.watch("/registry/", store.revision()).ok(), count: 0, by_key: BTreeMap::new() }
    }

    /// All writes until now.
    pub(crate) fn count(&mut self) -> u64 {
        let Some(watch) = &mut self.watch else { return self.count };
        while let Some(Ok(events)) = watch.next().now_or_never() {
            for event in events {
                let key: &str = &event.entry.key;
                if !RESTLESS.iter().any(|prefix| key.starts_with(prefix)) {
                    self.count += 1;
                    *self.by_key.entry(key.to_owned()).or_default() += 1;
                }
            }
        }
        self.count
    }

    pub(crate) fn hottest(&self) -> String {
        let hottest = self.by_key.iter().max_by_key(|(_, count)| **count);
        hottest.map_or_else(|| "nothing".to_owned(), |(key, count)| format!("{key} ({count} writes)"))
    }
}
