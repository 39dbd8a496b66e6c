//! What a quota counts, how much of it is used, and what its status says then.

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use pintle_rules::quota::{Evaluator, counted_by_name, scopes};
use pintle_rules::{Amounts, quota};
use serde_json::Value;

/// The resources that a quota names and that have no watch of their own anyway, as group and plural.
pub(super) fn named(quota: &ResourceQuota) -> Vec<(String, String)> {
    const WATCHED: [(&str, &str); 4] =
        [("", "pods"), ("", "services"), ("", "persistentvolumeclaims"), ("", "resourcequotas")];
    let own = |evaluator: &Evaluator| WATCHED.contains(&(evaluator.group(), evaluator.resource()));
    let identity = |evaluator: Evaluator| (evaluator.group().to_owned(), evaluator.resource().to_owned());
    evaluators(&hard(quota)).into_iter().filter(|evaluator| !own(evaluator)).map(identity).collect()
}

/// What a quota limits.
pub(super) fn hard(quota: &ResourceQuota) -> Amounts {
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    Amounts::of(serde_json::to_value(hard).ok().as_ref())
}

pub(super) fn scopes_of(quota: &ResourceQuota) -> Vec<scopes::Requirement> {
    scopes::of(&serde_json::to_value(quota).unwrap_or_default())
}

/// Every kind that counts for something that is limited.
pub(super) fn evaluators(hard: &Amounts) -> Vec<Evaluator> {
    let with_names = Evaluator::with_names_of_their_own();
    let mut all: Vec<Evaluator> =
        with_names.filter(|evaluator| hard.names().any(|name| evaluator.counts(name))).collect();
    for (resource, group) in hard.names().filter_map(counted_by_name) {
        all.extend(quota::Evaluator::of(group, resource).filter(|evaluator| !all.contains(evaluator)));
    }
    all
}

/// The names of the limited resources that a kind counts for, at zero.
pub(super) fn nothing_used(evaluator: &Evaluator, hard: &Amounts) -> Amounts {
    let zero = pintle_meta::quantity::Quantity::from_units(0);
    hard.names().filter(|name| evaluator.counts(name)).map(|name| (name, zero)).collect()
}

/// What these objects use of what is limited.
pub(super) fn used_by<'a>(
    objects: impl Iterator<Item = &'a Value>,
    evaluator: &Evaluator,
    (hard, scopes): (&Amounts, &[scopes::Requirement]),
    now: jiff::Timestamp,
) -> Amounts {
    let mut used = nothing_used(evaluator, hard);
    for object in objects.filter(|object| evaluator.is_in_all(scopes, object)) {
        used.add(&evaluator.usage(object, now).only(|name| hard.contains(name)));
    }
    used
}

/// The status when this much was counted; none if it says so already. What could not be counted stays as it was.
pub(super) fn status(quota: &ResourceQuota, counted: &Amounts) -> Option<ResourceQuotaStatus> {
    let hard = hard(quota);
    let told = quota.status.clone().unwrap_or_default();
    let amounts = |map| Amounts::of(serde_json::to_value(map).ok().as_ref());
    let (told_hard, told_used) = (amounts(&told.hard), amounts(&told.used));
    let mut used = told_used.clone();
    counted.iter().for_each(|(name, amount)| used.set(name, amount));
    let used = used.only(|name| hard.contains(name));
    if told.hard.is_some() && told.used.is_some() && told_hard == hard && told_used == used {
        return None;
    }
    let map = |amounts: &Amounts| serde_json::from_value(amounts.to_value()).ok();
    Some(ResourceQuotaStatus { hard: map(&hard), used: map(&used) })
}

/// What the status of a quota lacks that should be counted: while it does, nothing is charged for it.
pub(super) fn is_uncounted(quota: &ResourceQuota) -> bool {
    let told = quota.status.as_ref().and_then(|status| status.hard.clone()).unwrap_or_default();
    hard(quota).names().any(|name| !told.contains_key(name))
}
