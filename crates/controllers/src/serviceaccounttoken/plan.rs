//! What a Secret for a service account's token lacks.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt;
use pintle_runtime::{Key, Plan, Write};

use super::SecretToken;

/// Selects the Secrets that this is about.
pub(super) const SELECTED: &str = "type=kubernetes.io/service-account-token";

const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// The account that a Secret is for.
pub(super) fn account_of(secret: &Secret) -> Option<Key> {
    let name = secret.annotations().get(NAME).filter(|name| !name.is_empty())?;
    Some(Key::new(secret.namespace()?, name.clone()))
}

/// Whether the Secret is for this very account, and not for one that had the name before.
pub(super) fn belongs(secret: &Secret, account: Option<&ServiceAccount>) -> bool {
    let said = secret.annotations().get(UID).filter(|uid| !uid.is_empty());
    account.is_some_and(|account| said.is_none_or(|uid| account.metadata.uid.as_ref() == Some(uid)))
}

/// Fills in what is missing, or deletes the Secret if its account is gone. An error if a token cannot be signed.
pub(super) fn plan(
    secret: &Secret,
    account: Option<&ServiceAccount>,
    root_ca: Option<&str>,
    sign: impl Fn(&SecretToken) -> Result<String, String>,
) -> Result<Plan, String> {
    let Some(account) = account.filter(|account| belongs(secret, Some(account))) else {
        return Ok(Plan::of(vec![Write::delete(secret)]));
    };
    if secret.metadata.deletion_timestamp.is_some() {
        return Ok(Plan::default());
    }
    let (uid, namespace) = (account.metadata.uid.clone().unwrap_or_default(), secret.namespace().unwrap_or_default());
    let mut wanted = secret.clone();
    let data = wanted.data.get_or_insert_default();
    let is_empty = |value: Option<&ByteString>| value.is_none_or(|value| value.0.is_empty());
    if let Some(root_ca) = root_ca {
        data.insert("ca.crt".to_owned(), ByteString(root_ca.as_bytes().to_vec()));
    }
    if is_empty(data.get("namespace")) {
        data.insert("namespace".to_owned(), ByteString(namespace.clone().into_bytes()));
    }
    if is_empty(data.get("token")) {
        let (secret, account) = (secret.name_any(), account.name_any());
        let token = sign(&SecretToken { namespace, secret, account, account_uid: uid.clone() })?;
        data.insert("token".to_owned(), ByteString(token.into_bytes()));
    }
    wanted.annotations_mut().insert(UID.to_owned(), uid);
    Ok(Plan::of(if wanted == *secret { Vec::new() } else { vec![Write::replace(&wanted)] }))
}
