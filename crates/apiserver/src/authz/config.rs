//! Which authorizers are asked, and in which order: the typed form of the flags and of an AuthorizationConfiguration.

mod file;

pub use file::{ConfigError, read};

use crate::outbound::Endpoint;
use std::time::Duration;

pub struct Authorization {
    /// In the order in which they are asked. Administrators need nobody's leave.
    pub chain: Vec<Mode>,
}

impl Default for Authorization {
    fn default() -> Self {
        Authorization { chain: vec![Mode::Node, Mode::Rbac] }
    }
}

pub enum Mode {
    Node,
    Rbac,
    AlwaysAllow,
    AlwaysDeny,
    Webhook(Box<WebhookConfig>),
}

/// A program that answers SubjectAccessReviews.
pub struct WebhookConfig {
    pub name: String,
    pub endpoint: Endpoint,
    /// `v1` or `v1beta1`.
    pub version: String,
    /// How long one question may take.
    pub timeout: Duration,
    /// How long a yes counts; nothing is remembered for zero.
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    /// Without an answer: refuse, or ask the next.
    pub denies_on_failure: bool,
}
