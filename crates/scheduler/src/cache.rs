//! All nodes and the Pods on them, kept up to date change by change; bound Pods and assumed ones alike.
//!
//! A scheduling cycle works on the cache itself, under its lock: nothing is copied, and a Pod that was just placed is
//! seen by the next cycle although no one has confirmed it.
//!
//! - A Pod may be told before its node: it waits until the node comes.
//! - An assumed Pod stays until the API server says where it is, or its binding fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use pintle_runtime::Key;

use crate::node::{NodeInfo, has_terms};
use crate::nominated::Nominated;
use crate::pod::PodInfo;
use crate::storage::Storage;
use crate::terms::Namespaces;

#[derive(Debug, Default)]
pub struct Cache {
    nodes: Vec<NodeInfo>,
    index: BTreeMap<String, usize>,
    /// By UID.
    placed: BTreeMap<String, Placed>,
    /// UIDs of Pods whose node is not known, by the node's name.
    homeless: BTreeMap<String, BTreeSet<String>>,
    pub namespaces: Namespaces,
    pub storage: Storage,
    pub nominated: Nominated,
    /// UIDs of Pods that have a node here only, and wait for their volumes before it is written.
    pub(crate) unwritten: BTreeSet<String>,
    /// How many Pods with a node use each claim.
    claims_in_use: BTreeMap<Key, usize>,
    /// Pods on nodes that say something about where other Pods may be: none, and no one need be asked.
    pub with_anti_affinity: usize,
    pub with_terms: usize,
}

#[derive(Debug)]
struct Placed {
    pod: Arc<PodInfo>,
    node: String,
}

impl Cache {
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.index.get(name).map(|index| &self.nodes[*index])
    }

    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(index) = self.index.get(&name) {
            self.nodes[*index].update(node);
            return;
        }
        let mut info = NodeInfo::new(node);
        for uid in self.homeless.remove(&name).into_iter().flatten() {
            if let Some(placed) = self.placed.get(&uid) {
                info.add(placed.pod.clone());
            }
        }
        self.with_anti_affinity += info.with_anti_affinity;
        self.with_terms += info.with_terms;
        self.index.insert(name, self.nodes.len());
        self.nodes.push(info);
    }

    pub fn remove_node(&mut self, name: &str) {
        let Some(index) = self.index.remove(name) else { return };
        let info = self.nodes.swap_remove(index);
        if let Some(moved) = self.nodes.get(index) {
            self.index.insert(moved.name.clone(), index);
        }
        self.with_anti_affinity -= info.with_anti_affinity;
        self.with_terms -= info.with_terms;
        // Its Pods are still bound to it, should it come back.
        if !info.pods.is_empty() {
            self.homeless.entry(info.name).or_default().extend(info.pods.into_keys());
        }
    }

    /// Whether a Pod has a node, confirmed or assumed.
    pub fn is_placed(&self, uid: &str) -> bool {
        self.placed.contains_key(uid)
    }

    /// How many Pods with a node use a claim.
    pub fn uses_of(&self, claim: &Key) -> usize {
        self.claims_in_use.get(claim).copied().unwrap_or(0)
    }

    /// Puts a Pod on a node: it was bound there, or is about to be.
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.displace(&pod.uid);
        self.nominated.remove(&pod.uid);
        match self.index.get(node) {
            Some(index) => {
                self.with_anti_affinity += usize::from(!pod.anti_affinity.is_empty());
                self.with_terms += usize::from(has_terms(&pod));
                self.nodes[*index].add(pod.clone());
            }
            None => {
                self.homeless.entry(node.to_owned()).or_default().insert(pod.uid.clone());
            }
        }
        for used in &pod.claims {
            *self.claims_in_use.entry(used.key.clone()).or_default() += 1;
        }
        self.placed.insert(pod.uid.clone(), Placed { pod, node: node.to_owned() });
    }

    /// Takes a Pod off its node: it ended, it was deleted, or its binding failed. True if it had one.
    pub fn displace(&mut self, uid: &str) -> bool {
        let Some(Placed { pod, node }) = self.placed.remove(uid) else { return false };
        for used in &pod.claims {
            if let Some(uses) = self.claims_in_use.get_mut(&used.key) {
                *uses -= 1;
                if *uses == 0 {
                    self.claims_in_use.remove(&used.key);
                }
            }
        }
        match self.index.get(&node) {
            Some(index) => {
                self.nodes[*index].remove(uid);
                self.with_anti_affinity -= usize::from(!pod.anti_affinity.is_empty());
                self.with_terms -= usize::from(has_terms(&pod));
            }
            None => {
                if let Some(uids) = self.homeless.get_mut(&node) {
                    uids.remove(uid);
                    if uids.is_empty() {
                        self.homeless.remove(&node);
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{node, pod};

    use super::*;

    #[test]
    fn what_a_pod_takes_is_given_back_whatever_the_order() {
        let mut cache = Cache::default();
        let web = pod(
            "web",
            serde_json::json!({"containers": [{"name": "c",
            "resources": {"requests": {"cpu": "1", "example.com/gpu": "2"}}, "ports": [{"hostPort": 80}]}]}),
        );
        cache.place(web.clone(), "n");
        cache.set_node(node("n", serde_json::json!({})));
        assert_eq!(cache.node("n").unwrap().requested.milli_cpu, 1000);
        cache.place(web.clone(), "n");
        assert_eq!(cache.node("n").unwrap().requested.milli_cpu, 1000, "told twice, counted once");
        cache.remove_node("n");
        cache.set_node(node("n", serde_json::json!({})));
        assert_eq!(cache.node("n").unwrap().ports.len(), 1);
        assert!(cache.displace(&web.uid) && !cache.displace(&web.uid));
        let left = cache.node("n").unwrap();
        assert_eq!((&left.requested, left.ports.len(), left.pods.len()), (&Default::default(), 0, 0));
    }

    #[test]
    fn a_removed_node_leaves_the_others_where_they_can_be_found() {
        let mut cache = Cache::default();
        for name in ["a", "b", "c"] {
            cache.set_node(node(name, serde_json::json!({})));
        }
        cache.remove_node("a");
        assert!(cache.node("a").is_none());
        assert_eq!(cache.node("b").unwrap().name, "b");
        assert_eq!(cache.node("c").unwrap().name, "c");
    }
}
