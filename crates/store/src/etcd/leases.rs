//! Leases of etcd, so that keys expire also while no server of ours is there to expire them.
//!
//! Keys that expire at about the same time share one: a lease for each Event would cost etcd more
//! than the Event. A lease ends when the last of its keys may, never before.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Mutex;

use super::channel::{Cluster, LEASE_GRANT, Repeat};
use super::error::Failure;
use super::messages::{LeaseGrantRequest, LeaseGrantResponse};

/// Keys that are to live this long or longer share a lease by the minute, others by the second.
const LONG: i64 = 120_000;
const MINUTE: i64 = 60_000;
const SECOND: i64 = 1000;

/// A lease that ends deletes its keys in one transaction, which every watcher gets whole.
const KEYS: usize = 1000;

/// etcd grants no lease longer than this, in seconds.
const LONGEST: i64 = 9_000_000_000;

/// The lease of a key that has none.
pub(super) const NONE: i64 = 0;

/// What was granted, by the time (Unix milliseconds) at which it ends.
#[derive(Debug, Default)]
pub(super) struct Leases {
    granted: Mutex<BTreeMap<i64, Granted>>,
}

#[derive(Debug)]
struct Granted {
    id: i64,
    keys: usize,
}

impl Leases {
    /// A lease for a key that may be expired at `expires_at`, or [`NONE`].
    ///
    /// A time that has passed gets none: the caller has another clock than ours, or calls `expire`
    /// at once. Nor does one that is centuries away.
    pub(super) async fn until(&self, cluster: &Cluster, expires_at: i64) -> Result<i64, Failure> {
        let now = now_ms();
        let Some(end) = end(now, expires_at) else { return Ok(NONE) };
        let mut granted = self.granted.lock().await;
        granted.retain(|end, _| *end > now);
        if let Some(lease) = granted.get_mut(&end)
            && lease.keys < KEYS
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let request = LeaseGrantRequest { ttl: (end - now).div_euclid(SECOND) + 1 };
        let answer: LeaseGrantResponse = cluster.call(LEASE_GRANT, &request, Repeat::Always).await?;
        granted.insert(end, Granted { id: answer.id, keys: 1 });
        Ok(answer.id)
    }

    /// Forgets all of them, when etcd does not know one that it granted: somebody revoked it.
    pub(super) async fn forget(&self) {
        self.granted.lock().await.clear();
    }
}

/// When the lease of a key ends: its time, rounded up to what it shares with others.
fn end(now: i64, expires_at: i64) -> Option<i64> {
    let left = expires_at.checked_sub(now).filter(|left| (1..LONGEST * SECOND - MINUTE).contains(left))?;
    let share = if left < LONG { SECOND } else { MINUTE };
    let before = expires_at - expires_at.rem_euclid(share);
    Some(if before == expires_at { before } else { before + share })
}

#[expect(clippy::disallowed_methods, reason = "etcd counts a lease's time by a real clock, so it is asked for by one")]
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_never_ends_before_its_keys_may() {
        for (now, expires_at) in [(0, 1), (0, 999), (0, 1000), (5, 119_999), (5, 3_600_123), (59_999, 7_200_000)] {
            let end = end(now, expires_at).expect("a lease");
            assert!(end >= expires_at && end - expires_at < MINUTE, "{expires_at} ends at {end}");
        }
    }

    #[test]
    fn events_of_one_minute_share_a_lease() {
        assert_eq!(end(0, 3_600_001), end(0, 3_659_999));
        assert_ne!(end(0, 3_600_001), end(0, 3_660_001));
    }

    #[test]
    fn what_is_over_or_centuries_away_has_no_lease() {
        assert_eq!(end(2000, 2000), None);
        assert_eq!(end(2000, i64::MIN), None);
        assert_eq!(end(2000, i64::MAX), None);
    }
}
