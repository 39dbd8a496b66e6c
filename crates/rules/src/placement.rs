//! Which nodes a Pod asks for, and which taints it tolerates.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};

/// Whether the Pod's node selector and its required affinity allow the node.
pub fn allows(spec: &PodSpec, node: &Node) -> bool {
    let mut pairs = spec.node_selector.iter().flatten();
    if !pairs.all(|(key, value)| label(node, key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| term_matches(term, node)))
}

/// All of a term must hold; an empty term holds for no node.
pub fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| node.metadata.name.as_deref().filter(|_| key == "metadata.name");
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|requirement| holds(requirement, label(node, &requirement.key)))
        && fields.iter().all(|requirement| holds(requirement, field(&requirement.key)))
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    node.metadata.labels.as_ref()?.get(key)
}

fn holds<S: AsRef<str>>(requirement: &NodeSelectorRequirement, value: Option<S>) -> bool {
    let value = value.as_ref().map(AsRef::as_ref);
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let numbers = || value.and_then(number).zip(values.first().and_then(|bound| number(bound)));
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// No key means every taint, no effect every effect.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    let fits = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == found)
    };
    let same_value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => text(&toleration.value) == text(&taint.value),
        Some(_) => false,
    };
    same_value && fits(&toleration.effect, &taint.effect) && fits(&toleration.key, &taint.key)
}

/// Whether one of the tolerations covers the taint.
pub fn any_tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Whether all taints with these effects are tolerated.
pub fn tolerates_all(tolerations: &[Toleration], taints: &[Taint], effects: &[&str]) -> bool {
    let mut concerned = taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
    concerned.all(|taint| any_tolerates(tolerations, taint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn any_term_of_an_affinity_is_enough_and_all_of_it_must_hold() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"disk": "ssd", "size": "5"}}})).unwrap();
        let wants = |terms: Value| {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            let spec = json!({"containers": [], "affinity": {"nodeAffinity": required}});
            allows(&serde_json::from_value(spec).unwrap(), &node)
        };
        let on = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let term = |all: Value| json!({"matchExpressions": all});
        for (terms, expected) in [
            (json!([term(json!([on("disk", "In", json!(["ssd", "hdd"]))]))]), true),
            (
                json!([term(json!([on("disk", "In", json!(["hdd"]))])), term(json!([on("size", "Gt", json!(["4"]))]))]),
                true,
            ),
            (json!([term(json!([on("disk", "Exists", json!([])), on("size", "Lt", json!(["4"]))]))]), false),
            (json!([term(json!([on("gpu", "DoesNotExist", json!([]))]))]), true),
            (json!([term(json!([on("disk", "NotIn", json!(["ssd"]))]))]), false),
            (json!([{"matchFields": [on("metadata.name", "In", json!(["n"]))]}]), true),
            (json!([{"matchFields": [on("metadata.name", "In", json!(["m"]))]}]), false),
            (json!([{}]), false),
        ] {
            assert_eq!(wants(terms.clone()), expected, "{terms}");
        }
    }

    #[test]
    fn a_toleration_covers_what_it_names_and_all_that_it_leaves_out() {
        let taint: Taint = serde_json::from_value(json!({"key": "k", "value": "v", "effect": "NoSchedule"})).unwrap();
        for (toleration, expected) in [
            (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "v"}), true),
            (json!({"key": "k", "value": "other"}), false),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "k", "operator": "Unknown"}), false),
        ] {
            let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(tolerates(&read, &taint), expected, "{toleration}");
            let all = tolerates_all(&[read], std::slice::from_ref(&taint), &["NoSchedule"]);
            assert_eq!(all, expected, "{toleration}");
        }
        assert!(tolerates_all(&[], &[taint], &["NoExecute"]), "another effect");
    }
}
