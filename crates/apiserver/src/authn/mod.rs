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
use std::sync::Arc;

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

/// What an authenticator says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    User(Arc<User>),
    /// The request shows nothing that this authenticator knows.
    NotMine,
    /// It shows credentials of this kind, and they are not good.
    Bad,
}

/// The authenticators, in the order in which they are asked.
const CHAIN: [Member; 2] = [Member::Transport, Member::Bearer];

enum Member {
    /// A verified client certificate, or a caller of this process.
    Transport,
    /// A token of a service account, or a machine's first token.
    Bearer,
}

/// Who asks. The first authenticator that knows the request decides; a user that none of them knows is anonymous. Bad
/// credentials are refused and never count as missing.
pub async fn authenticate(tokens: &Tokens, peer: &Peer, headers: &HeaderMap) -> Result<Arc<User>, Status> {
    for member in CHAIN {
        match member.judge(tokens, peer, headers).await {
            Verdict::User(user) => return Ok(user),
            Verdict::NotMine => {}
            Verdict::Bad => return Err(Status::unauthorized()),
        }
    }
    Ok(Arc::new(User::anonymous()))
}

impl Member {
    async fn judge(&self, tokens: &Tokens, peer: &Peer, headers: &HeaderMap) -> Verdict {
        match self {
            Member::Transport => match peer {
                Peer::Internal(user) | Peer::Certificate(user) => Verdict::User(user.clone()),
                Peer::Unknown => Verdict::NotMine,
            },
            Member::Bearer => {
                let Some(header) = headers.get(http::header::AUTHORIZATION) else { return Verdict::NotMine };
                let token = header.to_str().ok().and_then(|text| text.split_once(' '));
                match token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) {
                    Some((_, token)) => tokens.verify(token.trim()).await.map_or(Verdict::Bad, Verdict::User),
                    // No other scheme is understood here.
                    None => Verdict::Bad,
                }
            }
        }
    }
}
