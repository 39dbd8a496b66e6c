//! Containers, commands in them, and what they use.

use std::collections::BTreeMap;

use prost::Message;

use super::{
    FilesystemUsage, ImageSpec, Int64Value, KeyValue, NamespaceOption, SandboxConfig, SecurityProfile, UInt64Value,
};

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct Mount {
    #[prost(string, tag = "1")]
    pub(in crate::cri) container_path: String,
    #[prost(string, tag = "2")]
    pub(in crate::cri) host_path: String,
    #[prost(bool, tag = "3")]
    pub(in crate::cri) readonly: bool,
    #[prost(int32, tag = "5")]
    pub(in crate::cri) propagation: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct LinuxResources {
    #[prost(int64, tag = "1")]
    pub(in crate::cri) cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub(in crate::cri) cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub(in crate::cri) cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub(in crate::cri) memory_limit_in_bytes: i64,
    #[prost(int64, tag = "5")]
    pub(in crate::cri) oom_score_adj: i64,
    #[prost(string, tag = "6")]
    pub(in crate::cri) cpuset_cpus: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct Capability {
    #[prost(string, repeated, tag = "1")]
    pub(in crate::cri) add_capabilities: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(in crate::cri) drop_capabilities: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerSecurity {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) capabilities: Option<Capability>,
    #[prost(bool, tag = "2")]
    pub(in crate::cri) privileged: bool,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "5")]
    pub(in crate::cri) run_as_user: Option<Int64Value>,
    #[prost(bool, tag = "7")]
    pub(in crate::cri) readonly_rootfs: bool,
    #[prost(int64, repeated, tag = "8")]
    pub(in crate::cri) supplemental_groups: Vec<i64>,
    #[prost(bool, tag = "11")]
    pub(in crate::cri) no_new_privs: bool,
    #[prost(message, optional, tag = "12")]
    pub(in crate::cri) run_as_group: Option<Int64Value>,
    #[prost(string, repeated, tag = "13")]
    pub(in crate::cri) masked_paths: Vec<String>,
    #[prost(string, repeated, tag = "14")]
    pub(in crate::cri) readonly_paths: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub(in crate::cri) seccomp: Option<SecurityProfile>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct LinuxContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) resources: Option<LinuxResources>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) security_context: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(in crate::cri) name: String,
    #[prost(uint32, tag = "2")]
    pub(in crate::cri) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct Device {
    #[prost(string, tag = "1")]
    pub(in crate::cri) container_path: String,
    #[prost(string, tag = "2")]
    pub(in crate::cri) host_path: String,
    #[prost(string, tag = "3")]
    pub(in crate::cri) permissions: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct CdiDevice {
    #[prost(string, tag = "1")]
    pub(in crate::cri) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(in crate::cri) command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(in crate::cri) args: Vec<String>,
    #[prost(string, tag = "5")]
    pub(in crate::cri) working_dir: String,
    #[prost(message, repeated, tag = "6")]
    pub(in crate::cri) envs: Vec<KeyValue>,
    #[prost(message, repeated, tag = "7")]
    pub(in crate::cri) mounts: Vec<Mount>,
    #[prost(message, repeated, tag = "8")]
    pub(in crate::cri) devices: Vec<Device>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(in crate::cri) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "10")]
    pub(in crate::cri) annotations: BTreeMap<String, String>,
    #[prost(string, tag = "11")]
    pub(in crate::cri) log_path: String,
    #[prost(bool, tag = "12")]
    pub(in crate::cri) stdin: bool,
    #[prost(bool, tag = "13")]
    pub(in crate::cri) stdin_once: bool,
    #[prost(bool, tag = "14")]
    pub(in crate::cri) tty: bool,
    #[prost(message, optional, tag = "15")]
    pub(in crate::cri) linux: Option<LinuxContainerConfig>,
    #[prost(message, repeated, tag = "17")]
    pub(in crate::cri) cdi_devices: Vec<CdiDevice>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) sandbox_config: Option<SandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerIdMessage {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(int64, tag = "2")]
    pub(in crate::cri) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerFilter {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(in crate::cri) label_selector: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) filter: Option<ContainerFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerItem {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(string, tag = "2")]
    pub(in crate::cri) sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    pub(in crate::cri) image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub(in crate::cri) image_ref: String,
    #[prost(int32, tag = "6")]
    pub(in crate::cri) state: i32,
    #[prost(int64, tag = "7")]
    pub(in crate::cri) created_at: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(in crate::cri) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(in crate::cri) annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::cri) containers: Vec<ContainerItem>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerStatus {
    #[prost(int32, tag = "3")]
    pub(in crate::cri) state: i32,
    #[prost(int64, tag = "5")]
    pub(in crate::cri) started_at: i64,
    #[prost(int64, tag = "6")]
    pub(in crate::cri) finished_at: i64,
    #[prost(int32, tag = "7")]
    pub(in crate::cri) exit_code: i32,
    #[prost(message, optional, tag = "8")]
    pub(in crate::cri) image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub(in crate::cri) image_ref: String,
    #[prost(string, tag = "10")]
    pub(in crate::cri) reason: String,
    #[prost(string, tag = "11")]
    pub(in crate::cri) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) status: Option<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct UpdateResourcesRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) linux: Option<LinuxResources>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(in crate::cri) cmd: Vec<String>,
    #[prost(int64, tag = "3")]
    pub(in crate::cri) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ExecSyncResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(in crate::cri) stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::cri) stderr: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(in crate::cri) exit_code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub(in crate::cri) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) usage_core_nano_seconds: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct MemoryUsage {
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) working_set_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(in crate::cri) usage_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub(in crate::cri) rss_bytes: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) metadata: Option<ContainerMetadata>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(in crate::cri) labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) attributes: Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub(in crate::cri) writable_layer: Option<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::cri) stats: Vec<ContainerStats>,
}
