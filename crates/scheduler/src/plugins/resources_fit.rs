//! A node must have what a Pod asks for; one with more left is better.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Event, Filter, MAX_SCORE, Plugin, Rejection, Score};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

#[derive(Default)]
pub(super) struct ResourcesFit {
    /// Resources that somebody else manages.
    pub(super) ignored: Arc<BTreeSet<String>>,
}

struct Fit<'a>(&'a PodInfo, Arc<BTreeSet<String>>);

impl Plugin for ResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded, Event::NodeChanged, Event::PodRemoved]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, _cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        Some(Box::new(Fit(pod, self.ignored.clone())))
    }

    fn score<'a>(
        &self,
        pod: &'a PodInfo,
        _cache: &'a Cache,
        _feasible: &[&'a NodeInfo],
    ) -> Option<Box<dyn Score + 'a>> {
        Some(Box::new(Fit(pod, self.ignored.clone())))
    }
}

impl<'a> Filter<'a> for Fit<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        let (asked, has, taken) = (&self.0.requests, &node.allocatable, &node.requested);
        let lacks = |asked: i64, has: i64, taken: i64| asked > 0 && asked > has.saturating_sub(taken);
        let mut reasons = Vec::new();
        // Also an empty node would be too small for it.
        let mut is_too_large = false;
        if i64::try_from(node.pods.len()).unwrap_or(i64::MAX) >= node.allowed_pods {
            reasons.push(Cow::Borrowed("Too many pods"));
        }
        if lacks(asked.milli_cpu, has.milli_cpu, taken.milli_cpu) {
            is_too_large |= asked.milli_cpu > has.milli_cpu;
            reasons.push(Cow::Borrowed("Insufficient cpu"));
        }
        if lacks(asked.memory, has.memory, taken.memory) {
            is_too_large |= asked.memory > has.memory;
            reasons.push(Cow::Borrowed("Insufficient memory"));
        }
        if lacks(asked.ephemeral_storage, has.ephemeral_storage, taken.ephemeral_storage) {
            is_too_large |= asked.ephemeral_storage > has.ephemeral_storage;
            reasons.push(Cow::Borrowed("Insufficient ephemeral-storage"));
        }
        for (name, amount) in asked.extended.iter().filter(|(name, _)| !self.1.contains(*name)) {
            let of = |list: &std::collections::BTreeMap<String, i64>| list.get(name).copied().unwrap_or(0);
            if lacks(*amount, of(&has.extended), of(&taken.extended)) {
                is_too_large |= *amount > of(&has.extended);
                reasons.push(Cow::Owned(format!("Insufficient {name}")));
            }
        }
        if reasons.is_empty() { Ok(()) } else { Err(Rejection { reasons, is_resolvable: !is_too_large }) }
    }
}

impl Score for Fit<'_> {
    fn score(&self, node: &NodeInfo) -> i64 {
        let (asked, has, taken) = (&self.0.weighed, &node.allocatable, &node.weighed);
        let amounts = [(asked.milli_cpu + taken.milli_cpu, has.milli_cpu), (asked.memory + taken.memory, has.memory)];
        let (mut sum, mut count) = (0, 0);
        for (used, capacity) in amounts.into_iter().filter(|(_, capacity)| *capacity > 0) {
            let left = i128::from((capacity - used).max(0)) * i128::from(MAX_SCORE) / i128::from(capacity);
            sum += i64::try_from(left).unwrap_or(0);
            count += 1;
        }
        if count == 0 { 0 } else { sum / count }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{scores, verdicts};
    use super::*;
    use crate::testing::{asking, node, pod};

    #[test]
    fn what_a_node_lacks_is_named() {
        let gpu = json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]});
        let disk = json!({"containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "1"}}}]});
        let cases = [
            (asking("p", "2", "1Gi"), ""),
            (asking("p", "3", "1Gi"), "Insufficient cpu"),
            (asking("p", "1", "8Gi"), "Insufficient memory"),
            (asking("p", "3", "8Gi"), "Insufficient cpu; Insufficient memory"),
            (pod("p", gpu), "Insufficient example.com/gpu"),
            (pod("p", disk), "Insufficient ephemeral-storage"),
            (pod("p", json!({})), ""),
        ];
        let mut cache = Cache::default();
        cache.set_node(node("a", json!({})));
        cache.place(asking("present", "2", "1Gi"), "a");
        for (pod, expected) in cases {
            assert_eq!(verdicts(&ResourcesFit::default(), &pod, &cache), [expected]);
        }
        for index in 0..9 {
            cache.place(pod(&index.to_string(), json!({})), "a");
        }
        assert_eq!(verdicts(&ResourcesFit::default(), &pod("p", json!({})), &cache), ["Too many pods"]);
    }

    #[test]
    fn the_emptier_node_is_better() {
        let mut cache = Cache::default();
        cache.set_node(node("a", json!({})));
        cache.set_node(node("b", json!({})));
        cache.place(asking("present", "2", "4Gi"), "a");
        assert_eq!(scores(&ResourcesFit::default(), &asking("p", "1", "2Gi"), &cache), Some(vec![25, 75]));
    }
}
