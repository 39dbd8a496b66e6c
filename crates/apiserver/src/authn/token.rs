//! Service account tokens: made by the token subresource, signed with the server's own key, checked against the
//! account they speak for.

use super::{User, bootstrap};
use crate::codec;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use pintle_meta::{Clock, object};
use pintle_store::Store;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

pub struct Tokens {
    store: Arc<dyn Store>,
    clock: Clock,
    signing: EncodingKey,
    checking: DecodingKey,
}

#[derive(Serialize, Deserialize)]
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

#[derive(Serialize, Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: Reference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Reference>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    pub uid: String,
}

/// Why the signing key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the key that signs service account tokens cannot be read: {0}")]
pub struct KeyError(#[from] jsonwebtoken::errors::Error);

impl Tokens {
    /// From the two halves of a P-256 key in PEM.
    pub fn new(store: Arc<dyn Store>, clock: Clock, private_pem: &str, public_pem: &str) -> Result<Self, KeyError> {
        Ok(Tokens {
            store,
            clock,
            signing: EncodingKey::from_ec_pem(private_pem.as_bytes())?,
            checking: DecodingKey::from_ec_pem(public_pem.as_bytes())?,
        })
    }

    pub fn issue(
        &self,
        namespace: &str,
        account: Reference,
        pod: Option<Reference>,
        audiences: Vec<String>,
        seconds: i64,
        id: String,
    ) -> Result<String, KeyError> {
        let now = self.clock.now().as_second();
        let claims = Claims {
            aud: audiences,
            exp: now + seconds,
            iat: now,
            iss: ISSUER.into(),
            jti: id,
            sub: format!("system:serviceaccount:{namespace}:{}", account.name),
            kubernetes: Bound { namespace: namespace.into(), serviceaccount: account, pod },
            nbf: now,
        };
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &self.signing)?)
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

    /// The account a token speaks for, if we signed it, it has not expired and the account still exists.
    async fn verify_signed(&self, token: &str, audiences: &[&str]) -> Option<(User, Vec<String>)> {
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[ISSUER]);
        // Time is the injected clock's business, audiences are compared below.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        let claims = jsonwebtoken::decode::<Claims>(token, &self.checking, &validation).ok()?.claims;
        let now = self.clock.now().as_second();
        let meant: Vec<String> =
            claims.aud.into_iter().filter(|audience| audiences.contains(&audience.as_str())).collect();
        if now >= claims.exp || now < claims.nbf || meant.is_empty() {
            return None;
        }
        let Bound { namespace, serviceaccount, pod } = claims.kubernetes;
        self.lives(&format!("/registry/serviceaccounts/{namespace}/{}", serviceaccount.name), &serviceaccount.uid)
            .await?;
        let mut user = User::new(
            &format!("system:serviceaccount:{namespace}:{}", serviceaccount.name),
            &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")],
        );
        user.uid = serviceaccount.uid;
        user.extra.insert("authentication.kubernetes.io/credential-id".into(), vec![format!("JTI={}", claims.jti)]);
        if let Some(pod) = pod {
            self.lives(&format!("/registry/pods/{namespace}/{}", pod.name), &pod.uid).await?;
            user.extra.insert("authentication.kubernetes.io/pod-name".into(), vec![pod.name]);
            user.extra.insert("authentication.kubernetes.io/pod-uid".into(), vec![pod.uid]);
        }
        Some((user, meant))
    }

    async fn lives(&self, key: &str, uid: &str) -> Option<()> {
        let entry = self.store.get(key).await.ok()??;
        (object::uid(&codec::decode(&entry.value)) == uid).then_some(())
    }
}
