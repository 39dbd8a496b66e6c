//! What a budget allows, from the Pods it covers and the number there should be.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle_rules::share::{Round, share};
use pintle_runtime::plan::Note;
use pintle_runtime::{Plan, conditions, owner};

use super::scale::Wanted;
use crate::pods;

/// An eviction that was granted counts against the budget until its Pod is seen to go, at most this long.
const GRANTED_FOR: SignedDuration = SignedDuration::from_secs(120);

pub(super) fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = selector.and_then(|selector| owner::parse_selector(selector).ok());
    selector.is_some_and(|selector| owner::matches(&selector, &pod.metadata))
}

/// Whether the budget is about a part of what the owners of its Pods want.
pub(super) fn asks_for_scale(budget: &PodDisruptionBudget) -> bool {
    let spec = budget.spec.as_ref();
    spec.is_some_and(|spec| match (&spec.max_unavailable, &spec.min_available) {
        (Some(_), _) => true,
        (None, minimum) => matches!(minimum, Some(IntOrString::String(_))),
    })
}

/// Writes what the budget allows now, or, if it is not known what the owners want, that it allows nothing.
pub(super) fn plan(
    budget: &PodDisruptionBudget,
    covered: &[&Pod],
    wanted: Result<Wanted, String>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if covered.is_empty() {
        plan.events.push(Note::normal("NoPods", "No matching pods found"));
    }
    let status = match wanted {
        Ok(wanted) => {
            if !wanted.unmanaged.is_empty() {
                plan.events.push(Note::warning("UnmanagedPods", unmanaged(budget)));
            }
            let (status, again) = status(budget, covered, wanted.replicas, now);
            plan.again = again;
            status
        }
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            plan.events.push(Note::warning("CalculateExpectedPodCountFailed", message));
            let mut status = budget.status.clone().unwrap_or_default();
            status.disruptions_allowed = Some(0);
            let mut failed = condition(false, status.observed_generation, now);
            (failed.reason, failed.message) = ("SyncFailed".to_owned(), why);
            conditions::set(status.conditions.get_or_insert_default(), failed);
            status
        }
    };
    plan.set_status(budget, budget.status.as_ref(), &status);
    plan
}

fn unmanaged(budget: &PodDisruptionBudget) -> String {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = selector.and_then(|selector| serde_json::to_string(selector).ok()).unwrap_or_default();
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) have no controller, so that its status cannot be \
         calculated: set .spec.minAvailable to an integer to account for them"
    )
}

/// The status to write, and when to look again.
fn status(
    budget: &PodDisruptionBudget,
    covered: &[&Pod],
    should_be: i32,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let spec = budget.spec.clone().unwrap_or_default();
    let old = budget.status.clone().unwrap_or_default();
    let (expected, desired) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(maximum), _) => (should_be, should_be.saturating_sub(share(maximum, should_be, Round::Up)).max(0)),
        (None, Some(IntOrString::Int(minimum))) => (i32::try_from(covered.len()).unwrap_or(i32::MAX), *minimum),
        (None, Some(minimum)) => (should_be, share(minimum, should_be, Round::Up)),
        (None, None) => (0, 0),
    };
    let granted: BTreeMap<String, Time> = old
        .disrupted_pods
        .clone()
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, time)| time.0 + GRANTED_FOR > now && covered.iter().any(|pod| is_waiting(pod, name)))
        .collect();
    let wait = granted.values().map(|time| (time.0 + GRANTED_FOR).duration_since(now)).min();
    let counts = |pod: &&&Pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pods::is_active(pod) && pods::is_ready(pod) && !granted.contains_key(name)
    };
    let healthy = i32::try_from(covered.iter().filter(counts).count()).unwrap_or(i32::MAX);
    // With nothing there, nothing may be taken away.
    let allowed = if expected > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
    let mut kept = old.conditions.unwrap_or_default();
    conditions::set(&mut kept, condition(allowed > 0, budget.metadata.generation, now));
    let status = PodDisruptionBudgetStatus {
        conditions: Some(kept),
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        disrupted_pods: (!granted.is_empty()).then_some(granted),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation: budget.metadata.generation,
    };
    (status, wait.and_then(|wait| Duration::try_from(wait).ok()))
}

/// Still there although its eviction was granted.
fn is_waiting(pod: &Pod, name: &str) -> bool {
    pod.metadata.name.as_deref() == Some(name) && pod.metadata.deletion_timestamp.is_none()
}

fn condition(allowed: bool, generation: Option<i64>, now: Timestamp) -> Condition {
    Condition {
        type_: "DisruptionAllowed".into(),
        status: if allowed { "True" } else { "False" }.into(),
        reason: if allowed { "SufficientPods" } else { "InsufficientPods" }.into(),
        message: String::new(),
        observed_generation: generation,
        last_transition_time: Time(now),
    }
}
