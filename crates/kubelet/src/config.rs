//! What a node is told about itself before it joins.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_meta::quantity;

use crate::collect::Collection;
use crate::credentials::providers::CredentialProviders;
use crate::logs::rotate::LogRotation;
use crate::pressure::Eviction;
use crate::statics::StaticPods;

/// The version of Kubernetes whose behaviour the node agent has.
pub const KUBELET_VERSION: &str = "v1.36.4";

/// For how long a node's Lease holds if nobody asks for another time.
pub const LEASE: Duration = Duration::from_secs(40);

/// A node as it registers.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub name: String,
    /// Beside the ones that every node has: host name, operating system, architecture.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// With which it registers; they are not put back on later.
    pub taints: Vec<Taint>,
    /// What the node has. What of it may be allocated is less by what is reserved.
    pub capacity: BTreeMap<String, Quantity>,
    /// The ranges of its Pods' addresses, if it has them from the start.
    pub pod_cidrs: Vec<String>,
    pub address: IpAddr,
    pub architecture: String,
    pub operating_system: String,
    pub operating_system_image: String,
    pub kernel_version: String,
    pub machine_id: String,
    pub boot_id: String,
    pub system_uuid: String,
    pub kubelet_version: String,
    /// For the label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    pub provider_id: Option<String>,
    /// For how long its Lease holds; it is renewed four times as often. The loop that looks for lost nodes gives them 50 s.
    pub lease: Duration,
    /// Where it keeps what Pods need on this machine: volumes, logs, termination messages. Nothing where there is no machine.
    pub directory: Option<PathBuf>,
    /// Where the logs of containers go; `logs/pods` below the directory if nobody says.
    pub logs: Option<PathBuf>,
    /// Where device plugins register and have their sockets; without it there are none.
    pub device_plugins: Option<PathBuf>,
    /// The addresses at which Pods look names up first; the machine's own if there are none.
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// When images and dead containers go.
    pub collection: Collection,
    /// Pods that are written down on this machine.
    pub static_pods: Option<StaticPods>,
    /// Programs of this machine that know what registries want to be told.
    pub credential_providers: Option<CredentialProviders>,
    /// When Pods are evicted because the node lacks something.
    pub eviction: Eviction,
    /// Sysctls beside the safe ones that Pods may set; one that ends in `*` stands for all that begin so.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// How many processes each Pod may have, if there is a bound.
    pub pod_max_pids: Option<u64>,
    /// How much is kept of each container's log.
    pub log_rotation: LogRotation,
    /// What Pods do not get of the capacity, as several lists that add up.
    pub reserved: Vec<BTreeMap<String, Quantity>>,
}

impl NodeConfig {
    /// A node of 32 processors, 256 GiB and 110 Pods.
    pub fn new(name: impl Into<String>, address: IpAddr) -> Self {
        let capacity = [("cpu", "32"), ("memory", "256Gi"), ("pods", "110"), ("ephemeral-storage", "1Ti")];
        NodeConfig {
            name: name.into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            capacity: capacity
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
                .collect(),
            address,
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            operating_system_image: "Pintle".to_owned(),
            kernel_version: "0.0.0".to_owned(),
            machine_id: String::new(),
            boot_id: String::new(),
            system_uuid: String::new(),
            kubelet_version: KUBELET_VERSION.to_owned(),
            instance_type: None,
            provider_id: None,
            pod_cidrs: Vec::new(),
            lease: LEASE,
            directory: None,
            logs: None,
            device_plugins: None,
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            collection: Collection::default(),
            static_pods: None,
            credential_providers: None,
            eviction: Eviction::default(),
            allowed_unsafe_sysctls: Vec::new(),
            pod_max_pids: None,
            log_rotation: LogRotation::default(),
            reserved: Vec::new(),
        }
    }

    /// What Pods may ask for: the capacity without what is reserved, and without what must be left on a machine for no Pod to be
    /// evicted.
    pub fn allocatable(&self) -> BTreeMap<String, Quantity> {
        let kept = self.directory.iter().flat_map(|_| self.eviction.kept(&self.capacity));
        let reserved = self.reserved.iter().flatten().map(|(name, amount)| (name.clone(), amount.clone()));
        let mut left = self.capacity.clone();
        for (name, amount) in reserved.chain(kept) {
            let Some(present) = left.get_mut(&name) else { continue };
            if let (Ok(have), Ok(less)) = (quantity::Quantity::parse(&present.0), quantity::Quantity::parse(&amount.0))
            {
                let none = quantity::Quantity::from_units(0);
                *present = Quantity((have - less).max(none).to_string());
            }
        }
        left
    }

    /// What all Pods together may take of the memory, if some of it is reserved.
    pub(crate) fn memory_for_pods(&self) -> Option<u64> {
        self.reserved.iter().find_map(|list| list.get("memory"))?;
        let left = NodeConfig { directory: None, ..self.clone() }.allocatable();
        let left = quantity::Quantity::parse(&left.get("memory")?.0).ok()?;
        u64::try_from(left.units()).ok().filter(|left| *left > 0)
    }

    /// The `index`-th of many nodes that are not there, at `10.0.0.1` and on.
    pub fn simulated(name: impl Into<String>, index: u16) -> Self {
        let [high, low] = index.saturating_add(1).to_be_bytes();
        let config = NodeConfig::new(name, Ipv4Addr::new(10, high / 128, high % 128, low).into());
        NodeConfig { instance_type: Some("simulated".to_owned()), ..config }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_not_promised_what_the_machine_needs_for_itself() {
        let list = |amounts: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
            amounts.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned()))).collect()
        };
        let config = NodeConfig {
            capacity: list(&[("cpu", "2"), ("memory", "8Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")]),
            reserved: vec![list(&[("cpu", "500m"), ("memory", "1Gi")]), list(&[("cpu", "100m")])],
            ..NodeConfig::simulated("n", 0)
        };
        let simulated = list(&[("cpu", "1400m"), ("memory", "7Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")]);
        assert_eq!(config.allocatable(), simulated);
        let machine = NodeConfig { directory: Some("/var/lib/node".into()), ..config };
        let expected = list(&[("cpu", "1400m"), ("memory", "7068Mi"), ("ephemeral-storage", "90Gi"), ("pods", "110")]);
        assert_eq!(machine.allocatable(), expected);
        assert_eq!(machine.memory_for_pods(), Some(7 << 30));
        assert_eq!(NodeConfig::simulated("n", 0).memory_for_pods(), None);
    }
}
