//! What extenders are sent and what their answers mean: the types of `k8s.io/kube-scheduler/extender/v1`, whose names Go reads
//! whatever their case.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::preemption::Candidate;

/// The best score that an extender can give.
const MAX_EXTENDER_SCORE: i64 = 10;

/// What remains after a filter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filtered {
    pub(crate) nodes: Vec<String>,
    /// Why others will not do.
    pub(crate) failed: BTreeMap<String, String>,
    /// The same of those that will not do whichever Pods leave them.
    pub(crate) unresolvable: BTreeMap<String, String>,
}

/// Nodes with the UIDs of the Pods that have to leave, and how many of these a PodDisruptionBudget protects.
pub(crate) type MetaVictims = BTreeMap<String, (Vec<String>, i64)>;

/// A Pod and the nodes in question, whole or by name.
pub(crate) fn arguments(pod: &Pod, nodes: &[(String, std::sync::Arc<Node>)], names_only: bool) -> Value {
    let names = || nodes.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let whole =
        || json!({"metadata": {}, "items": nodes.iter().map(|(_, node)| plain(node.as_ref())).collect::<Vec<_>>()});
    match names_only {
        true => json!({"Pod": plain(pod), "Nodes": null, "NodeNames": names()}),
        false => json!({"Pod": plain(pod), "Nodes": whole(), "NodeNames": null}),
    }
}

pub(crate) fn binding(namespace: &str, name: &str, uid: &str, node: &str) -> Value {
    json!({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})
}

/// Of the nodes that were sent, those that are left.
pub(crate) fn filtered(answer: &Value, sent: &[&str], url: &str) -> Result<Filtered, String> {
    error_in(answer)?;
    let names = match (member(answer, "NodeNames").and_then(Value::as_array), member(answer, "Nodes")) {
        (Some(names), _) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        (None, Some(nodes)) => {
            let items = member(nodes, "items").and_then(Value::as_array).into_iter().flatten();
            items.map(|node| pintle_meta::object::name(node).to_owned()).collect()
        }
        (None, None) => Vec::new(),
    };
    let names: Vec<String> = names;
    if let Some(stranger) = names.iter().find(|name| !sent.contains(&name.as_str())) {
        let what = format!("claims a filtered node {stranger:?} which is not found in the input node list");
        return Err(format!("extender {url:?} {what}"));
    }
    let reasons = |key: &str| -> BTreeMap<String, String> {
        let reasons = member(answer, key).and_then(Value::as_object).into_iter().flatten();
        reasons.map(|(node, why)| (node.clone(), why.as_str().unwrap_or_default().to_owned())).collect()
    };
    let (mut failed, unresolvable) = (reasons("FailedNodes"), reasons("FailedAndUnresolvableNodes"));
    failed.retain(|node, _| !unresolvable.contains_key(node));
    Ok(Filtered { nodes: names, failed, unresolvable })
}

/// Where room could be made for a Pod, and which Pods would have to leave, whole or by UID.
pub(crate) fn preemption(pod: &Pod, candidates: &[Candidate], uids_only: bool) -> Value {
    let of_all = |of: &dyn Fn(&Pod) -> Value| -> Value {
        let entry = |candidate: &Candidate| {
            let pods: Vec<Value> = candidate.victims.iter().map(|victim| of(&victim.pod.pod)).collect();
            (candidate.node.clone(), json!({"Pods": pods, "NumPDBViolations": candidate.violations}))
        };
        Value::Object(candidates.iter().map(entry).collect())
    };
    match uids_only {
        true => {
            let uid = |pod: &Pod| json!({"UID": pod.metadata.uid});
            json!({"Pod": plain(pod), "NodeNameToVictims": null, "NodeNameToMetaVictims": of_all(&uid)})
        }
        false => {
            json!({"Pod": plain(pod), "NodeNameToVictims": of_all(&|pod| plain(pod)), "NodeNameToMetaVictims": null})
        }
    }
}

/// What is left of them.
pub(crate) fn victims(answer: &Value) -> MetaVictims {
    let nodes = member(answer, "NodeNameToMetaVictims").and_then(Value::as_object).into_iter().flatten();
    let of_node = |victims: &Value| {
        let pods = member(victims, "Pods").and_then(Value::as_array).into_iter().flatten();
        let uid = |pod: &Value| member(pod, "UID").and_then(Value::as_str).unwrap_or_default().to_owned();
        (pods.map(uid).collect(), member(victims, "NumPDBViolations").and_then(Value::as_i64).unwrap_or(0))
    };
    nodes.map(|(node, victims)| (node.clone(), of_node(victims))).collect()
}

/// What is added to the score of each node.
pub(crate) fn scores(answer: &Value, weight: i64) -> BTreeMap<String, i64> {
    let scale = crate::plugins::MAX_SCORE / MAX_EXTENDER_SCORE;
    let one = |entry: &Value| {
        let score = member(entry, "Score")?.as_i64()?;
        Some((member(entry, "Host")?.as_str()?.to_owned(), score.saturating_mul(weight).saturating_mul(scale)))
    };
    answer.as_array().into_iter().flatten().filter_map(one).collect()
}

pub(crate) fn error_in(answer: &Value) -> Result<(), String> {
    match member(answer, "Error").and_then(Value::as_str) {
        None | Some("") => Ok(()),
        Some(error) => Err(error.to_owned()),
    }
}

/// A member whatever the case of its name; null is absence.
fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let map: &Map<String, Value> = value.as_object()?;
    let found = map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    found.filter(|value| !value.is_null())
}

/// An object as it stands inside of another: without its type, and without who set which of its fields.
fn plain(object: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preemption::Victim;

    #[test]
    fn victims_are_sent_whole_or_by_uid_and_come_back_by_uid() {
        let pod = |name| crate::testing::important(name, 1, "1");
        let victim = |name| Victim { pod: pod(name), started: jiff::Timestamp::UNIX_EPOCH };
        let candidates = [Candidate { node: "n".to_owned(), victims: vec![victim("a"), victim("b")], violations: 1 }];
        let by_uid = preemption(&pod("p").pod, &candidates, true);
        let expected = json!({"n": {"Pods": [{"UID": "uid-a"}, {"UID": "uid-b"}], "NumPDBViolations": 1}});
        assert_eq!((&by_uid["NodeNameToMetaVictims"], &by_uid["NodeNameToVictims"]), (&expected, &Value::Null));
        let whole = preemption(&pod("p").pod, &candidates, false);
        assert_eq!(whole["NodeNameToVictims"]["n"]["Pods"][1]["metadata"]["name"], "b");
        assert_eq!((&whole["Pod"]["metadata"]["name"], &whole["NodeNameToMetaVictims"]), (&json!("p"), &Value::Null));
        assert_eq!(
            victims(&json!({"nodeNameToMetaVictims": expected})),
            [("n".to_owned(), (vec!["uid-a".to_owned(), "uid-b".to_owned()], 1))].into()
        );
        assert_eq!(victims(&json!({"NodeNameToMetaVictims": {"n": null}})), [("n".to_owned(), (vec![], 0))].into());
        assert!(victims(&json!({"NodeNameToMetaVictims": null})).is_empty() && victims(&json!([1])).is_empty());
    }

    #[test]
    fn an_answer_is_read_in_every_way_in_which_it_can_be_given() {
        let sent = ["a", "b", "c"];
        let filtered = |answer: Value| filtered(&answer, &sent, "http://x");
        let failed = json!({"c": "no"});
        for answer in [
            json!({"NodeNames": ["a", "b"], "FailedNodes": failed}),
            json!({"nodenames": ["a", "b"], "failedNodes": failed}),
            json!({"Nodes": {"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}, "NodeNames": null,
                "FailedNodes": {"c": "other"}, "FailedAndUnresolvableNodes": failed}),
        ] {
            let read = filtered(answer.clone()).unwrap();
            let why = read.failed.get("c").or(read.unresolvable.get("c")).map(String::as_str);
            assert_eq!((read.nodes.join(","), why), ("a,b".to_owned(), Some("no")), "{answer}");
        }
        assert_eq!(filtered(json!({"Error": "unwell", "NodeNames": ["a"]})).unwrap_err(), "unwell");
        assert!(filtered(json!({"NodeNames": ["z"]})).unwrap_err().contains("claims a filtered node \"z\""));
        assert_eq!(filtered(json!({})).unwrap(), Filtered::default());
        assert_eq!(
            scores(&json!([{"Host": "a", "Score": 7}, {"host": "b", "score": 1}]), 2),
            [("a".into(), 140), ("b".into(), 20)].into()
        );
    }
}
