//! Taints keep out Pods that do not tolerate them, or make a node less welcome.

use k8s_openapi::api::core::v1::{Taint, Toleration};
use pintle_rules::placement::{any_tolerates, tolerates_all};

use super::{Event, Filter, Plugin, Rejection, Score, scale};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

pub(super) struct TaintToleration;

struct Tolerant<'a>(&'a [Toleration]);

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded, Event::NodeChanged]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, _cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        Some(Box::new(Tolerant(tolerations(pod))))
    }

    fn score<'a>(&self, pod: &'a PodInfo, _cache: &'a Cache, feasible: &[&'a NodeInfo]) -> Option<Box<dyn Score + 'a>> {
        // Without such a taint all nodes are equal in this.
        let prefer = |taint: &Taint| taint.effect == "PreferNoSchedule";
        feasible.iter().any(|node| node.taints().iter().any(prefer)).then(|| Box::new(Tolerant(tolerations(pod))) as _)
    }

    fn weight(&self) -> i64 {
        3
    }
}

impl<'a> Filter<'a> for Tolerant<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if is_tolerated(self.0, node) { Ok(()) } else { Rejection::of_node("node(s) had untolerated taint(s)") }
    }
}

impl Score for Tolerant<'_> {
    fn score(&self, node: &NodeInfo) -> i64 {
        let unwelcome = node.taints().iter().filter(|taint| taint.effect == "PreferNoSchedule");
        i64::try_from(unwelcome.filter(|taint| !any_tolerates(self.0, taint)).count()).unwrap_or(i64::MAX)
    }

    fn normalize(&self, scores: &mut [i64]) {
        scale(scores, true);
    }
}

pub(super) fn tolerations(pod: &PodInfo) -> &[Toleration] {
    pod.spec().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

/// Whether no taint of the node keeps such a Pod out.
pub(super) fn is_tolerated(tolerations: &[Toleration], node: &NodeInfo) -> bool {
    tolerates_all(tolerations, node.taints(), &["NoSchedule", "NoExecute"])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{scores, verdicts};
    use super::*;
    use crate::testing::{node, pod};

    fn tainted(effect: &str) -> Value {
        json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}})
    }

    #[test]
    fn a_taint_keeps_out_whoever_does_not_tolerate_it() {
        let cases = [
            ("NoSchedule", json!([]), false),
            ("NoExecute", json!([]), false),
            ("PreferNoSchedule", json!([]), true),
            ("NoSchedule", json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]), true),
            ("NoSchedule", json!([{"key": "k", "value": "v"}]), true),
            ("NoSchedule", json!([{"key": "k", "value": "other"}]), false),
            ("NoSchedule", json!([{"key": "k", "operator": "Exists"}]), true),
            ("NoSchedule", json!([{"operator": "Exists"}]), true),
            ("NoSchedule", json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]), false),
        ];
        for (effect, tolerations, fits) in cases {
            let mut cache = Cache::default();
            cache.set_node(node("a", tainted(effect)));
            let pod = pod("p", json!({"tolerations": tolerations}));
            let expected = if fits { "" } else { "node(s) had untolerated taint(s)" };
            assert_eq!(verdicts(&TaintToleration, &pod, &cache), [expected], "{effect} {tolerations}");
        }
    }

    #[test]
    fn a_soft_taint_makes_a_node_less_welcome() {
        let mut cache = Cache::default();
        cache.set_node(node("a", tainted("PreferNoSchedule")));
        cache.set_node(node("b", json!({})));
        assert_eq!(scores(&TaintToleration, &pod("p", json!({})), &cache), Some(vec![0, 100]));
        cache.remove_node("a");
        assert_eq!(scores(&TaintToleration, &pod("p", json!({})), &cache), None);
    }
}
