//! Who is calling: a client certificate, a service account's token, a machine's first token, or nobody.

pub mod bootstrap;
pub mod certificate;
pub mod impersonate;
pub mod keys;
pub mod token;

use crate::request::Peer;
use http::HeaderMap;
use pintle_meta::Status;
use std::collections::BTreeMap;

pub use token::Tokens;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

pub const MASTERS: &str = "system:masters";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const NODES: &str = "system:nodes";

impl User {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        if !groups.iter().any(|g| g == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        User { name: name.to_owned(), groups, ..User::default() }
    }

    /// A loop of this process, which may do what the administrator may.
    pub fn internal(name: &str) -> Self {
        User::new(name, &[MASTERS])
    }

    pub fn anonymous() -> Self {
        User { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..User::default() }
    }

    /// The node that this user is, if it is one. A node that does not say which has the empty name.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix("system:node:").filter(|_| self.is_in(NODES))
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// A certificate counts before a token; a token that is not ours is refused, never taken for nobody.
pub async fn authenticate(tokens: &Tokens, peer: &Peer, headers: &HeaderMap) -> Result<User, Status> {
    match peer {
        Peer::Internal(user) => return Ok(user.clone()),
        Peer::Certificate(der) => {
            if let Some(user) = certificate::user(der) {
                return Ok(user);
            }
        }
        Peer::Unknown => {}
    }
    let Some(header) = headers.get(http::header::AUTHORIZATION) else { return Ok(User::anonymous()) };
    let text = header.to_str().map_err(|_| Status::unauthorized())?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            tokens.verify(token.trim()).await.ok_or_else(Status::unauthorized)
        }
        _ => Err(Status::unauthorized()),
    }
}
