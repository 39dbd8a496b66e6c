//! Requests for a URL at which the runtime serves streams.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ExecRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(in crate::cri) cmd: Vec<String>,
    #[prost(bool, tag = "3")]
    pub(in crate::cri) tty: bool,
    #[prost(bool, tag = "4")]
    pub(in crate::cri) stdin: bool,
    #[prost(bool, tag = "5")]
    pub(in crate::cri) stdout: bool,
    #[prost(bool, tag = "6")]
    pub(in crate::cri) stderr: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct AttachRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(bool, tag = "2")]
    pub(in crate::cri) stdin: bool,
    #[prost(bool, tag = "3")]
    pub(in crate::cri) tty: bool,
    #[prost(bool, tag = "4")]
    pub(in crate::cri) stdout: bool,
    #[prost(bool, tag = "5")]
    pub(in crate::cri) stderr: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct PortForwardRequest {
    #[prost(string, tag = "1")]
    pub(in crate::cri) sandbox: String,
    #[prost(int32, repeated, tag = "2")]
    pub(in crate::cri) ports: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct StreamResponse {
    #[prost(string, tag = "1")]
    pub(in crate::cri) url: String,
}
