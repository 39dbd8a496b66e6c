//! How a server knows who asks: the typed form of its flags and of an AuthenticationConfiguration.

mod file;

pub use file::{ConfigError, read};

use super::front_proxy;
use super::keys::Keyring;
use super::oidc::Issuer;
use super::static_tokens::StaticTokens;
use super::token::ISSUER;
use crate::outbound::Endpoint;
use std::time::Duration;

#[derive(Default)]
pub struct Authentication {
    pub front_proxy: Option<FrontProxy>,
    pub static_tokens: Option<StaticTokens>,
    pub issuers: Vec<Issuer>,
    pub webhook: Option<TokenWebhook>,
    pub anonymous: Anonymous,
    /// In place of the key that the cluster made.
    pub keyring: Option<Keyring>,
    pub accounts: Accounts,
}

/// Whose word counts, and which authority the certificates of other clients are from.
pub struct FrontProxy {
    pub options: front_proxy::Options,
    pub client_ca_pem: String,
}

pub struct TokenWebhook {
    pub endpoint: Endpoint,
    /// `v1` or `v1beta1`.
    pub version: String,
    pub ttl: Duration,
}

/// What those who show nothing may be taken for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Anonymous, whatever they ask.
    #[default]
    Everywhere,
    /// Anonymous on these paths, and refused on others.
    At(Vec<String>),
    Refused,
}

impl Anonymous {
    pub(super) fn may_ask(&self, path: &str) -> bool {
        match self {
            Anonymous::Everywhere => true,
            Anonymous::At(paths) => paths.iter().any(|known| known == path),
            Anonymous::Refused => false,
        }
    }
}

/// Issuers and audiences of service account tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounts {
    /// The first is in the tokens that are made here; tokens of all of them count.
    pub issuers: Vec<String>,
    /// The audiences that a token must name; the issuers if the list is empty.
    pub audiences: Vec<String>,
    /// Where the keys are published, if not below the first issuer.
    pub jwks_uri: Option<String>,
}

impl Default for Accounts {
    fn default() -> Self {
        Accounts { issuers: vec![ISSUER.to_owned()], audiences: Vec::new(), jwks_uri: None }
    }
}

impl Accounts {
    pub fn issuer(&self) -> &str {
        self.issuers.first().map_or(ISSUER, String::as_str)
    }

    pub fn audiences(&self) -> &[String] {
        if self.audiences.is_empty() { &self.issuers } else { &self.audiences }
    }

    pub fn jwks_uri(&self) -> String {
        let below = || format!("{}/openid/v1/jwks", self.issuer().trim_end_matches('/'));
        self.jwks_uri.clone().unwrap_or_else(below)
    }
}
