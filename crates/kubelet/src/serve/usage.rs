//! What containers and the node use: measured now and then, so that a rate can be told.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use pintle_container::{ContainerId, Error, Runtime, Usage};
use pintle_meta::Clock;

/// How often it is measured.
const PERIOD: Duration = Duration::from_secs(10);

/// A rate over a shorter time would say little.
const SHORTEST: i64 = 1_000_000_000;

/// What has been used of the processors, and how fast recently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Processor {
    pub(super) at: Timestamp,
    pub(super) nanoseconds: u64,
    /// Nanoseconds of processor time a second; nothing after the first measurement.
    pub(super) rate: Option<u64>,
}

impl Processor {
    /// The next measurement; one that comes too early does not change the rate.
    fn next(before: Option<&Processor>, at: Timestamp, nanoseconds: u64) -> Self {
        let Some(before) = before else { return Processor { at, nanoseconds, rate: None } };
        let elapsed = at.as_nanosecond().saturating_sub(before.at.as_nanosecond());
        if elapsed < i128::from(SHORTEST) {
            return *before;
        }
        let used = u128::from(nanoseconds.saturating_sub(before.nanoseconds));
        let rate = used.saturating_mul(1_000_000_000) / elapsed.unsigned_abs();
        Processor { at, nanoseconds, rate: Some(u64::try_from(rate).unwrap_or(u64::MAX)) }
    }
}

/// The node as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) at: Timestamp,
    pub(super) processor: Processor,
    pub(super) memory_total: u64,
    pub(super) memory_available: u64,
}

/// The measurements of one node.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    last: Mutex<Measured>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) containers: BTreeMap<ContainerId, (Usage, Processor)>,
    /// Nothing where there is no machine.
    pub(super) machine: Option<Machine>,
}

impl Meter {
    /// Measures for ever. Runs until dropped.
    pub(crate) async fn keep(&self, runtime: &dyn Runtime, clock: &Clock) {
        loop {
            if let Err(error) = self.measure(runtime, clock, true).await {
                tracing::debug!(%error, "what containers use is not known");
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    pub(super) async fn measure(&self, runtime: &dyn Runtime, clock: &Clock, machine: bool) -> Result<Measured, Error> {
        let usages = runtime.usage().await?;
        let machine = if machine { read_machine(clock.now()).await } else { None };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let containers = usages.into_iter().map(|usage| {
            let before = last.containers.get(&usage.id).map(|(_, processor)| processor);
            let processor = Processor::next(before, usage.measured_at, usage.cpu_nanoseconds);
            (usage.id.clone(), (usage, processor))
        });
        let containers = containers.collect();
        let machine = machine.map(|(at, nanoseconds, memory_total, memory_available)| {
            let before = last.machine.as_ref().map(|machine| &machine.processor);
            Machine { at, processor: Processor::next(before, at, nanoseconds), memory_total, memory_available }
        });
        *last = Measured { containers, machine };
        Ok(last.clone())
    }
}

/// Processor time in nanoseconds, memory and what is left of it.
async fn read_machine(now: Timestamp) -> Option<(Timestamp, u64, u64, u64)> {
    let processors = tokio::fs::read_to_string(Path::new("/proc/stat")).await.ok()?;
    let memory = tokio::fs::read_to_string(Path::new("/proc/meminfo")).await.ok()?;
    let amount = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((now, busy(&processors)?, amount("MemTotal")?, amount("MemAvailable")?))
}

/// The time in which processors were not idle: user, nice, system, interrupts and what others stole are in it; idle and the
/// wait for disks are not. The kernel counts it in hundredths of a second.
fn busy(stat: &str) -> Option<u64> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .take(8)
        .filter_map(|field| field.parse().ok())
        .collect();
    let idle = fields.get(3)?.checked_add(*fields.get(4)?)?;
    fields.iter().sum::<u64>().checked_sub(idle)?.checked_mul(10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_was_used_between_two_measurements() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = Processor::next(None, at(100), 5_000_000_000);
        assert_eq!(first.rate, None);
        let second = Processor::next(Some(&first), at(110), 10_000_000_000);
        assert_eq!(second.rate, Some(500_000_000), "half a processor");
        assert_eq!(Processor::next(Some(&second), at(110), 10_000_000_000), second, "too early to tell");
        assert_eq!(Processor::next(Some(&second), at(120), 0).rate, Some(0), "a counter that began anew");
    }

    #[test]
    fn idle_time_is_not_used_time() {
        assert_eq!(busy("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1"), Some(81 * 10_000_000));
        assert_eq!(busy("nonsense"), None);
    }
}
