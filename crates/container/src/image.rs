//! Images by name and by digest.

use std::collections::BTreeMap;

/// An image to bring onto the node.
#[derive(Clone, Debug, Default)]
pub struct PullRequest {
    pub image: String,
    /// The container that needs it.
    pub container: String,
    /// The Pod's annotations; the simulated back end finds its script here.
    pub annotations: BTreeMap<String, String>,
}

/// An image on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// As Pods name it.
    pub name: String,
    /// The digest, as in `docker.io/library/busybox@sha256:…`.
    pub id: String,
    pub size: u64,
}
