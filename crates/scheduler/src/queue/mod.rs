//! Pods that wait for a node.
//!
//! - Ready Pods come out by priority, and first come, first served within one.
//! - A Pod that fits nowhere is set aside until something happens that may help it, or five minutes have passed.
//! - A Pod that was tried waits at least 1 s before the next try, then 2 s, up to 10 s, whatever happens.
//! - A Pod for which others are made to leave is not tried before all of them are on their way.
//! - A Pod with scheduling gates is set aside until they are gone.

mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_runtime::Key;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::plugins::Event;
use crate::pod::PodInfo;
use state::State;

/// Which plugins an event may change the mind of.
pub type HelpedBy = Vec<(&'static str, &'static [Event])>;

pub struct Queue {
    // Taken after the cache's lock where both are held.
    state: Mutex<State>,
    changed: Notify,
    helped_by: HelpedBy,
}

/// How many Pods are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub active: usize,
    pub backing_off: usize,
    pub unschedulable: usize,
    pub gated: usize,
}

impl Queue {
    pub fn new(helped_by: HelpedBy) -> Self {
        Queue { state: Mutex::default(), changed: Notify::new(), helped_by }
    }

    /// Takes a Pod in, or takes note of how it has changed.
    pub fn put(&self, pod: Arc<PodInfo>) {
        self.state().put(pod, Instant::now());
        self.changed.notify_one();
    }

    /// The Pod of this UID is bound or gone; a successor of its name stays.
    pub fn remove(&self, key: &Key, uid: &str) {
        self.state().remove(key, uid);
    }

    /// The next Pod to find a node for; it is this caller's until `park`, `retry` or `remove`.
    pub async fn next(&self) -> Arc<PodInfo> {
        loop {
            let changed = self.changed.notified();
            let next_due = {
                let mut state = self.state();
                let now = Instant::now();
                state.release_due(now);
                if let Some(pod) = state.take() {
                    return pod;
                }
                state.next_due()
            };
            match next_due {
                Some(due) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => changed.await,
            }
        }
    }

    /// No node would do, for these plugins' reasons.
    ///
    /// Call it under the cache's lock, under which the Pod was tried: an event that came after is then not missed.
    pub fn park(&self, pod: &PodInfo, plugins: &BTreeSet<&'static str>) {
        self.state().park(pod, plugins, Instant::now());
        // There may be a new earliest time to wake at.
        self.changed.notify_one();
    }

    /// Other Pods are made to leave for this one: it is not tried before [`Queue::release`], whatever happens. Before it is parked.
    pub(crate) fn hold(&self, pod: &PodInfo) {
        self.state().hold(pod);
    }

    /// All of them are on their way; if `failed`, not all of them, and the Pod is tried again although nothing happened.
    pub(crate) fn release(&self, pod: &PodInfo, failed: bool) {
        self.state().release(pod, failed, Instant::now());
        self.changed.notify_one();
    }

    /// A moment that [`Queue::park_since`] knows.
    pub(crate) fn moment(&self) -> u64 {
        self.state().moment()
    }

    /// The same as `park` for a Pod that was tried without a lock, since this moment: what helped it meanwhile counts.
    pub(crate) fn park_since(&self, pod: &PodInfo, plugins: &BTreeSet<&'static str>, moment: u64) {
        self.state().park_since(pod, plugins, moment, Instant::now());
        self.changed.notify_one();
    }

    /// A Pod that was parked is tried again after its backoff, though nothing happened that may help it.
    pub fn unpark(&self, pod: &PodInfo) {
        self.state().unpark(pod, Instant::now());
        self.changed.notify_one();
    }

    /// Something went wrong that has nothing to do with the nodes.
    pub fn retry(&self, pod: &PodInfo) {
        self.state().retry(pod, Instant::now());
        self.changed.notify_one();
    }

    /// Something happened: Pods that it may help are tried again.
    pub fn happened(&self, event: Event) {
        let helped = self.helped_by.iter().filter(|(_, events)| events.contains(&event)).map(|(plugin, _)| *plugin);
        if self.state().help(helped, Instant::now()) {
            self.changed.notify_one();
        }
    }

    pub fn depth(&self) -> Depth {
        self.state().depth()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
