//! Pods that wait for room that was made for them, and the nodes on which it was made.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pod::PodInfo;

/// What is known here may be ahead of `status.nominatedNodeName`, which is written after the decision.
#[derive(Debug, Default)]
pub struct Nominated {
    /// By the name of the node, then by UID.
    by_node: BTreeMap<String, BTreeMap<String, Arc<PodInfo>>>,
    /// By UID.
    node_of: BTreeMap<String, String>,
}

impl Nominated {
    pub fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }

    pub fn on(&self, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    pub fn node_of(&self, uid: &str) -> Option<&str> {
        self.node_of.get(uid).map(String::as_str)
    }

    pub fn set(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.remove(&pod.uid);
        self.node_of.insert(pod.uid.clone(), node.to_owned());
        self.by_node.entry(node.to_owned()).or_default().insert(pod.uid.clone(), pod);
    }

    /// True if it was nominated.
    pub fn remove(&mut self, uid: &str) -> bool {
        let Some(node) = self.node_of.remove(uid) else { return false };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        true
    }

    /// What the API server says of a Pod without a node; `before` is what it said last.
    ///
    /// If it said nothing and says nothing, a decision that is made and not yet written stays.
    pub fn told(&mut self, pod: &Arc<PodInfo>, before: Option<&str>) {
        let now = written(pod);
        let node = match (before, now) {
            (None, None) => self.node_of(&pod.uid).map(str::to_owned),
            (_, now) => now.map(str::to_owned),
        };
        match node {
            Some(node) => self.set(pod.clone(), &node),
            None => drop(self.remove(&pod.uid)),
        }
    }
}

/// The node that the Pod's status names.
pub(crate) fn written(pod: &PodInfo) -> Option<&str> {
    in_status(&pod.pod)
}

pub(crate) fn in_status(pod: &k8s_openapi::api::core::v1::Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{nominated, pod};

    #[test]
    fn a_decision_outlives_news_that_do_not_know_it_yet() {
        let mut all = Nominated::default();
        let waiting = pod("p", serde_json::json!({}));
        all.set(waiting.clone(), "a");
        all.told(&waiting, None);
        assert_eq!((all.node_of(&waiting.uid), all.on("a").count()), (Some("a"), 1));
        all.told(&nominated("p", "b"), None);
        assert_eq!((all.node_of(&waiting.uid), all.on("a").count(), all.on("b").count()), (Some("b"), 0, 1));
        all.told(&waiting, Some("b"));
        assert!(all.is_empty() && all.on("b").next().is_none(), "the nomination was taken back");
        assert!(!all.remove(&waiting.uid));
    }
}
