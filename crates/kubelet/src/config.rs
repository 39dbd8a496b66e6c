//! What a node is told about itself before it joins.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The version of Kubernetes whose behaviour the node agent has.
pub const KUBELET_VERSION: &str = "v1.36.4";

/// A node as it registers.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub name: String,
    /// Beside the ones that every node has: host name, operating system, architecture.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// With which it registers; they are not put back on later.
    pub taints: Vec<Taint>,
    /// Both capacity and what may be allocated: nothing is reserved.
    pub capacity: BTreeMap<String, Quantity>,
    pub address: IpAddr,
    pub architecture: String,
    pub operating_system: String,
    pub operating_system_image: String,
    pub kernel_version: String,
    pub kubelet_version: String,
    /// For the label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    pub provider_id: Option<String>,
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
            kubelet_version: KUBELET_VERSION.to_owned(),
            instance_type: None,
            provider_id: None,
        }
    }

    /// The `index`-th of many nodes that are not there, at `10.0.0.1` and on.
    pub fn simulated(name: impl Into<String>, index: u16) -> Self {
        let [high, low] = index.saturating_add(1).to_be_bytes();
        let config = NodeConfig::new(name, Ipv4Addr::new(10, high / 128, high % 128, low).into());
        NodeConfig { instance_type: Some("simulated".to_owned()), ..config }
    }
}
