//! Images by name and by digest.

use std::collections::BTreeMap;
use std::fmt;

/// An image to bring onto the node.
#[derive(Clone, Debug, Default)]
pub struct PullRequest {
    pub image: String,
    /// The container that needs it.
    pub container: String,
    /// The Pod's annotations; the simulated back end finds its script here.
    pub annotations: BTreeMap<String, String>,
    /// What the registry is told, if it asks.
    pub credentials: Option<Credentials>,
}

/// Who pulls. Not shown when printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
    pub identity_token: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// An image on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// As Pods name it.
    pub name: String,
    /// The digest with its repository, as in `docker.io/library/busybox@sha256:…`.
    pub id: String,
    pub size: u64,
    /// Every name and digest under which Pods can ask for it.
    pub names: Vec<String>,
    /// The runtime needs it: it is never removed.
    pub pinned: bool,
    /// The user that its containers run as, if the image names one by number, or by name.
    pub user: Option<i64>,
    pub user_name: String,
}
