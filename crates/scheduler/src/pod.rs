//! A Pod as the scheduler sees it: read once, asked many times.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use pintle_runtime::{Key, storage};

use crate::resources::{Resources, requests};
use crate::terms::{PodTerm, Spread, WeightedPodTerm, spreads, terms};

#[derive(Debug)]
pub struct PodInfo {
    pub pod: Arc<Pod>,
    pub key: Key,
    pub uid: String,
    pub priority: i32,
    pub requests: Resources,
    /// With an amount for containers that state none; nodes are compared by it.
    pub weighed: Resources,
    pub ports: Vec<HostPort>,
    pub affinity: Vec<PodTerm>,
    pub anti_affinity: Vec<PodTerm>,
    /// Anti-affinity has a negative weight.
    pub preferred: Vec<WeightedPodTerm>,
    pub spreads: Vec<Spread>,
    pub claims: Vec<UsedClaim>,
}

/// A claim that a Pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedClaim {
    pub key: Key,
    /// For this Pod alone, from a template in its volume.
    pub is_made: bool,
}

/// A port of the node that only one Pod can have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: String,
    pub port: i32,
    /// Empty for every address of the node.
    pub address: String,
}

impl HostPort {
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let everywhere = self.address.is_empty() || other.address.is_empty();
        self.port == other.port && self.protocol == other.protocol && (everywhere || self.address == other.address)
    }
}

impl PodInfo {
    pub fn new(pod: Arc<Pod>) -> Self {
        let (requests, weighed) = requests(&pod);
        let terms = terms(&pod);
        PodInfo {
            key: Key::of(pod.as_ref()),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            priority: pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0),
            ports: pod.spec.as_ref().map(ports).unwrap_or_default(),
            requests,
            weighed,
            affinity: terms.affinity,
            anti_affinity: terms.anti_affinity,
            preferred: terms.preferred,
            spreads: spreads(&pod),
            claims: claims(&pod),
            pod,
        }
    }

    pub fn spec(&self) -> Option<&PodSpec> {
        self.pod.spec.as_ref()
    }

    pub fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.pod.metadata.labels.as_ref().unwrap_or(&NONE)
    }

    pub fn is_going(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }
}

fn claims(pod: &Pod) -> Vec<UsedClaim> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| {
            let key = Key::new(namespace, storage::claim_name(pod, volume)?);
            Some(UsedClaim { key, is_made: volume.ephemeral.is_some() })
        })
        .collect()
}

fn ports(spec: &PodSpec) -> Vec<HostPort> {
    let containers = spec.containers.iter().chain(sidecars(spec));
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            Some(HostPort {
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: number,
                address: port.host_ip.clone().filter(|address| address != "0.0.0.0").unwrap_or_default(),
            })
        })
        .collect()
}

fn sidecars(spec: &PodSpec) -> impl Iterator<Item = &k8s_openapi::api::core::v1::Container> {
    let init = spec.init_containers.iter().flatten();
    init.filter(|container| container.restart_policy.as_deref() == Some("Always"))
}
