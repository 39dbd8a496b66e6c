//! How long things took, in decades: small enough to keep for every queue and always on.

use std::time::Duration;

/// Upper bounds of the buckets: ten nanoseconds to a thousand seconds, each ten times the one before.
const BOUNDS: usize = 12;
const SMALLEST_NANOS: u128 = 10;

/// Durations counted by decade, with their number and sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The last one holds what took longer than every bound.
    counts: [u64; BOUNDS + 1],
    sum: Duration,
}

impl Histogram {
    pub(super) fn record(&mut self, took: Duration) {
        let (nanos, mut bound, mut bucket) = (took.as_nanos(), SMALLEST_NANOS, 0);
        while bucket < BOUNDS && nanos > bound {
            bound *= 10;
            bucket += 1;
        }
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    pub(super) fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Each upper bound, and how many took that long or less. What took longer is in [`Histogram::count`] alone.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let (mut bound, mut below) = (10, 0);
        self.counts[..BOUNDS].iter().map(move |count| {
            below += count;
            let upper = Duration::from_nanos(bound);
            bound *= 10;
            (upper, below)
        })
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_its_decade_and_all_above() {
        let mut histogram = Histogram::default();
        for took in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(2), Duration::from_secs(5000)] {
            histogram.record(took);
        }
        let below = |limit| histogram.cumulative().find(|(bound, _)| *bound == limit).map(|(_, count)| count);
        assert_eq!(below(Duration::from_nanos(10)), Some(1));
        assert_eq!(below(Duration::from_millis(1)), Some(2));
        assert_eq!(below(Duration::from_millis(10)), Some(3));
        assert_eq!(below(Duration::from_secs(1000)), Some(3), "what is above every bound is only in the count");
        assert_eq!((histogram.count(), histogram.sum()), (4, Duration::from_millis(5_000_003)));
    }
}
