//! What is counted on a node, for those who read its metrics.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use pintle_container::ProbeKind;

use super::{Pods, Seat};

/// Since the node agent started.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) sandboxes: AtomicU64,
    pub(crate) sandbox_errors: AtomicU64,
    pub(crate) containers: AtomicU64,
    pub(crate) container_errors: AtomicU64,
    pub(crate) pull_errors: AtomicU64,
    /// Pods that the node did not take on.
    pub(crate) rejections: AtomicU64,
}

pub(crate) fn count(tally: &AtomicU64) {
    tally.fetch_add(1, Ordering::Relaxed);
}

/// By container, kind of probe, and whether it succeeded.
pub(super) type Probed = BTreeMap<(String, ProbeKind, bool), u64>;

/// How often a probe of a container had one of its two answers.
#[derive(Debug)]
pub(crate) struct ProbeCount {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: String,
    pub(crate) container: String,
    pub(crate) kind: ProbeKind,
    pub(crate) healthy: bool,
    pub(crate) count: u64,
}

impl Seat {
    pub(super) fn count_probe(&self, container: &str, kind: ProbeKind, healthy: bool) {
        let mut probed = self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        *probed.entry((container.to_owned(), kind, healthy)).or_default() += 1;
    }
}

impl Pods {
    /// Of all Pods of a node.
    pub(crate) fn probe_counts(&self, node: &str) -> Vec<ProbeCount> {
        let mut counts = Vec::new();
        for (key, lives) in self.seats().iter() {
            for seat in lives.values().filter(|seat| seat.home.name == node) {
                let probed = seat.probed.lock().unwrap_or_else(PoisonError::into_inner);
                counts.extend(probed.iter().map(|((container, kind, healthy), count)| ProbeCount {
                    namespace: key.namespace().to_owned(),
                    pod: key.name().to_owned(),
                    uid: seat.uid.clone(),
                    container: container.clone(),
                    kind: *kind,
                    healthy: *healthy,
                    count: *count,
                }));
            }
        }
        counts
    }
}
