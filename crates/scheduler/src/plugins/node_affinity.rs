//! A Pod's node selector, and the nodes that it requires or prefers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAffinity as Affinity, NodeSelectorTerm, PreferredSchedulingTerm};
use pintle_rules::placement::term_matches;

use super::{Event, Filter, Plugin, Rejection, Score, scale};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

pub(super) struct NodeAffinity;

/// What a Pod asks of its node.
pub(super) struct Required<'a> {
    selector: Option<&'a BTreeMap<String, String>>,
    terms: Option<&'a [NodeSelectorTerm]>,
}

struct Preferred<'a>(&'a [PreferredSchedulingTerm]);

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded, Event::NodeChanged]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, _cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        Some(Box::new(Required::of(pod)?))
    }

    fn score<'a>(
        &self,
        pod: &'a PodInfo,
        _cache: &'a Cache,
        _feasible: &[&'a NodeInfo],
    ) -> Option<Box<dyn Score + 'a>> {
        let terms = affinity(pod)?.preferred_during_scheduling_ignored_during_execution.as_deref()?;
        (!terms.is_empty()).then(|| Box::new(Preferred(terms)) as _)
    }

    fn weight(&self) -> i64 {
        2
    }
}

impl<'a> Required<'a> {
    /// Nothing if every node will do.
    pub(super) fn of(pod: &'a PodInfo) -> Option<Self> {
        let selector = pod.spec()?.node_selector.as_ref().filter(|selector| !selector.is_empty());
        let required =
            affinity(pod).and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
        let terms = required.map(|required| required.node_selector_terms.as_slice());
        (selector.is_some() || terms.is_some()).then_some(Required { selector, terms })
    }

    pub(super) fn matches(&self, node: &NodeInfo) -> bool {
        let mut pairs = self.selector.into_iter().flatten();
        pairs.all(|(key, value)| node.label(key) == Some(value))
            && self.terms.is_none_or(|terms| terms.iter().any(|term| term_matches(term, &node.node)))
    }
}

impl<'a> Filter<'a> for Required<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if self.matches(node) {
            Ok(())
        } else {
            Rejection::of_node("node(s) didn't match Pod's node affinity/selector")
        }
    }
}

impl Score for Preferred<'_> {
    fn score(&self, node: &NodeInfo) -> i64 {
        let liked = self.0.iter().filter(|preferred| term_matches(&preferred.preference, &node.node));
        liked.map(|preferred| i64::from(preferred.weight)).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        scale(scores, false);
    }
}

fn affinity(pod: &PodInfo) -> Option<&Affinity> {
    pod.spec()?.affinity.as_ref()?.node_affinity.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{scores, verdicts};
    use super::*;
    use crate::testing::{labelled, pod};

    fn cache() -> Cache {
        let mut cache = Cache::default();
        cache.set_node(labelled("a", json!({"zone": "x", "size": "3"})));
        cache.set_node(labelled("b", json!({"zone": "y"})));
        cache
    }

    fn required(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn a_pod_goes_where_its_selector_and_affinity_allow() {
        let expression = |key: &str, operator: &str, values: Value| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        let cases = [
            (json!({"nodeSelector": {"zone": "x"}}), [true, false]),
            (required(expression("zone", "In", json!(["x", "z"]))), [true, false]),
            (required(expression("zone", "NotIn", json!(["x"]))), [false, true]),
            (required(expression("size", "Exists", json!([]))), [true, false]),
            (required(expression("size", "DoesNotExist", json!([]))), [false, true]),
            (required(expression("size", "Gt", json!(["2"]))), [true, false]),
            (required(expression("size", "Lt", json!(["2"]))), [false, false]),
            (
                required(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}])),
                [false, true],
            ),
            (required(json!([{}])), [false, false]),
            (json!({}), [true, true]),
        ];
        for (spec, fits) in cases {
            let verdicts = verdicts(&NodeAffinity, &pod("p", spec.clone()), &cache());
            let expected = fits.map(|fits| if fits { "" } else { "node(s) didn't match Pod's node affinity/selector" });
            assert_eq!(verdicts, expected, "{spec}");
        }
    }

    #[test]
    fn preferences_add_up() {
        let spec = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
            {"weight": 30, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}},
        ]}}});
        assert_eq!(scores(&NodeAffinity, &pod("p", spec), &cache()), Some(vec![25, 100]));
    }
}
