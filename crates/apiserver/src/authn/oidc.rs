//! Issuers of OpenID Connect tokens: a token of one of them is its subject's, as the configuration maps claims to users.
//!
//! - A token that names another issuer is not looked at further.
//! - Keys are fetched when they are first needed, and again when a token is signed with a key that is not known ([`keys`]).
//!   A slow issuer holds up only those who come with its tokens.

pub mod claims;
mod keys;

use super::{Judged, User};
use crate::memo::{self, Memo};
use crate::outbound::{Endpoint, EndpointError, Outbound, Trust};
use claims::Mappings;
pub use jsonwebtoken::Algorithm;
use keys::Keys;
use pintle_meta::Clock;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// What is known of a good token for so long is not verified again.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);
const MAX_REMEMBERED: usize = 4096;

/// By how much a token may be from the future, since clocks differ.
const LEEWAY_SECONDS: f64 = 300.0;

/// The algorithms with which a token may be signed.
pub const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("EdDSA", Algorithm::EdDSA),
];

/// One issuer, as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    pub url: String,
    /// Where its configuration is, if not below its URL.
    pub discovery_url: Option<String>,
    /// A token is for one of these.
    pub audiences: Vec<String>,
    /// The authorities of its certificate, in PEM; those of the machine, if empty.
    pub ca_pem: String,
    pub algorithms: Vec<Algorithm>,
    pub mappings: Mappings,
}

/// Verifies the tokens of one issuer.
pub struct Verifier {
    issuer: Issuer,
    clock: Clock,
    keys: Keys,
    memo: Memo<Judged>,
}

/// What is remembered of a token must not outlive it.
struct Verified {
    user: User,
    expires: f64,
}

impl Verifier {
    pub fn new(issuer: Issuer, outbound: Arc<Outbound>, clock: &Clock) -> Result<Self, EndpointError> {
        let trust = Trust::of_bundle(issuer.ca_pem.as_bytes(), None)?;
        let below = || format!("{}/.well-known/openid-configuration", issuer.url.trim_end_matches('/'));
        let discovery = Endpoint::of_url(&issuer.discovery_url.clone().unwrap_or_else(below), trust)?;
        let keys = Keys::new(outbound, issuer.url.clone(), discovery, clock.clone());
        Ok(Verifier { issuer, clock: clock.clone(), keys, memo: Memo::new(clock.clone(), MAX_REMEMBERED) })
    }

    /// The user that a token of this issuer authenticates. `own` are the audiences of this server, which such a token does not name.
    pub(super) async fn judge(self: &Arc<Self>, token: &str, asked: &[String], own: &[String]) -> Judged {
        if claims::unverified(token).as_ref().and_then(|claims| claims.get("iss")?.as_str()) != Some(&self.issuer.url) {
            return Judged::NotMine;
        }
        let meant: Vec<String> = asked.iter().filter(|audience| own.contains(audience)).cloned().collect();
        if meant.is_empty() && !asked.is_empty() {
            return Judged::NotMine;
        }
        let (this, held) = (self.clone(), token.to_owned());
        let ask = async move {
            match this.verify(&held).await {
                Ok(Verified { user, expires }) => {
                    let left = (expires - this.now()).max(0.0);
                    (
                        Judged::User(Arc::new(user), Vec::new()),
                        REMEMBERED_FOR.min(Duration::from_secs_f64(left.min(1e6))),
                    )
                }
                Err(why) => (Judged::Bad(format!("oidc: {why}")), Duration::ZERO),
            }
        };
        match self.memo.get(memo::key([token.as_bytes()]), ask).await {
            Some(Judged::User(user, _)) => Judged::User(user, meant),
            Some(other) => other,
            None => Judged::Bad("oidc: the verification of a token ended early".to_owned()),
        }
    }

    fn now(&self) -> f64 {
        self.clock.now_millis() as f64 / 1000.0
    }

    async fn verify(&self, token: &str) -> Result<Verified, String> {
        let verify = |why: String| format!("verify token: {why}");
        let claims: Map<String, Value> =
            self.keys.verified(token, &self.issuer.algorithms).await.map_err(|error| verify(error.to_string()))?;
        let now = self.now();
        let time = |name: &str| claims.get(name).and_then(Value::as_f64);
        let expires = time("exp").filter(|expires| *expires > now);
        let expires = expires.ok_or_else(|| verify("oidc: token is expired".to_owned()))?;
        if time("nbf").is_some_and(|begins| begins > now + LEEWAY_SECONDS) {
            return Err(verify("oidc: current time is before the nbf (not before) time".to_owned()));
        }
        let said = claims::strings(claims.get("aud").unwrap_or(&Value::Null)).unwrap_or_default();
        if !said.iter().any(|audience| self.issuer.audiences.contains(audience)) {
            return Err(verify(format!("oidc: expected audience in {:?} got {said:?}", self.issuer.audiences)));
        }
        Ok(Verified { user: self.issuer.mappings.user(&claims)?, expires })
    }
}
