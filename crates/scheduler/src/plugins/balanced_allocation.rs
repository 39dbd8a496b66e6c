//! A node whose processor and memory fill up evenly wastes less of either.

use super::{Event, MAX_SCORE, Plugin, Score};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

pub(super) struct BalancedAllocation;

struct Balance<'a>(&'a PodInfo);

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[]
    }

    fn score<'a>(
        &self,
        pod: &'a PodInfo,
        _cache: &'a Cache,
        _feasible: &[&'a NodeInfo],
    ) -> Option<Box<dyn Score + 'a>> {
        // One that asks for nothing tips no balance.
        let asks = pod.requests.milli_cpu > 0 || pod.requests.memory > 0;
        asks.then(|| Box::new(Balance(pod)) as _)
    }
}

impl Score for Balance<'_> {
    fn score(&self, node: &NodeInfo) -> i64 {
        let (asked, taken) = (&self.0.requests, &node.requested);
        let with = evenness(node, taken.milli_cpu + asked.milli_cpu, taken.memory + asked.memory);
        let without = evenness(node, taken.milli_cpu, taken.memory);
        // Both are from 50 to 100; what counts is whether the Pod makes it better or worse.
        MAX_SCORE / 2 + (MAX_SCORE / 2 + with - without) / 2
    }
}

/// 100 if both are used to the same fraction, 50 if one is full and the other empty.
fn evenness(node: &NodeInfo, milli_cpu: i64, memory: i64) -> i64 {
    let fraction = |used: i64, capacity: i64| (used as f64 / capacity as f64).min(1.0);
    let deviation = match (node.allocatable.milli_cpu, node.allocatable.memory) {
        (processors @ 1.., bytes @ 1..) => (fraction(milli_cpu, processors) - fraction(memory, bytes)).abs() / 2.0,
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::scores;
    use super::*;
    use crate::testing::{asking, node, pod};

    #[test]
    fn a_pod_goes_where_it_evens_things_out() {
        let mut cache = Cache::default();
        cache.set_node(node("a", json!({})));
        cache.set_node(node("b", json!({})));
        cache.place(asking("thinker", "2", "0"), "a");
        cache.place(asking("hoarder", "0", "4Gi"), "b");
        assert_eq!(scores(&BalancedAllocation, &asking("p", "2", "0"), &cache), Some(vec![62, 87]));
        assert_eq!(scores(&BalancedAllocation, &pod("idle", json!({})), &cache), None);
    }
}
