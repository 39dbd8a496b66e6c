//! What a Node's labels and taints say about a Pod.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration};

/// Whether the Pod's selector and its required affinity want such a node.
pub(super) fn is_wanted(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let mut pairs = spec.node_selector.iter().flatten();
    if !pairs.all(|(key, value)| label(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| matches(term, node)))
}

/// All of a term must hold; an empty term holds for no node.
fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let field = |key: &str| node.metadata.name.as_deref().filter(|_| key == "metadata.name");
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    (!labels.is_empty() || !fields.is_empty())
        && labels.iter().all(|requirement| holds(requirement, label(&requirement.key)))
        && fields.iter().all(|requirement| holds(requirement, field(&requirement.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let numbers = || value.and_then(number).zip(values.first().and_then(|bound| number(bound)));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Whether the node sends away whoever does not tolerate a taint that this Pod does not.
pub(super) fn is_forbidden(pod: &Pod, node: &Node) -> bool {
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let tolerations: Vec<&Toleration> = tolerations.collect();
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut sending_away = taints.filter(|taint| taint.effect == "NoExecute");
    sending_away.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let fits = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == found)
    };
    let value = |value: &Option<String>| value.clone().unwrap_or_default();
    let same_value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => value(&toleration.value) == value(&taint.value),
        Some(_) => false,
    };
    same_value && fits(&toleration.effect, &taint.effect) && fits(&toleration.key, &taint.key)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::make::testing;

    #[test]
    fn any_term_of_an_affinity_is_enough_and_all_of_it_must_hold() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"disk": "ssd", "size": "5"}}})).unwrap();
        let wants = |terms: Value| {
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            is_wanted(&testing::pod(json!({"containers": [], "affinity": {"nodeAffinity": required}})), &node)
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
}
