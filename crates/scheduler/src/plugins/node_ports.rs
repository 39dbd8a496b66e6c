//! A port of the node belongs to one Pod.

use super::{Event, Filter, Plugin, Rejection};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::{HostPort, PodInfo};

pub(super) struct NodePorts;

struct Wanted<'a>(&'a [HostPort]);

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded, Event::PodRemoved]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, _cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        (!pod.ports.is_empty()).then(|| Box::new(Wanted(&pod.ports)) as _)
    }
}

impl<'a> Filter<'a> for Wanted<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        let taken = |wanted: &HostPort| node.ports.iter().any(|port| port.conflicts(wanted));
        match self.0.iter().any(taken) {
            true => Rejection::of_pods("node(s) didn't have free ports for the requested pod ports"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::verdicts;
    use super::*;
    use crate::testing::{node, pod};

    #[test]
    fn two_pods_cannot_have_one_port() {
        let with = |port: Value| json!({"containers": [{"name": "c", "ports": [port]}]});
        let cases = [
            (json!({"hostPort": 80}), json!({"hostPort": 80}), false),
            (json!({"hostPort": 80}), json!({"hostPort": 81}), true),
            (json!({"hostPort": 80}), json!({"hostPort": 80, "protocol": "UDP"}), true),
            (json!({"hostPort": 80, "hostIP": "10.0.0.1"}), json!({"hostPort": 80, "hostIP": "10.0.0.2"}), true),
            (json!({"hostPort": 80, "hostIP": "0.0.0.0"}), json!({"hostPort": 80, "hostIP": "10.0.0.2"}), false),
            (json!({"containerPort": 80}), json!({"containerPort": 80}), true),
        ];
        for (present, wanted, fits) in cases {
            let mut cache = Cache::default();
            cache.set_node(node("a", json!({})));
            cache.place(pod("present", with(present)), "a");
            let rejected = !verdicts(&NodePorts, &pod("p", with(wanted.clone())), &cache)[0].is_empty();
            assert_eq!(rejected, !fits, "{wanted}");
        }
    }
}
