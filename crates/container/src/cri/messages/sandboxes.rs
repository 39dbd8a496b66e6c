//! Sandboxes: what a Pod's containers share.

use std::collections::BTreeMap;

use prost::Message;

use super::{Int64Value, NamespaceOption, SecurityProfile, UInt64Value};

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct DnsConfig {
    #[prost(string, repeated, tag = "1")]
    pub(in crate::cri) servers: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(in crate::cri) searches: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(in crate::cri) options: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct PortMapping {
    #[prost(int32, tag = "1")]
    pub(in crate::cri) protocol: i32,
    #[prost(int32, tag = "2")]
    pub(in crate::cri) container_port: i32,
    #[prost(int32, tag = "3")]
    pub(in crate::cri) host_port: i32,
    #[prost(string, tag = "4")]
    pub(in crate::cri) host_ip: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) run_as_user: Option<Int64Value>,
    #[prost(bool, tag = "4")]
    pub(in crate::cri) readonly_rootfs: bool,
    #[prost(int64, repeated, tag = "5")]
    pub(in crate::cri) supplemental_groups: Vec<i64>,
    #[prost(bool, tag = "6")]
    pub(in crate::cri) privileged: bool,
    #[prost(message, optional, tag = "8")]
    pub(in crate::cri) run_as_group: Option<Int64Value>,
    #[prost(message, optional, tag = "9")]
    pub(in crate::cri) seccomp: Option<SecurityProfile>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct LinuxSandboxConfig {
    #[prost(string, tag = "1")]
    pub(in crate::cri) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) security_context: Option<SandboxSecurity>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(in crate::cri) sysctls: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxMetadata {
    #[prost(string, tag = "1")]
    pub(in crate::cri) name: String,
    #[prost(string, tag = "2")]
    pub(in crate::cri) uid: String,
    #[prost(string, tag = "3")]
    pub(in crate::cri) namespace: String,
    #[prost(uint32, tag = "4")]
    pub(in crate::cri) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) metadata: Option<SandboxMetadata>,
    #[prost(string, tag = "2")]
    pub(in crate::cri) hostname: String,
    #[prost(string, tag = "3")]
    pub(in crate::cri) log_directory: String,
    #[prost(message, optional, tag = "4")]
    pub(in crate::cri) dns_config: Option<DnsConfig>,
    #[prost(message, repeated, tag = "5")]
    pub(in crate::cri) port_mappings: Vec<PortMapping>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(in crate::cri) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(in crate::cri) annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub(in crate::cri) linux: Option<LinuxSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct RunSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) config: Option<SandboxConfig>,
    #[prost(string, tag = "2")]
    pub(in crate::cri) runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxIdMessage {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct PodIp {
    #[prost(string, tag = "1")]
    pub(in crate::cri) ip: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct NetworkStatus {
    #[prost(string, tag = "1")]
    pub(in crate::cri) ip: String,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::cri) additional_ips: Vec<PodIp>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxStatus {
    #[prost(message, optional, tag = "5")]
    pub(in crate::cri) network: Option<NetworkStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) status: Option<SandboxStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxFilter {
    #[prost(btree_map = "string, string", tag = "3")]
    pub(in crate::cri) label_selector: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListSandboxesRequest {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) filter: Option<SandboxFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxItem {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) metadata: Option<SandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(in crate::cri) state: i32,
    #[prost(int64, tag = "4")]
    pub(in crate::cri) created_at: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListSandboxesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::cri) items: Vec<SandboxItem>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxAttributes {
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) metadata: Option<SandboxMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct InterfaceUsage {
    #[prost(string, tag = "1")]
    pub(in crate::cri) name: String,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) rx_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) rx_errors: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(in crate::cri) tx_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub(in crate::cri) tx_errors: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxNetworkUsage {
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) default_interface: Option<InterfaceUsage>,
    #[prost(message, repeated, tag = "3")]
    pub(in crate::cri) interfaces: Vec<InterfaceUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct LinuxSandboxStats {
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) network: Option<SandboxNetworkUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SandboxStats {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) attributes: Option<SandboxAttributes>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) linux: Option<LinuxSandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListSandboxStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::cri) stats: Vec<SandboxStats>,
}
