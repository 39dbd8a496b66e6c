//! A Pod that names its node goes nowhere else.

use super::{Event, Filter, Plugin, Rejection};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

pub(super) struct NodeName;

struct Named<'a>(&'a str);

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, _cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        let name = pod.spec()?.node_name.as_deref().filter(|name| !name.is_empty())?;
        Some(Box::new(Named(name)))
    }
}

impl<'a> Filter<'a> for Named<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if node.name == self.0 { Ok(()) } else { Rejection::of_node("node(s) didn't match the requested node name") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::verdicts;
    use super::*;
    use crate::testing::{node, pod};

    #[test]
    fn only_the_named_node_will_do() {
        let mut cache = Cache::default();
        cache.set_node(node("a", json!({})));
        cache.set_node(node("b", json!({})));
        let named = pod("p", json!({"nodeName": "b"}));
        assert_eq!(verdicts(&NodeName, &named, &cache), ["node(s) didn't match the requested node name", ""]);
        assert_eq!(verdicts(&NodeName, &pod("q", json!({})), &cache), ["", ""]);
    }
}
