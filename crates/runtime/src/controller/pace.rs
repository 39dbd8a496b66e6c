//! No key keeps a loop busy for ever: one that comes back without end is made to wait.
//!
//! Two loops that undo each other's work, or one that acts on a view which is behind while another clears up after it, go
//! round as fast as the server answers. Each key has an allowance of [`BURST`] reconciles, which comes back at one in
//! [`EACH`]: far more than work takes, and few enough that such a pair is a nuisance and not an outage.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::key::Key;

const EACH: Duration = Duration::from_millis(20);
const BURST: u32 = 1000;

/// Keys that are kept before those with their whole allowance are forgotten.
const FIRST_SWEEP: usize = 1024;

pub(super) struct Pace(Mutex<Spent>);

struct Spent {
    /// When each key will have its whole allowance again.
    whole_at: BTreeMap<Key, Instant>,
    sweep_at: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Pace(Mutex::new(Spent { whole_at: BTreeMap::new(), sweep_at: FIRST_SWEEP }))
    }
}

impl Pace {
    /// Counts a reconcile of the key, or says how long it must wait for one.
    pub(super) fn take(&self, key: &Key) -> Result<(), Duration> {
        let now = Instant::now();
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole_at = spent.whole_at.get(key).copied().filter(|at| *at > now).unwrap_or(now) + EACH;
        let over = whole_at.duration_since(now).saturating_sub(EACH * BURST);
        if !over.is_zero() {
            return Err(over);
        }
        spent.whole_at.insert(key.clone(), whole_at);
        if spent.whole_at.len() > spent.sweep_at {
            spent.whole_at.retain(|_, at| *at > now);
            spent.sweep_at = FIRST_SWEEP.max(2 * spent.whole_at.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_that_never_rests_is_slowed_down_and_others_are_not() {
        let (pace, busy, calm) = (Pace::default(), Key::new("default", "busy"), Key::new("default", "calm"));
        for _ in 0..BURST {
            assert_eq!(pace.take(&busy), Ok(()));
        }
        assert_eq!(pace.take(&busy), Err(EACH));
        assert_eq!(pace.take(&calm), Ok(()));
        tokio::time::sleep(EACH).await;
        assert_eq!(pace.take(&busy), Ok(()));
        assert!(pace.take(&busy).is_err());
        tokio::time::sleep(EACH * BURST).await;
        for _ in 0..BURST {
            assert_eq!(pace.take(&busy), Ok(()), "its allowance is whole again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_long_gone_are_forgotten() {
        let pace = Pace::default();
        for round in 0..10 {
            for index in 0..FIRST_SWEEP {
                assert_eq!(pace.take(&Key::new("default", format!("{round}-{index}"))), Ok(()));
            }
            tokio::time::sleep(EACH * 2).await;
        }
        assert!(pace.0.lock().unwrap().whole_at.len() <= 2 * FIRST_SWEEP);
    }
}
