//! Service account tokens: made by the token subresource, signed with the server's own key, checked against the
//! account they speak for and the object they are bound to.

use super::keys::{KeyError, SigningKey};
use super::{User, bootstrap};
use crate::codec;
use pintle_meta::{Clock, object};
use pintle_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How long a token outlives the deletion of what it is bound to: clocks differ a little.
const LEEWAY_SECONDS: i64 = 60;

pub struct Tokens {
    store: Arc<dyn Store>,
    clock: Clock,
    key: SigningKey,
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
        Tokens { store, clock, key }
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
    pub async fn verify(&self, token: &str) -> Option<User> {
        self.verify_for(token, &[ISSUER]).await.map(|(user, _)| user)
    }

    /// For whom a token speaks to one of these, if it is good, and to which of them.
    pub async fn verify_for(&self, token: &str, audiences: &[&str]) -> Option<(User, Vec<String>)> {
        match bootstrap::halves(token) {
            // These say nothing of whom they are for: they are for this server alone.
            Some((id, secret)) if audiences.contains(&ISSUER) => {
                let user = bootstrap::user(self.store.as_ref(), self.clock.now(), id, secret).await?;
                Some((user, vec![ISSUER.to_owned()]))
            }
            Some(_) => None,
            None => self.verify_signed(token, audiences).await,
        }
    }

    /// The account a token speaks for, if we signed it, it has not expired and what it is bound to still exists.
    async fn verify_signed(&self, token: &str, audiences: &[&str]) -> Option<(User, Vec<String>)> {
        let claims: Claims = self.key.claims(token, ISSUER)?;
        let now = self.clock.now().as_second();
        let meant: Vec<String> =
            claims.aud.into_iter().filter(|audience| audiences.contains(&audience.as_str())).collect();
        if now >= claims.exp || now < claims.nbf || meant.is_empty() {
            return None;
        }
        let Bound { namespace, serviceaccount, pod, secret, node } = claims.kubernetes;
        self.lives(&format!("/registry/serviceaccounts/{namespace}/"), &serviceaccount).await?;
        if let Some(secret) = &secret {
            self.lives(&format!("/registry/secrets/{namespace}/"), secret).await?;
        }
        match (&pod, &node) {
            (Some(pod), _) => self.lives(&format!("/registry/pods/{namespace}/"), pod).await?,
            (None, Some(node)) => self.lives("/registry/minions/", node).await?,
            (None, None) => {}
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
        Some((user, meant))
    }

    /// Whether an object is there and not long overdue to go.
    async fn lives(&self, prefix: &str, reference: &Reference) -> Option<()> {
        let entry = self.store.get(&format!("{prefix}{}", reference.name)).await.ok()??;
        let found = codec::decode(&entry.value);
        let deleted = object::text(&found, &["metadata", "deletionTimestamp"]).parse::<jiff::Timestamp>();
        let overdue = deleted.is_ok_and(|at| at.as_second() + LEEWAY_SECONDS < self.clock.now().as_second());
        (object::uid(&found) == reference.uid && !overdue).then_some(())
    }
}
