//! What a Job's policies say: of a failed Pod, and of the indexes that have succeeded.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use super::indexes::Intervals;

/// What becomes of a failed Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It counts towards the limits. This is also what holds without a policy.
    Count,
    /// It does not count.
    Ignore,
    /// Its index is given up.
    FailIndex,
    /// The Job is given up, for this reason.
    FailJob(String),
}

impl Judgement {
    pub(crate) fn counts(&self) -> bool {
        *self != Judgement::Ignore
    }
}

/// The first rule that the Pod matches decides.
pub(crate) fn judge(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Judgement {
    let rules = policy.into_iter().flat_map(|policy| &policy.rules).enumerate();
    rules.into_iter().find_map(|(at, rule)| judge_by(rule, at, pod)).unwrap_or(Judgement::Count)
}

fn judge_by(rule: &PodFailurePolicyRule, at: usize, pod: &Pod) -> Option<Judgement> {
    let status = pod.status.as_ref()?;
    let (namespace, name) =
        (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref().unwrap_or_default());
    let message = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
        (Some(wanted), _) => {
            let all = [&status.container_statuses, &status.init_container_statuses];
            let (container, code) = all.into_iter().flatten().flatten().find_map(|status| exit_code(status, wanted))?;
            format!(
                "Container {container} for pod {namespace}/{name} failed with exit code {code} matching {} rule at index {at}",
                rule.action
            )
        }
        (None, Some(patterns)) => {
            let met = status.conditions.iter().flatten().find(|condition| matches_one(condition, patterns))?;
            format!("Pod {namespace}/{name} has condition {} matching {} rule at index {at}", met.type_, rule.action)
        }
        (None, None) => return None,
    };
    match rule.action.as_str() {
        "FailJob" => Some(Judgement::FailJob(message)),
        "FailIndex" => Some(Judgement::FailIndex),
        "Ignore" => Some(Judgement::Ignore),
        "Count" => Some(Judgement::Count),
        _ => None,
    }
}

/// The container and its exit code, if it has failed as the rule says.
fn exit_code<'a>(
    status: &'a ContainerStatus,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_listed = wanted.values.contains(&code);
    let matches = match wanted.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    let is_meant = wanted.container_name.as_ref().is_none_or(|name| *name == status.name);
    (code != 0 && matches && is_meant).then_some((status.name.as_str(), code))
}

fn matches_one(condition: &PodCondition, patterns: &[PodFailurePolicyOnPodConditionsPattern]) -> bool {
    patterns.iter().any(|pattern| {
        pattern.type_ == condition.type_ && pattern.status.as_deref().unwrap_or("True") == condition.status
    })
}

/// Why the Job has succeeded already, if its policy says so.
pub(crate) fn succeeded_early(policy: Option<&SuccessPolicy>, done: &Intervals, completions: u32) -> Option<String> {
    if done.is_empty() {
        return None;
    }
    let enough = |count: usize, wanted: Option<i32>| {
        wanted.is_some_and(|wanted| count >= usize::try_from(wanted).unwrap_or(usize::MAX))
    };
    let met = policy?.rules.iter().position(|rule| match &rule.succeeded_indexes {
        Some(text) => {
            let wanted = Intervals::parse(text, completions);
            let common = wanted.in_common(done);
            !wanted.is_empty() && (common == wanted.total() || enough(common, rule.succeeded_count))
        }
        None => enough(done.total(), rule.succeeded_count),
    });
    met.map(|at| format!("Matched rules at index {at}"))
}
