//! How many Pods too many and too few a rolling update may have.

use k8s_openapi::api::apps::v1::Deployment;
use pintle_rules::share::{Round, share};

pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Anything but `Recreate`, which is also what an empty strategy means.
pub(in super::super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate")
}

pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { resolve(deployment).0 } else { 0 }
}

pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    let wanted = wanted(deployment);
    if is_rolling(deployment) && wanted > 0 { resolve(deployment).1.min(wanted) } else { 0 }
}

/// Surge is rounded up and unavailability down; of two zeros the second becomes one, or nothing could ever move.
fn resolve(deployment: &Deployment) -> (i32, i32) {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let wanted = wanted(deployment);
    let surge =
        rolling.and_then(|rolling| rolling.max_surge.as_ref()).map_or(0, |value| share(value, wanted, Round::Up));
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    match (surge, unavailable.map_or(0, |value| share(value, wanted, Round::Down))) {
        (0, 0) => (0, 1),
        both => both,
    }
}
