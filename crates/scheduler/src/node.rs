//! A node as the scheduler sees it: what it has, what is taken, and by which Pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use pintle_meta::quantity::Quantity;

use crate::pod::{HostPort, PodInfo};
use crate::resources::Resources;

#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub name: String,
    pub node: Arc<Node>,
    pub allocatable: Resources,
    pub allowed_pods: i64,
    pub requested: Resources,
    pub weighed: Resources,
    pub ports: Vec<HostPort>,
    /// By UID.
    pub pods: BTreeMap<String, Arc<PodInfo>>,
    /// How many of them say something about where other Pods may be.
    pub with_anti_affinity: usize,
    pub with_terms: usize,
}

impl NodeInfo {
    pub fn new(node: Arc<Node>) -> Self {
        let mut info = NodeInfo {
            name: node.metadata.name.clone().unwrap_or_default(),
            node: node.clone(),
            allocatable: Resources::default(),
            allowed_pods: 0,
            requested: Resources::default(),
            weighed: Resources::default(),
            ports: Vec::new(),
            pods: BTreeMap::new(),
            with_anti_affinity: 0,
            with_terms: 0,
        };
        info.update(node);
        info
    }

    pub fn update(&mut self, node: Arc<Node>) {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let pods = allocatable.and_then(|list| list.get("pods")).and_then(|amount| Quantity::parse(&amount.0).ok());
        self.allocatable = Resources::of(allocatable);
        self.allowed_pods = pods.map_or(0, |pods| pods.units());
        self.node = node;
    }

    pub fn add(&mut self, pod: Arc<PodInfo>) {
        if self.pods.contains_key(&pod.uid) {
            return;
        }
        self.requested.add(&pod.requests);
        self.weighed.add(&pod.weighed);
        self.ports.extend(pod.ports.iter().cloned());
        self.with_anti_affinity += usize::from(!pod.anti_affinity.is_empty());
        self.with_terms += usize::from(has_terms(&pod));
        self.pods.insert(pod.uid.clone(), pod);
    }

    pub fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(uid)?;
        self.requested.subtract(&pod.requests);
        self.weighed.subtract(&pod.weighed);
        for port in &pod.ports {
            if let Some(index) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(index);
            }
        }
        self.with_anti_affinity -= usize::from(!pod.anti_affinity.is_empty());
        self.with_terms -= usize::from(has_terms(&pod));
        Some(pod)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.node.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub fn taints(&self) -> &[Taint] {
        self.node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    pub fn is_unschedulable(&self) -> bool {
        self.node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
    }
}

pub(crate) fn has_terms(pod: &PodInfo) -> bool {
    !pod.affinity.is_empty() || !pod.preferred.is_empty()
}
