//! Whether a container that ended is started again: by its own rules, its own policy, or else the Pod's.

use k8s_openapi::api::core::v1::{Container as Spec, ContainerRestartRule, PodSpec};

const RESTART: &str = "Restart";
pub(super) const RESTART_ALL: &str = "RestartAllContainers";

pub(super) fn should_restart(container: &Spec, pod: &PodSpec, exit_code: i32) -> bool {
    let own = container.restart_policy.as_deref();
    let rule = matching(container, exit_code).filter(|_| own.is_some());
    if rule.is_some_and(|rule| rule.action == RESTART || rule.action == RESTART_ALL) {
        return true;
    }
    match own.or(pod.restart_policy.as_deref()) {
        Some("Never") => false,
        Some("OnFailure") => exit_code != 0,
        _ => true,
    }
}

/// The first of the container's rules that is about this exit code.
pub(super) fn matching(container: &Spec, exit_code: i32) -> Option<&ContainerRestartRule> {
    container.restart_policy_rules.iter().flatten().find(|rule| {
        let Some(codes) = &rule.exit_codes else { return false };
        let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
        match codes.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_containers_own_rules_and_policy_come_before_the_pods() {
        let rule = |operator: &str, codes: Value| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": codes}}]);
        for (pod, own, rules, code, restarts) in [
            ("Always", None, json!([]), 0, true),
            ("OnFailure", None, json!([]), 0, false),
            ("OnFailure", None, json!([]), 1, true),
            ("Never", None, json!([]), 1, false),
            ("Never", Some("Always"), json!([]), 0, true),
            ("Always", Some("Never"), json!([]), 1, false),
            ("Never", Some("OnFailure"), json!([]), 0, false),
            ("Never", Some("OnFailure"), json!([]), 3, true),
            ("Never", Some("Never"), rule("In", json!([42])), 42, true),
            ("Never", Some("Never"), rule("In", json!([42])), 41, false),
            ("Never", Some("Never"), rule("NotIn", json!([42])), 41, true),
            ("Never", Some("Never"), rule("NotIn", json!([42])), 42, false),
            // Rules without a policy of the container's own do not count.
            ("Never", None, rule("In", json!([42])), 42, false),
            ("Never", Some("Never"), rule("Other", json!([42])), 42, false),
        ] {
            let container: Spec =
                serde_json::from_value(json!({"name": "c", "restartPolicy": own, "restartPolicyRules": rules}))
                    .unwrap();
            let spec: PodSpec = serde_json::from_value(json!({"containers": [], "restartPolicy": pod})).unwrap();
            assert_eq!(should_restart(&container, &spec, code), restarts, "{pod} {own:?} {rules} {code}");
        }
    }
}
