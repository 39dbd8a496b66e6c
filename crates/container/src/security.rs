//! What a container may do, what it may use, and what it shares with the node.

/// Namespaces that a Pod can share with the node or keep for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    pub host_network: bool,
    pub host_ipc: bool,
    pub pid: PidNamespace,
}

/// Whose processes a container sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PidNamespace {
    /// Its own.
    #[default]
    Container,
    /// Those of all containers of its Pod.
    Pod,
    /// All of the node.
    Node,
}

/// Which system calls are let through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seccomp {
    #[default]
    Unconfined,
    RuntimeDefault,
    /// A profile in a file of the node, by its whole path.
    Localhost(String),
}

/// The user a container runs as, and what the kernel lets it do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    pub privileged: bool,
    /// The image's own user if nobody says.
    pub user: Option<i64>,
    pub group: Option<i64>,
    pub supplemental_groups: Vec<i64>,
    pub add_capabilities: Vec<String>,
    pub drop_capabilities: Vec<String>,
    pub read_only_root: bool,
    pub no_new_privileges: bool,
    pub seccomp: Seccomp,
    /// `procMount: Unmasked`: nothing of `/proc` is hidden.
    pub unmasked_proc: bool,
}

/// What the kernel is to hold a container to. Zero means no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu_period: i64,
    pub cpu_quota: i64,
    pub cpu_shares: i64,
    pub memory_limit: i64,
    pub oom_score_adj: i64,
    pub cpuset: String,
}
