//! Tokens that stand in Secrets of type `kubernetes.io/service-account-token`: signed like others, without an end, and good as long as
//! the Secret holds them. A loop asks for them; those of a cluster that moved here count under its keys.

use super::User;
use super::bootstrap::speaks_in;
use super::keys::{KeyError, Keyring};
use crate::{ApiServer, codec, keys};
use pintle_meta::object;
use pintle_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What stands in them as their issuer.
pub(super) const ISSUER: &str = "kubernetes/serviceaccount";

const TYPE: &str = "kubernetes.io/service-account-token";

/// Marks a Secret whose token was not used for long, and counts no more.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

#[derive(Clone, Deserialize, Serialize)]
struct Claims {
    iss: String,
    sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("invalid signature, no keys found")]
    Signature,
    #[error("sub claim is invalid")]
    Subject,
    #[error("Token has been invalidated")]
    Invalidated,
    #[error("Token does not match server's copy")]
    Other,
    #[error("ServiceAccount {0}/{1} has been deleted")]
    Account(String, String),
}

/// What a token in a Secret speaks for.
#[derive(Clone, Debug)]
pub struct Legacy {
    pub namespace: String,
    pub secret: String,
    pub account: String,
    pub account_uid: String,
}

impl ApiServer {
    /// A token without an end, good as long as its Secret holds it.
    pub fn issue_for_secret(&self, of: Legacy) -> Result<String, KeyError> {
        self.authenticator.tokens.issue_for_secret(of)
    }
}

pub(super) fn sign(keyring: &Keyring, of: Legacy) -> Result<String, KeyError> {
    let Legacy { namespace, secret, account, account_uid: uid } = of;
    let sub = format!("system:serviceaccount:{namespace}:{account}");
    keyring.sign(&Claims { iss: ISSUER.to_owned(), sub, namespace, secret, account, uid })
}

/// The user that a token of this issuer authenticates.
pub(super) async fn user(store: &dyn Store, keyring: &Keyring, token: &str) -> Result<User, Problem> {
    let claims: Claims = keyring.claims(token).ok_or(Problem::Signature)?;
    let name = format!("system:serviceaccount:{}:{}", claims.namespace, claims.account);
    if claims.iss != ISSUER || claims.sub != name {
        return Err(Problem::Subject);
    }
    let read = async |prefix: &str, name: &str| {
        let entry = store.get(&keys::in_namespace(prefix, &claims.namespace, name)).await.ok().flatten();
        entry.map(|entry| codec::decode(&entry.value)).filter(|found| !object::is_being_deleted(found))
    };
    let secret = read(keys::SECRETS, &claims.secret).await.ok_or(Problem::Invalidated)?;
    check(&secret, token)?;
    let account = read(keys::SERVICE_ACCOUNTS, &claims.account).await;
    if account.is_none_or(|account| object::uid(&account) != claims.uid) {
        return Err(Problem::Account(claims.namespace, claims.account));
    }
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", claims.namespace)];
    Ok(User { uid: claims.uid, ..User::new(&name, &groups.each_ref().map(String::as_str)) })
}

fn check(secret: &Value, token: &str) -> Result<(), Problem> {
    let is_marked = object::at(secret, &["metadata", "labels", INVALID_SINCE]).is_some();
    if object::text(secret, &["type"]) != TYPE || is_marked {
        return Err(Problem::Invalidated);
    }
    if speaks_in(secret, "token", token) { Ok(()) } else { Err(Problem::Other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use pintle_store::{MemoryStore, Op, Txn};
    use serde_json::json;

    async fn put(store: &MemoryStore, key: String, value: Value) {
        let op = Op::Put { key: key.into(), value: codec::encode(&value), expires_at: None };
        store.commit(Txn { ops: vec![op], ..Txn::default() }).await.unwrap();
    }

    #[tokio::test]
    async fn a_token_of_a_secret_is_good_as_long_as_the_secret_holds_it() {
        let store = MemoryStore::new();
        let keyring = Keyring::new(&rcgen::KeyPair::generate().unwrap().serialize_pem(), Vec::new()).unwrap();
        let claims = |sub: &str| {
            json!({"iss": ISSUER, "sub": sub, "kubernetes.io/serviceaccount/namespace": "d",
                "kubernetes.io/serviceaccount/secret.name": "s", "kubernetes.io/serviceaccount/service-account.name": "a",
                "kubernetes.io/serviceaccount/service-account.uid": "1"})
        };
        let token = keyring.sign(&claims("system:serviceaccount:d:a")).unwrap();
        let foreign = keyring.sign(&claims("system:serviceaccount:kube-system:a")).unwrap();
        let secret = |token: &str, labels: Value| {
            json!({"metadata": {"name": "s", "namespace": "d", "labels": labels}, "type": TYPE,
                "data": {"token": BASE64_STANDARD.encode(token)}})
        };
        let at = keys::in_namespace(keys::SECRETS, "d", "s");
        let account = |uid: &str| json!({"metadata": {"name": "a", "namespace": "d", "uid": uid}});
        let account_at = keys::in_namespace(keys::SERVICE_ACCOUNTS, "d", "a");
        let judged = async |token: &str| user(&store, &keyring, token).await.map(|user| user.groups.join(" "));

        assert_eq!(judged(&token).await, Err(Problem::Invalidated));
        put(&store, at.clone(), secret(&token, json!({}))).await;
        let gone = Problem::Account("d".into(), "a".into());
        assert_eq!(judged(&token).await, Err(gone));
        put(&store, account_at.clone(), account("1")).await;
        let groups = "system:serviceaccounts system:serviceaccounts:d system:authenticated";
        assert_eq!(judged(&token).await.as_deref(), Ok(groups));
        assert_eq!(judged(&foreign).await, Err(Problem::Subject));
        put(&store, at.clone(), secret(&token, json!({INVALID_SINCE: "2026-01-01"}))).await;
        assert_eq!(judged(&token).await, Err(Problem::Invalidated));
        put(&store, at.clone(), secret("another", json!({}))).await;
        assert_eq!(judged(&token).await, Err(Problem::Other));
        put(&store, at, secret(&token, json!({}))).await;
        put(&store, account_at, account("2")).await;
        assert_eq!(judged(&token).await, Err(Problem::Account("d".into(), "a".into())));
        let other = Keyring::new(&rcgen::KeyPair::generate().unwrap().serialize_pem(), Vec::new()).unwrap();
        assert_eq!(user(&store, &other, &token).await.err(), Some(Problem::Signature));
    }
}
