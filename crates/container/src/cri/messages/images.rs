//! Images, and the file system that they are on.

use prost::Message;

use super::{ImageSpec, Int64Value, SandboxConfig, UInt64Value};

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ImageFilter {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListImagesRequest {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) filter: Option<ImageFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct Image {
    #[prost(string, tag = "1")]
    pub(in crate::cri) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(in crate::cri) repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(in crate::cri) repo_digests: Vec<String>,
    #[prost(uint64, tag = "4")]
    pub(in crate::cri) size: u64,
    #[prost(message, optional, tag = "5")]
    pub(in crate::cri) uid: Option<Int64Value>,
    #[prost(string, tag = "6")]
    pub(in crate::cri) username: String,
    #[prost(bool, tag = "8")]
    pub(in crate::cri) pinned: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::cri) images: Vec<Image>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) image: Option<Image>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct AuthConfig {
    #[prost(string, tag = "1")]
    pub(in crate::cri) username: String,
    #[prost(string, tag = "2")]
    pub(in crate::cri) password: String,
    #[prost(string, tag = "4")]
    pub(in crate::cri) server_address: String,
    #[prost(string, tag = "5")]
    pub(in crate::cri) identity_token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct PullImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(in crate::cri) image: Option<ImageSpec>,
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) auth: Option<AuthConfig>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) sandbox_config: Option<SandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct PullImageResponse {
    #[prost(string, tag = "1")]
    pub(in crate::cri) image_ref: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub(in crate::cri) mountpoint: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct FilesystemUsage {
    #[prost(message, optional, tag = "2")]
    pub(in crate::cri) fs_id: Option<FilesystemIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::cri) used_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(in crate::cri) inodes_used: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::cri) struct ImageFsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::cri) image_filesystems: Vec<FilesystemUsage>,
}
