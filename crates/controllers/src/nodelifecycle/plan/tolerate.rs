//! How long a Pod bears the taints of its node.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::conditions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Fate {
    Stays,
    GoesIn(Duration),
    GoesNow,
}

/// What becomes of a Pod on a node with these taints. A taint without a time counts from when it was first seen.
pub(in super::super) fn fate(pod: &Pod, taints: &[Taint], first_seen: Timestamp, now: Timestamp) -> Fate {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let mut fate = Fate::Stays;
    for taint in taints {
        let matching: Vec<&Toleration> = tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if matching.is_empty() {
            return Fate::GoesNow;
        }
        let Some(seconds) = matching.iter().filter_map(|toleration| toleration.toleration_seconds).min() else {
            continue;
        };
        let since = taint.time_added.as_ref().map_or(first_seen, |time| time.0);
        let left = (since + SignedDuration::from_secs(seconds.max(0))).duration_since(now);
        match (Duration::try_from(left).ok().filter(|left| !left.is_zero()), fate) {
            (None, _) => return Fate::GoesNow,
            (Some(left), Fate::GoesIn(earlier)) => fate = Fate::GoesIn(left.min(earlier)),
            (Some(left), _) => fate = Fate::GoesIn(left),
        }
    }
    fate
}

/// No key means every taint, no effect every effect.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => {
            !key.is_empty()
                && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}

/// The Pod's conditions on its way out, which tell its owner that it did not fail.
pub(in super::super) fn evicted(pod: &Pod, now: Timestamp) -> Vec<PodCondition> {
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions::set(
        &mut conditions,
        PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            reason: Some("DeletionByTaintManager".into()),
            message: Some("Taint manager: deleting due to NoExecute taint".into()),
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        },
    );
    conditions
}
