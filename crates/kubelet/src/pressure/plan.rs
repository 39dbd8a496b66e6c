//! Which thresholds are met, what the node says of itself, and what is to be taken back first. No I/O.
//!
//! Steps and order are upstream's: a threshold that was met stays so until what it must free beyond itself is free; a soft one
//! counts when its grace is over; a condition stays for a while after its last threshold was met.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::settings::{Eviction, Threshold};
use super::signals::{Condition, Observations, Signal};

/// What is remembered between two looks. Thresholds stand here by their place in the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    first_met: BTreeMap<usize, Timestamp>,
    /// Those on which the last look acted.
    acted_on: BTreeSet<usize>,
    last_seen: BTreeMap<Condition, Timestamp>,
}

/// What follows from one look.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict<'a> {
    pub(super) conditions: BTreeSet<Condition>,
    /// Memory first; empty if nothing is to be done.
    pub(super) reclaim: Vec<&'a Threshold>,
}

pub(super) fn plan<'a>(
    settings: &'a Eviction,
    observations: &Observations,
    history: &mut History,
    now: Timestamp,
) -> Verdict<'a> {
    let numbered = || settings.thresholds.iter().enumerate();
    let met: BTreeSet<usize> = numbered()
        .filter(|(number, threshold)| {
            let unresolved = history.acted_on.contains(number);
            is_met(threshold, observations, unresolved)
        })
        .map(|(number, _)| number)
        .collect();
    history.first_met.retain(|number, _| met.contains(number));
    for number in &met {
        history.first_met.entry(*number).or_insert(now);
    }
    for (_, threshold) in numbered().filter(|(number, _)| met.contains(number)) {
        history.last_seen.insert(threshold.signal.condition(), now);
    }
    history.last_seen.retain(|_, seen| age(*seen, now) < settings.transition_period || *seen == now);
    let conditions = history.last_seen.keys().copied().collect();
    let over = |number: &usize, grace| history.first_met.get(number).is_some_and(|first| age(*first, now) >= grace);
    let due: Vec<(usize, &Threshold)> =
        numbered().filter(|(number, threshold)| over(number, threshold.grace)).collect();
    history.acted_on = due.iter().map(|(number, _)| *number).collect();
    let mut reclaim: Vec<&Threshold> = due.into_iter().map(|(_, threshold)| threshold).collect();
    reclaim.sort_by_key(|threshold| threshold.signal != Signal::MemoryAvailable);
    Verdict { conditions, reclaim }
}

/// Whether the node has what all thresholds ask for, and what they want freed beyond that.
pub(super) fn is_relieved(settings: &Eviction, observations: &Observations) -> bool {
    !settings.thresholds.iter().any(|threshold| is_met(threshold, observations, true))
}

fn is_met(threshold: &Threshold, observations: &Observations, with_reclaim: bool) -> bool {
    let Some(observed) = observations.get(&threshold.signal) else { return false };
    let beyond = threshold.minimum_reclaim.filter(|_| with_reclaim).map_or(0, |amount| amount.of(observed.capacity));
    observed.available < threshold.value.of(observed.capacity).saturating_add(beyond)
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::signals::Observation;
    use super::*;

    const GIB: u64 = 1 << 30;

    fn seen(memory: u64, disk: u64) -> Observations {
        let of_100 = |available| Observation { available, capacity: 100 };
        [
            (Signal::MemoryAvailable, Observation { available: memory, capacity: 10 * GIB }),
            (Signal::NodefsAvailable, of_100(disk)),
        ]
        .into()
    }

    /// At each second, what is seen; then the conditions and the signals to act on.
    fn check(settings: &Eviction, steps: &[(i64, Observations, &[Condition], &[Signal])]) {
        let mut history = History::default();
        for (second, observations, conditions, signals) in steps {
            let verdict = plan(settings, observations, &mut history, Timestamp::from_second(*second).unwrap());
            let acted: Vec<Signal> = verdict.reclaim.iter().map(|threshold| threshold.signal).collect();
            let said: Vec<Condition> = verdict.conditions.into_iter().collect();
            assert_eq!((said.as_slice(), acted.as_slice()), (*conditions, *signals), "at second {second}");
        }
    }

    #[test]
    fn a_hard_threshold_acts_at_once_and_its_condition_outlasts_it() {
        let settings = Eviction::parse("memory.available<1Gi,nodefs.available<10%", "", "", "").unwrap();
        check(
            &settings,
            &[
                (0, seen(GIB, 10), &[], &[]),
                (10, seen(GIB - 1, 50), &[Condition::Memory], &[Signal::MemoryAvailable]),
                (20, seen(GIB, 9), &[Condition::Memory, Condition::Disk], &[Signal::NodefsAvailable]),
                (
                    30,
                    seen(0, 9),
                    &[Condition::Memory, Condition::Disk],
                    &[Signal::MemoryAvailable, Signal::NodefsAvailable],
                ),
                (329, seen(GIB, 10), &[Condition::Memory, Condition::Disk], &[]),
                (330, seen(GIB, 10), &[], &[]),
            ],
        );
    }

    #[test]
    fn a_soft_threshold_waits_for_its_grace_and_begins_anew_after_a_better_moment() {
        let settings = Eviction::parse("", "memory.available<1Gi", "memory.available=30s", "").unwrap();
        check(
            &settings,
            &[
                (0, seen(0, 50), &[Condition::Memory], &[]),
                (20, seen(0, 50), &[Condition::Memory], &[]),
                (25, seen(GIB, 50), &[Condition::Memory], &[]),
                (30, seen(0, 50), &[Condition::Memory], &[]),
                (59, seen(0, 50), &[Condition::Memory], &[]),
                (60, seen(0, 50), &[Condition::Memory], &[Signal::MemoryAvailable]),
            ],
        );
    }

    #[test]
    fn more_than_the_threshold_is_freed_if_that_is_asked_for() {
        let settings = Eviction::parse("nodefs.available<10%", "", "", "nodefs.available=20%").unwrap();
        let (disk, acts): (&[Condition], &[Signal]) = (&[Condition::Disk], &[Signal::NodefsAvailable]);
        check(
            &settings,
            &[
                (0, seen(GIB, 20), &[], &[]),
                (10, seen(GIB, 9), disk, acts),
                (20, seen(GIB, 29), disk, acts),
                (30, seen(GIB, 30), disk, &[]),
                (40, seen(GIB, 20), disk, &[]),
            ],
        );
        assert!(!is_relieved(&settings, &seen(GIB, 29)) && is_relieved(&settings, &seen(GIB, 30)));
    }

    #[test]
    fn what_cannot_be_read_evicts_nobody() {
        check(&Eviction::default(), &[(0, Observations::new(), &[], &[])]);
    }
}
