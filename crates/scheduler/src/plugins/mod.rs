//! What keeps a Pod off a node, and what makes one node better than another; one file each.
//!
//! A plugin looks at the Pod once and hands back a filter or a score to ask node by node, or nothing if the Pod gives
//! it nothing to do: most Pods have no ports, no affinity and no spread, and pay for none.
//!
//! To add one: a file that implements [`Plugin`], and a line in [`all`].

mod balanced_allocation;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_unschedulable;
mod pod_topology_spread;
mod resources_fit;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// The best score that a node can have from one plugin, before its weight.
pub const MAX_SCORE: i64 = 100;

/// Why a node cannot take a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// In the words of events. Rarely more than one.
    pub reasons: Vec<Cow<'static, str>>,
    /// Whether the Pod may fit when other Pods leave the node.
    pub is_resolvable: bool,
}

impl Rejection {
    /// Other Pods are the reason.
    fn of_pods(reason: &'static str) -> Result<(), Rejection> {
        Err(Rejection { reasons: vec![Cow::Borrowed(reason)], is_resolvable: true })
    }

    /// The node itself is the reason.
    fn of_node(reason: &'static str) -> Result<(), Rejection> {
        Err(Rejection { reasons: vec![Cow::Borrowed(reason)], is_resolvable: false })
    }
}

pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// What may make a Pod that this plugin rejected fit after all.
    fn helped_by(&self) -> &'static [Event];

    /// Why no node at all will do, whatever it is like.
    fn refusal(&self, _pod: &PodInfo, _cache: &Cache) -> Option<String> {
        None
    }

    fn filter<'a>(&self, _pod: &'a PodInfo, _cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        None
    }

    /// `feasible` are the nodes among which one will be chosen.
    fn score<'a>(
        &self,
        _pod: &'a PodInfo,
        _cache: &'a Cache,
        _feasible: &[&'a NodeInfo],
    ) -> Option<Box<dyn Score + 'a>> {
        None
    }

    fn weight(&self) -> i64 {
        1
    }
}

pub trait Filter<'a> {
    /// The node may differ from the cache's: with other Pods than are on it, which [`Filter::count`] was told.
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection>;

    /// Counts a Pod as if it came to the node (`change` is 1) or left it (-1). Needed only by filters that have counted
    /// Pods of all nodes.
    fn count(&mut self, _other: &'a PodInfo, _node: &'a NodeInfo, _change: i64) {}
}

pub trait Score {
    fn score(&self, node: &NodeInfo) -> i64;

    /// Brings raw scores of all feasible nodes to 0 up to [`MAX_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// Something that happened in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    NodeAdded,
    /// Labels, taints, capacity or whether it takes Pods.
    NodeChanged,
    /// A Pod was bound to a node, or one on a node got other labels.
    PodPlaced,
    /// A Pod on a node ended or was deleted.
    PodRemoved,
    NamespaceChanged,
    /// A claim, a volume or a class.
    StorageChanged,
}

impl Event {
    pub const ALL: [Event; 6] = [
        Event::NodeAdded,
        Event::NodeChanged,
        Event::PodPlaced,
        Event::PodRemoved,
        Event::NamespaceChanged,
        Event::StorageChanged,
    ];
}

/// Who rejected a Pod when extenders did: what they go by nobody knows, so anything may help.
pub const EXTENDER: &str = "Extender";

/// Every plugin; filters are asked in this order, the cheap and telling ones first.
/// The nodes' amounts of `ignored` resources do not count: somebody else manages them.
pub fn all(ignored: BTreeSet<String>) -> Vec<Box<dyn Plugin>> {
    vec![
        Box::new(node_unschedulable::NodeUnschedulable),
        Box::new(node_name::NodeName),
        Box::new(taint_toleration::TaintToleration),
        Box::new(node_affinity::NodeAffinity),
        Box::new(node_ports::NodePorts),
        Box::new(resources_fit::ResourcesFit { ignored: Arc::new(ignored) }),
        Box::new(volume_restrictions::VolumeRestrictions),
        Box::new(volume_binding::VolumeBinding),
        Box::new(pod_topology_spread::PodTopologySpread),
        Box::new(inter_pod_affinity::InterPodAffinity),
        Box::new(balanced_allocation::BalancedAllocation),
    ]
}

/// Makes the highest score 100 and the others as much less; `reverse` makes the highest the worst.
fn scale(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let scaled = if highest == 0 { 0 } else { MAX_SCORE * *score / highest };
        *score = if reverse { MAX_SCORE - scaled } else { scaled };
    }
}

#[cfg(test)]
mod testing {
    //! Asks one plugin about one Pod and every node of a cache.

    use super::*;

    /// The reasons of each node, joined; empty where the Pod fits.
    pub(super) fn verdicts(plugin: &dyn Plugin, pod: &PodInfo, cache: &Cache) -> Vec<String> {
        let filter = plugin.filter(pod, cache);
        let verdict = |node: &NodeInfo| match filter.as_ref().map_or(Ok(()), |filter| filter.check(node)) {
            Ok(()) => String::new(),
            Err(rejection) => rejection.reasons.join("; "),
        };
        cache.nodes().iter().map(verdict).collect()
    }

    /// The normalized score of each node; nothing if the plugin does not care.
    pub(super) fn scores(plugin: &dyn Plugin, pod: &PodInfo, cache: &Cache) -> Option<Vec<i64>> {
        let nodes: Vec<&NodeInfo> = cache.nodes().iter().collect();
        let score = plugin.score(pod, cache, &nodes)?;
        let mut scores: Vec<i64> = nodes.iter().map(|node| score.score(node)).collect();
        score.normalize(&mut scores);
        Some(scores)
    }
}
