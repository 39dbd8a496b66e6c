//! Which user containers run as, and whether they can gain privileges.

use super::{Subject, Violation, context, setters, these, violation};
use serde_json::Value;

const TRUE: Option<&Value> = Some(&Value::Bool(true));
const FALSE: Option<&Value> = Some(&Value::Bool(false));

pub(super) fn privileged(pod: &Subject<'_>) -> Option<Violation> {
    let containers = pod.named(|container| context(container, &["privileged"]) == TRUE);
    if containers.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", these(&containers)))
}

pub(super) fn escalation(pod: &Subject<'_>) -> Option<Violation> {
    let containers = pod.named(|container| context(container, &["allowPrivilegeEscalation"]) != FALSE);
    if containers.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", these(&containers));
    violation("allowPrivilegeEscalation != false", detail)
}

pub(super) fn non_root(pod: &Subject<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let (field, whole) = (["runAsNonRoot"], pod.context(&["runAsNonRoot"]));
    let as_root = pod.named(|container| context(container, &field) == FALSE);
    if let Some(setters) = setters(whole == FALSE, &as_root) {
        return violation(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = pod.named(|container| context(container, &field).is_none() && whole != TRUE);
    if silent.is_empty() {
        return None;
    }
    violation(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", these(&silent)))
}

pub(super) fn user(pod: &Subject<'_>) -> Option<Violation> {
    let is_root = |user: Option<&Value>| user.and_then(Value::as_i64) == Some(0);
    let as_root = pod.named(|container| is_root(context(container, &["runAsUser"])));
    let setters = setters(is_root(pod.context(&["runAsUser"])), &as_root)?;
    violation("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}
