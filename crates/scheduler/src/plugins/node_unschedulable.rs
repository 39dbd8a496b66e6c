//! A cordoned node takes only Pods that tolerate it.

use k8s_openapi::api::core::v1::{Taint, Toleration};
use pintle_rules::placement::any_tolerates;

use super::taint_toleration::tolerations;
use super::{Event, Filter, Plugin, Rejection};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

pub(super) struct NodeUnschedulable;

struct Cordon<'a>(&'a [Toleration]);

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded, Event::NodeChanged]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, _cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        Some(Box::new(Cordon(tolerations(pod))))
    }
}

impl<'a> Filter<'a> for Cordon<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if !node.is_unschedulable() {
            return Ok(());
        }
        let cordon = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if any_tolerates(self.0, &cordon) { Ok(()) } else { Rejection::of_node("node(s) were unschedulable") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::verdicts;
    use super::*;
    use crate::testing::{node, pod};

    #[test]
    fn a_cordon_keeps_out_all_but_those_who_tolerate_it() {
        let mut cache = Cache::default();
        cache.set_node(node("a", json!({"spec": {"unschedulable": true}})));
        let daemon = json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
        assert_eq!(verdicts(&NodeUnschedulable, &pod("p", json!({})), &cache), ["node(s) were unschedulable"]);
        assert_eq!(verdicts(&NodeUnschedulable, &pod("d", daemon), &cache), [""]);
    }
}
