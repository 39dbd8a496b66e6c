//! Which Pods of an old revision go now.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::RollingUpdateStatefulSetStrategy;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle_rules::share::{Round as Rounding, share};

use super::members::Round;

/// Deletes Pods that are old, from the highest number down to the partition.
///
/// Without `maxUnavailable` one at a time, each when the one before it is available; what is old is not waited for. With it, as
/// many as may be unavailable, whichever these are.
pub(super) fn update(round: &mut Round<'_>) {
    let strategy = round.facts.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return;
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default();
    let partition = i64::from(rolling.partition.unwrap_or(0).max(0));
    match max_unavailable(&rolling, round.wanted.replicas) {
        None => one_by_one(round, partition),
        Some(most) => several(round, partition, most),
    }
}

fn one_by_one(round: &mut Round<'_>, partition: i64) {
    for index in (partition..round.wanted.replicas).rev() {
        // One that is about to be made is of the right revision, and not available.
        let Some(pod) = at(round, index) else { return };
        if round.is_old(&pod) {
            return round.replace(&pod);
        }
        if round.is_unavailable(&pod) {
            return;
        }
    }
}

fn several(round: &mut Round<'_>, partition: i64, most: i64) {
    let unavailable = round.present.values().filter(|pod| round.is_unavailable(pod)).count();
    let missing = round.wanted.replicas - count(round.present.len());
    let mut left = most - missing - count(unavailable);
    let old = round.present.range(round.wanted.start + partition..).rev().map(|(_, pod)| Arc::clone(pod));
    for pod in old.collect::<Vec<_>>() {
        if left <= 0 {
            return;
        }
        if round.is_old(&pod) {
            round.replace(&pod);
            left -= 1;
        }
    }
}

fn at(round: &Round<'_>, index: i64) -> Option<Arc<Pod>> {
    round.present.get(&(round.wanted.start + index)).map(|pod| Arc::clone(pod))
}

/// A percentage is rounded down, and at least one Pod may be unavailable.
fn max_unavailable(rolling: &RollingUpdateStatefulSetStrategy, replicas: i64) -> Option<i64> {
    let value: &IntOrString = rolling.max_unavailable.as_ref()?;
    let whole = i32::try_from(replicas).unwrap_or(i32::MAX);
    Some(i64::from(share(value, whole, Rounding::Down).max(1)))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
