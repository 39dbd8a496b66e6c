//! Service account tokens: made by the token subresource, signed with the server's own key, checked against the
//! account they speak for and the object they are bound to. Tokens of older keys and issuers count as long as these are known.

use super::config::Accounts;
use super::keys::{KeyError, Keyring};
use super::oidc::claims::unverified;
use super::{Judged, Legacy, User, bootstrap, legacy};
use crate::codec;
use crate::keys;
use pintle_meta::{Clock, object};
use pintle_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How long a token outlives the deletion of what it is bound to: clocks differ a little.
const LEEWAY_SECONDS: i64 = 60;

/// Tokens whose signature was found good; when there are more, all are looked at anew.
const MOST_KNOWN: usize = 4096;

pub struct Tokens {
    store: Arc<dyn Store>,
    clock: Clock,
    keys: Keyring,
    accounts: Accounts,
    /// By their SHA-256: nobody who reads this memory can use them.
    known: Mutex<HashMap<[u8; 32], Arc<Known>>>,
}

/// A token whose signature is good.
struct Known {
    user: Arc<User>,
    audiences: Vec<String>,
    expires: i64,
    begins: i64,
    /// What it is bound to.
    ties: Vec<Tie>,
}

/// An object that must be there for a token to count, and the version in which it was last found to be the right one.
struct Tie {
    key: String,
    uid: String,
    seen: AtomicU64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Claims {
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Bound,
    nbf: i64,
    sub: String,
}

/// The account that a token speaks for, and what it is bound to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bound {
    pub namespace: String,
    pub serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// Beside a Pod: where it runs, for information. Alone: what the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Why a token is not good.
#[derive(Debug, thiserror::Error)]
enum Problem {
    /// It is no token of ours, or none at all.
    #[error("token issuer {0:?} is invalid")]
    Issuer(String),
    #[error("invalid signature, no keys found")]
    Signature,
    #[error("token audiences {0:?} is invalid for the target audiences {1:?}")]
    Audience(Vec<String>, Vec<String>),
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token has been invalidated")]
    Invalidated,
}

impl Reference {
    pub fn to(value: &Value) -> Self {
        Reference { name: object::name(value).to_owned(), uid: object::uid(value).to_owned() }
    }
}

impl Tokens {
    pub fn new(store: Arc<dyn Store>, clock: Clock, keys: Keyring, accounts: Accounts) -> Self {
        Tokens { store, clock, keys, accounts, known: Mutex::default() }
    }

    /// The public keys, for programs that verify tokens themselves.
    pub fn published_keys(&self) -> Value {
        self.keys.published()
    }

    /// `/.well-known/openid-configuration`: where programs that verify tokens themselves find the keys.
    pub fn discovery(&self) -> Value {
        json!({
            "issuer": self.accounts.issuer(), "jwks_uri": self.accounts.jwks_uri(),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": self.keys.algorithms(),
        })
    }

    /// The audiences that this server accepts.
    pub fn audiences(&self) -> &[String] {
        self.accounts.audiences()
    }

    pub fn issue(&self, bound: Bound, audiences: Vec<String>, seconds: i64, id: String) -> Result<String, KeyError> {
        let now = self.clock.now().as_second();
        self.keys.sign(&Claims {
            aud: audiences,
            exp: now.saturating_add(seconds),
            iat: now,
            iss: self.accounts.issuer().to_owned(),
            jti: id,
            sub: format!("system:serviceaccount:{}:{}", bound.namespace, bound.serviceaccount.name),
            kubernetes: bound,
            nbf: now,
        })
    }

    /// A token without an end, good as long as its Secret holds it.
    pub fn issue_for_secret(&self, of: Legacy) -> Result<String, KeyError> {
        legacy::sign(&self.keys, of)
    }

    /// The user that a token authenticates for one of these audiences, and for which of them.
    pub(super) async fn judge(&self, token: &str, audiences: &[String]) -> Judged {
        if let Some((id, secret)) = bootstrap::halves(token) {
            let user = bootstrap::user(self.store.as_ref(), self.clock.now(), id, secret).await;
            return user.map_or(Judged::NotMine, |user| self.own_alone(user, audiences));
        }
        match self.known(token) {
            Ok(known) => match self.check(&known, audiences).await {
                Ok(meant) => Judged::User(known.user.clone(), meant),
                Err(why) => Judged::Bad(why.to_string()),
            },
            Err(Problem::Issuer(issuer)) if issuer == legacy::ISSUER => {
                match legacy::user(self.store.as_ref(), &self.keys, token).await {
                    Ok(user) => self.own_alone(user, audiences),
                    Err(why) => Judged::Bad(why.to_string()),
                }
            }
            Err(Problem::Issuer(_)) => Judged::NotMine,
            Err(why) => Judged::Bad(why.to_string()),
        }
    }

    /// Of a token without an audience: it is for this server alone.
    fn own_alone(&self, user: User, audiences: &[String]) -> Judged {
        let own = self.audiences();
        let meant: Vec<String> = audiences.iter().filter(|audience| own.contains(audience)).cloned().collect();
        if meant.is_empty() { Judged::NotMine } else { Judged::User(Arc::new(user), meant) }
    }

    /// To which of these a token with a good signature speaks, if it has not expired and what it is bound to still exists.
    async fn check(&self, known: &Known, audiences: &[String]) -> Result<Vec<String>, Problem> {
        let meant: Vec<String> =
            known.audiences.iter().filter(|audience| audiences.contains(audience)).cloned().collect();
        if meant.is_empty() {
            return Err(Problem::Audience(known.audiences.clone(), audiences.to_vec()));
        }
        let now = self.clock.now().as_second();
        if now >= known.expires {
            return Err(Problem::Expired);
        }
        if now < known.begins {
            return Err(Problem::NotYet);
        }
        for tie in &known.ties {
            self.holds(tie).await.ok_or(Problem::Invalidated)?;
        }
        Ok(meant)
    }

    /// The token's content, if one of our keys signed it. A signature is checked once.
    fn known(&self, token: &str) -> Result<Arc<Known>, Problem> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
        let digest: [u8; 32] = digest.as_ref().try_into().map_err(|_| Problem::Signature)?;
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&digest) {
            return Ok(known.clone());
        }
        let said = unverified(token).unwrap_or_default();
        let issuer = said.get("iss").and_then(Value::as_str).unwrap_or_default();
        if !self.accounts.issuers.iter().any(|own| own == issuer) {
            return Err(Problem::Issuer(issuer.to_owned()));
        }
        let claims: Claims = self.keys.claims(token).ok_or(Problem::Signature)?;
        if claims.iss != issuer {
            return Err(Problem::Signature);
        }
        let known = Arc::new(Known::of(claims));
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now().as_second();
        if all.len() >= MOST_KNOWN {
            all.retain(|_, known| known.expires > now);
        }
        if all.len() >= MOST_KNOWN {
            all.clear();
        }
        all.insert(digest, known.clone());
        Ok(known)
    }

    /// Whether an object is there and not long overdue to go. One that has not changed is not read again.
    async fn holds(&self, tie: &Tie) -> Option<()> {
        let entry = self.store.get(&tie.key).await.ok()??;
        if tie.seen.load(Ordering::Relaxed) == entry.mod_revision {
            return Some(());
        }
        let found = codec::decode(&entry.value);
        if object::uid(&found) != tie.uid {
            return None;
        }
        match object::text(&found, &["metadata", "deletionTimestamp"]).parse::<jiff::Timestamp>() {
            // Time alone will end it.
            Ok(at) => (at.as_second() + LEEWAY_SECONDS >= self.clock.now().as_second()).then_some(()),
            Err(_) => {
                tie.seen.store(entry.mod_revision, Ordering::Relaxed);
                Some(())
            }
        }
    }
}

impl Known {
    fn of(claims: Claims) -> Self {
        let Bound { namespace, serviceaccount, pod, secret, node } = claims.kubernetes;
        let tie = |key: String, to: &Reference| Tie { key, uid: to.uid.clone(), seen: AtomicU64::new(0) };
        let local = |prefix: &str, to: &Reference| tie(keys::in_namespace(prefix, &namespace, &to.name), to);
        let mut ties = vec![local(keys::SERVICE_ACCOUNTS, &serviceaccount)];
        ties.extend(secret.iter().map(|secret| local(keys::SECRETS, secret)));
        ties.extend(pod.iter().map(|pod| local(keys::PODS, pod)));
        if pod.is_none() {
            ties.extend(node.iter().map(|node| tie(keys::named(keys::NODES, &node.name), node)));
        }
        let mut user = User::new(
            &format!("system:serviceaccount:{namespace}:{}", serviceaccount.name),
            &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")],
        );
        user.uid = serviceaccount.uid;
        let mut tell = |key: &str, value: String| {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
        };
        tell("credential-id", format!("JTI={}", claims.jti));
        for (kind, reference) in [("pod", pod), ("node", node)] {
            let Some(Reference { name, uid }) = reference else { continue };
            tell(&format!("{kind}-name"), name);
            if !uid.is_empty() {
                tell(&format!("{kind}-uid"), uid);
            }
        }
        Known { user: Arc::new(user), audiences: claims.aud, expires: claims.exp, begins: claims.nbf, ties }
    }
}
