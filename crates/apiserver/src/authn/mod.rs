//! Who is calling: a proxy's word, a client certificate, a token that this server or somebody else knows, or nobody.
//!
//! Authenticators are members of one chain ([`MEMBERS`]), those of tokens of another ([`Authenticator::judge`]), in Kubernetes'
//! order: what is known here before what others are asked for. The first that knows the user decides. Bad credentials are
//! refused if nobody knows them, and never count as missing.

pub mod bootstrap;
pub mod certificate;
pub mod config;
pub mod front_proxy;
pub mod impersonate;
pub mod keys;
mod legacy;
pub mod oidc;
pub mod static_tokens;
pub mod token;
pub mod webhook;

use crate::outbound::review::Reviewer;
use crate::outbound::{About, EndpointError, Outbound};
use crate::request::{Peer, Target};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use config::{Anonymous, Authentication};
use front_proxy::{FrontProxy, FrontProxyError};
use http::{HeaderMap, HeaderValue, header};
use pintle_meta::{Clock, Random, Status};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use static_tokens::StaticTokens;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use legacy::Legacy;
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

    /// Everybody who is known is in one more group.
    fn known(mut self: Arc<Self>) -> Arc<Self> {
        if self.name != ANONYMOUS && !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            Arc::make_mut(&mut self).groups.push(AUTHENTICATED.to_owned());
        }
        self
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

/// What is said of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The user that it authenticates, and for which of the requested audiences.
    User(Arc<User>, Vec<String>),
    NotMine,
    /// Why it is not good.
    Bad(String),
}

/// The authenticators of requests, in the order in which they are asked.
const MEMBERS: [Member; 4] = [Member::FrontProxy, Member::Transport, Member::Bearer, Member::WebSocket];

#[derive(Clone, Copy, Debug)]
enum Member {
    /// A proxy that is believed names the user in headers.
    FrontProxy,
    /// A verified client certificate, or a caller of this process.
    Transport,
    /// A token in the header `Authorization`.
    Bearer,
    /// A token among the protocols of a WebSocket, for browsers, which cannot send other headers.
    WebSocket,
}

/// The name of the protocol that is a token: what follows it is the token in base64.
const WEBSOCKET_TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// What is said to those whose token nobody knows.
const UNKNOWN_TOKEN: &str = "invalid bearer token";

/// Knows users. What it remembers is in here too: tokens, keys of issuers, answers of the reviewer.
pub struct Authenticator {
    pub tokens: Tokens,
    front_proxy: Option<Proxies>,
    static_tokens: Option<StaticTokens>,
    issuers: Vec<Arc<oidc::Verifier>>,
    webhook: Option<webhook::TokenReviewer>,
    anonymous: Anonymous,
    clock: Clock,
}

/// Where proxies have an authority of their own, each certificate is held against both.
struct Proxies {
    believed: FrontProxy,
    clients: Arc<dyn ClientCertVerifier>,
}

/// Why authentication cannot work as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    FrontProxy(#[from] FrontProxyError),
    #[error("the authority of clients cannot be used: {0}")]
    Authority(String),
}

impl Authenticator {
    pub fn new(
        tokens: Tokens,
        config: Authentication,
        outbound: &Arc<Outbound>,
        clock: &Clock,
        random: &Random,
    ) -> Result<Self, AuthenticationError> {
        let webhook = config.webhook.map(|webhook| {
            let (outbound, random) = (outbound.clone(), random.clone());
            let (endpoint, about) = (webhook.endpoint, About::Token);
            let reviewer = Reviewer { outbound, random, endpoint, about, limit: webhook::LIMIT };
            webhook::TokenReviewer::new(reviewer, &webhook.version, webhook.ttl, tokens.audiences(), clock)
        });
        let issuers = config.issuers.into_iter().map(|issuer| {
            let verifier = oidc::Verifier::new(issuer, outbound.clone(), clock)?;
            Ok::<_, EndpointError>(Arc::new(verifier))
        });
        let proxies = config.front_proxy.map(|config| {
            let clients = front_proxy::verifier(&config.client_ca_pem);
            let clients = clients.map_err(|error| AuthenticationError::Authority(error.to_string()))?;
            Ok::<_, AuthenticationError>(Proxies { believed: FrontProxy::new(&config.options)?, clients })
        });
        Ok(Authenticator {
            front_proxy: proxies.transpose()?,
            static_tokens: config.static_tokens,
            issuers: issuers.collect::<Result<_, _>>()?,
            webhook,
            anonymous: config.anonymous,
            clock: clock.clone(),
            tokens,
        })
    }

    /// Who is at the other end of a connection whose TLS layer has verified these certificates: read once, when it begins.
    pub fn peer(&self, chain: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some(chain @ [own, others @ ..]) = chain else { return Peer::Unknown };
        let (user, ends) = (|| certificate::user(own).map(Arc::new), certificate::ends(own));
        let Some(proxies) = &self.front_proxy else {
            return user().map_or(Peer::Unknown, |user| Peer::Certificate { user, ends });
        };
        let seconds = u64::try_from(self.clock.now().as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        // A proxy's authority makes nobody a user by its certificates alone.
        let user = proxies.clients.verify_client_cert(own, others, now).ok().and_then(|_| user());
        match (proxies.believed.shown(chain, now), user) {
            (Some(believed), user) => Peer::Proxy { believed, user, ends },
            (None, Some(user)) => Peer::Certificate { user, ends },
            (None, None) => Peer::Unknown,
        }
    }

    /// Who asks. A user that no authenticator knows is anonymous, where that is allowed. Credentials do not stay in the headers.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        target: &Target,
        headers: &mut HeaderMap,
    ) -> Result<Arc<User>, Status> {
        let mut bad = false;
        for member in MEMBERS {
            match self.asks(member, peer, headers).await {
                Verdict::User(user) => {
                    headers.remove(header::AUTHORIZATION);
                    front_proxy::clear_usual(headers);
                    if let Some(proxies) = &self.front_proxy {
                        proxies.believed.clear(headers);
                    }
                    return Ok(user.known());
                }
                Verdict::NotMine => {}
                Verdict::Bad => bad = true,
            }
        }
        if bad || !self.anonymous.may_ask(&target.url) {
            return Err(Status::unauthorized());
        }
        front_proxy::clear_usual(headers);
        Ok(Arc::new(User::anonymous()))
    }

    async fn asks(&self, member: Member, peer: &Peer, headers: &mut HeaderMap) -> Verdict {
        let has_ended = |ends: i64| self.clock.now().as_second() > ends;
        match member {
            Member::FrontProxy => match (peer, &self.front_proxy) {
                (Peer::Proxy { ends, .. }, _) if has_ended(*ends) => Verdict::Bad,
                (Peer::Proxy { believed: true, .. }, Some(proxies)) => {
                    proxies.believed.user(headers).map_or(Verdict::NotMine, |user| Verdict::User(Arc::new(user)))
                }
                (Peer::Proxy { believed: false, user: None, .. }, _) => Verdict::Bad,
                _ => Verdict::NotMine,
            },
            Member::Transport => match peer {
                Peer::Certificate { ends, .. } | Peer::Proxy { ends, .. } if has_ended(*ends) => Verdict::Bad,
                Peer::Internal(user) | Peer::Certificate { user, .. } | Peer::Proxy { user: Some(user), .. } => {
                    Verdict::User(user.clone())
                }
                Peer::Unknown | Peer::Proxy { user: None, .. } => Verdict::NotMine,
            },
            Member::Bearer => match bearer(headers) {
                Some(token) => self.whose(&token).await,
                None => Verdict::NotMine,
            },
            Member::WebSocket => match websocket_token(headers) {
                None => Verdict::NotMine,
                Some(Err(())) => Verdict::Bad,
                Some(Ok((token, rest))) => {
                    let verdict = self.whose(&token).await;
                    if matches!(verdict, Verdict::User(_)) {
                        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, rest);
                    }
                    verdict
                }
            },
        }
    }

    async fn whose(&self, token: &str) -> Verdict {
        match self.judge(token, self.tokens.audiences()).await {
            Judged::User(user, _) => Verdict::User(user),
            Judged::NotMine | Judged::Bad(_) => Verdict::Bad,
        }
    }

    /// The user that a token authenticates for one of these audiences, and for which of them. Every token authenticator is asked, in order.
    pub async fn judge(&self, token: &str, audiences: &[String]) -> Judged {
        let mut problems = Vec::new();
        let mut step = |judged: Judged| match judged {
            Judged::User(user, meant) => Some(Judged::User(user.known(), meant)),
            Judged::NotMine => None,
            Judged::Bad(why) => {
                problems.push(why);
                None
            }
        };
        let own = self.tokens.audiences();
        if let Some(user) = self.static_tokens.as_ref().and_then(|tokens| tokens.user(token)) {
            // Static tokens name no audience: they are valid for this server alone.
            let meant: Vec<String> = audiences.iter().filter(|audience| own.contains(audience)).cloned().collect();
            if !meant.is_empty() {
                return Judged::User(user.known(), meant);
            }
        }
        if let Some(known) = step(self.tokens.judge(token, audiences).await) {
            return known;
        }
        for issuer in &self.issuers {
            if let Some(known) = step(Box::pin(issuer.judge(token, audiences, own)).await) {
                return known;
            }
        }
        if let Some(webhook) = &self.webhook
            && let Some(known) = step(Box::pin(webhook.judge(token, audiences)).await)
        {
            return known;
        }
        match problems.as_slice() {
            [] => Judged::NotMine,
            [one] => Judged::Bad(one.clone()),
            many => Judged::Bad(format!("[{}]", many.join(", "))),
        }
    }

    /// The same for a TokenReview, which says why.
    pub async fn review(&self, token: &str, audiences: &[String]) -> Result<(Arc<User>, Vec<String>), String> {
        match self.judge(token, audiences).await {
            Judged::User(user, meant) => Ok((user, meant)),
            Judged::NotMine => Err(UNKNOWN_TOKEN.to_owned()),
            Judged::Bad(why) => Err(why),
        }
    }
}

/// The token of `Authorization: Bearer TOKEN`. Other schemes are not understood here.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = text.split(' ');
    let is_bearer = parts.next()?.eq_ignore_ascii_case("bearer");
    let token = parts.next().filter(|token| is_bearer && !token.is_empty())?;
    Some(token.to_owned())
}

/// The token among the protocols of a WebSocket, and the protocols without it. A connection needs another protocol too: the
/// token is never the one that is agreed on.
fn websocket_token(headers: &HeaderMap) -> Option<Result<(String, HeaderValue), ()>> {
    let upgrades = |name, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
    };
    if !upgrades(header::CONNECTION, "upgrade") || !upgrades(header::UPGRADE, "websocket") {
        return None;
    }
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols: Vec<&str> = protocols.flat_map(|value| value.split(',')).map(str::trim).collect();
    let (tokens, rest): (Vec<&str>, Vec<&str>) = protocols.iter().partition(|name| name.starts_with(WEBSOCKET_TOKEN));
    let encoded = match tokens.as_slice() {
        [] => return None,
        [one] => one.strip_prefix(WEBSOCKET_TOKEN).unwrap_or_default().trim_end_matches('='),
        _ => return Some(Err(())),
    };
    let token = BASE64_URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let rest = Some(rest.join(", ")).filter(|rest| !rest.is_empty()).and_then(|rest| rest.parse().ok());
    match (token.filter(|token| !token.is_empty()), rest) {
        (Some(token), Some(rest)) => Some(Ok((token, rest))),
        _ => Some(Err(())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_sends_its_token_as_a_protocol_and_that_is_never_agreed_on() {
        let token = format!("{WEBSOCKET_TOKEN}{}", BASE64_URL_SAFE_NO_PAD.encode("t"));
        let of = |protocols: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
            websocket_token(&headers)
        };
        let good = |rest: &'static str| Some(Ok(("t".to_owned(), HeaderValue::from_static(rest))));
        assert_eq!(
            of(&format!("v4.channel.k8s.io, {token},v5.channel.k8s.io")),
            good("v4.channel.k8s.io, v5.channel.k8s.io")
        );
        assert_eq!(of("v4.channel.k8s.io"), None);
        for bad in [
            token.clone(),
            format!("{token}, {token}, a"),
            format!("{WEBSOCKET_TOKEN}, a"),
            format!("{WEBSOCKET_TOKEN}!, a"),
        ] {
            assert_eq!(of(&bad), Some(Err(())), "{bad}");
        }
    }

    #[test]
    fn only_a_bearer_token_is_taken_for_one() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers)
        };
        assert_eq!(of("Bearer t").as_deref(), Some("t"));
        assert_eq!(of("bearer  t"), None);
        for other in ["Basic t", "Bearer", "Bearer ", "t", ""] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
