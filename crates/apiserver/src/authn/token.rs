//! Service account tokens: made by the token subresource, signed with the server's own key, checked against the
//! account they speak for and the object they are bound to.

use super::keys::{KeyError, SigningKey};
use super::{User, bootstrap};
use crate::codec;
use crate::keys;
use pintle_meta::{Clock, object};
use pintle_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    key: SigningKey,
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

impl Reference {
    pub fn to(value: &Value) -> Self {
        Reference { name: object::name(value).to_owned(), uid: object::uid(value).to_owned() }
    }
}

impl Tokens {
    pub fn new(store: Arc<dyn Store>, clock: Clock, key: SigningKey) -> Self {
        Tokens { store, clock, key, known: Mutex::default() }
    }

    /// The public keys, for programs that verify tokens themselves.
    pub fn published_keys(&self) -> Value {
        self.key.published()
    }

    pub fn issue(&self, bound: Bound, audiences: Vec<String>, seconds: i64, id: String) -> Result<String, KeyError> {
        let now = self.clock.now().as_second();
        self.key.sign(&Claims {
            aud: audiences,
            exp: now.saturating_add(seconds),
            iat: now,
            iss: ISSUER.into(),
            jti: id,
            sub: format!("system:serviceaccount:{}:{}", bound.namespace, bound.serviceaccount.name),
            kubernetes: bound,
            nbf: now,
        })
    }

    /// For whom a token speaks to this server, if it is good.
    pub async fn verify(&self, token: &str) -> Option<Arc<User>> {
        self.verify_for(token, &[ISSUER]).await.map(|(user, _)| user)
    }

    /// For whom a token speaks to one of these, if it is good, and to which of them.
    pub async fn verify_for(&self, token: &str, audiences: &[&str]) -> Option<(Arc<User>, Vec<String>)> {
        match bootstrap::halves(token) {
            // These say nothing of whom they are for: they are for this server alone.
            Some((id, secret)) if audiences.contains(&ISSUER) => {
                let user = bootstrap::user(self.store.as_ref(), self.clock.now(), id, secret).await?;
                Some((Arc::new(user), vec![ISSUER.to_owned()]))
            }
            Some(_) => None,
            None => self.verify_signed(token, audiences).await,
        }
    }

    /// The account a token speaks for, if we signed it, it has not expired and what it is bound to still exists.
    async fn verify_signed(&self, token: &str, audiences: &[&str]) -> Option<(Arc<User>, Vec<String>)> {
        let known = self.known(token)?;
        let now = self.clock.now().as_second();
        let meant: Vec<String> =
            known.audiences.iter().filter(|audience| audiences.contains(&audience.as_str())).cloned().collect();
        if now >= known.expires || now < known.begins || meant.is_empty() {
            return None;
        }
        for tie in &known.ties {
            self.holds(tie).await?;
        }
        Some((known.user.clone(), meant))
    }

    /// The token's content, if we signed it. A signature is checked once.
    fn known(&self, token: &str) -> Option<Arc<Known>> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
        let digest: [u8; 32] = digest.as_ref().try_into().ok()?;
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&digest) {
            return Some(known.clone());
        }
        let known = Arc::new(Known::of(self.key.claims(token, ISSUER)?));
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now().as_second();
        if all.len() >= MOST_KNOWN {
            all.retain(|_, known| known.expires > now);
        }
        if all.len() >= MOST_KNOWN {
            all.clear();
        }
        all.insert(digest, known.clone());
        Some(known)
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
