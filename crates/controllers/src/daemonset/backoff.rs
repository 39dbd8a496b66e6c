//! How long a Pod that failed on a node stays before it is replaced, so that a node which refuses it is not asked all the time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;

const FIRST: SignedDuration = SignedDuration::from_secs(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// Without a failure for so long the next one counts as the first.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(30);

/// A set's UID, the generation that it has come to, and a node.
type Place = (String, i64, String);

/// When a Pod was last replaced for having failed, by place.
#[derive(Default)]
pub(super) struct Backoffs(Mutex<BTreeMap<Place, Backoff>>);

#[derive(Clone, Copy)]
struct Backoff {
    since: Timestamp,
    wait: SignedDuration,
}

impl Backoffs {
    /// How long a failed Pod of the set stays on the node; nothing if it may be replaced.
    pub(super) fn left(&self, set: &DaemonSet, node: &str, now: Timestamp) -> Option<Duration> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let backoff = all.get(&place(set, node)).filter(|backoff| !backoff.is_forgotten(now))?;
        let left = backoff.wait - now.duration_since(backoff.since);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// A failed Pod is being replaced: the next one stays for twice as long.
    pub(super) fn note(&self, set: &DaemonSet, node: &str, now: Timestamp) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, backoff| !backoff.is_forgotten(now));
        let place = place(set, node);
        let wait = all.get(&place).map_or(FIRST, |before| (before.wait * 2).min(LONGEST));
        all.insert(place, Backoff { since: now, wait });
    }
}

impl Backoff {
    fn is_forgotten(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) > FORGOTTEN_AFTER
    }
}

/// A new template is a new chance.
fn place(set: &DaemonSet, node: &str) -> Place {
    let generation = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
    (set.metadata.uid.clone().unwrap_or_default(), generation, node.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_refuses_a_pod_is_asked_less_and_less_often() {
        let (backoffs, set) = (Backoffs::default(), DaemonSet::default());
        let mut now = Timestamp::UNIX_EPOCH;
        assert_eq!(backoffs.left(&set, "n", now), None);
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            backoffs.note(&set, "n", now);
            let left = backoffs.left(&set, "n", now).unwrap();
            assert_eq!(left, Duration::from_secs(expected));
            assert_eq!(backoffs.left(&set, "other", now), None);
            now += SignedDuration::try_from(left).unwrap();
            assert_eq!(backoffs.left(&set, "n", now), None);
        }
        now += FORGOTTEN_AFTER + FIRST;
        backoffs.note(&set, "n", now);
        assert_eq!(backoffs.left(&set, "n", now), Some(Duration::from_secs(1)));
    }
}
