//! The part of the container runtime interface that is used here; numbers are those of its published v1 protocol.
//!
//! The last ones are of containerd's own event and task services.

mod containers;
mod images;
mod sandboxes;
mod streaming;

use std::collections::BTreeMap;

use prost::Message;

pub(super) use containers::*;
pub(super) use images::*;
pub(super) use sandboxes::*;
pub(super) use streaming::*;

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct VersionRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(in crate::cri) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(in crate::cri) runtime_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(in crate::cri) network: i32,
    #[prost(int32, tag = "2")]
    pub(in crate::cri) pid: i32,
    #[prost(int32, tag = "3")]
    pub(in crate::cri) ipc: i32,
    #[prost(string, tag = "4")]
    pub(in crate::cri) target_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct Int64Value {
    #[prost(int64, tag = "1")]
    pub(in crate::cri) value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub(in crate::cri) value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SecurityProfile {
    #[prost(int32, tag = "1")]
    pub(in crate::cri) profile_type: i32,
    #[prost(string, tag = "2")]
    pub(in crate::cri) localhost_ref: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(in crate::cri) image: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(in crate::cri) annotations: BTreeMap<String, String>,
    /// As it stands in the Pod; CRI-O checks signatures by it.
    #[prost(string, tag = "18")]
    pub(in crate::cri) user_specified_image: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(in crate::cri) key: String,
    #[prost(string, tag = "2")]
    pub(in crate::cri) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct RuntimeCondition {
    #[prost(string, tag = "1")]
    pub(in crate::cri) kind: String,
    #[prost(bool, tag = "2")]
    pub(in crate::cri) status: bool,
    #[prost(string, tag = "3")]
    pub(in crate::cri) reason: String,
    #[prost(string, tag = "4")]
    pub(in crate::cri) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::cri) conditions: Vec<RuntimeCondition>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct StatusRequest {
    #[prost(bool, tag = "1")]
    pub(in crate::cri) verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) status: Option<RuntimeStatus>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(in crate::cri) info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct SubscribeRequest {
    #[prost(string, repeated, tag = "1")]
    pub(in crate::cri) filters: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct Envelope {
    #[prost(string, tag = "2")]
    pub(in crate::cri) namespace: String,
    #[prost(string, tag = "3")]
    pub(in crate::cri) topic: String,
}

/// Of containerd's own task service.
#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct KillTaskRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) container_id: String,
    #[prost(uint32, tag = "3")]
    pub(in crate::cri) signal: u32,
    #[prost(bool, tag = "4")]
    pub(in crate::cri) all: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct DeleteTaskRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) container_id: String,
}
