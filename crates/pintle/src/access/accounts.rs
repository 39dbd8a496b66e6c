//! Flags about service account tokens: keys, issuers, audiences.

use super::{AccessError, read};
use pintle_apiserver::authn::config::Accounts;
use pintle_apiserver::authn::keys::{Keyring, PublicKey};
use std::path::PathBuf;

#[derive(clap::Args, Clone, Default, PartialEq)]
pub(super) struct AccountFlags {
    /// The key that signs service account tokens [default: DIR/pki/sa.key].
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Keys that verify service account tokens, beside the one that signs; may be repeated. To change the signing key, name the
    /// public half of the old one here until its tokens have expired.
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// The issuer of service account tokens [default: https://kubernetes.default.svc.cluster.local]. May be repeated: the first
    /// stands in new tokens, tokens of all count.
    #[arg(long, value_name = "URL")]
    service_account_issuer: Vec<String>,
    /// The audiences that tokens must have [default: the issuers].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// Where the keys are published, for the discovery document [default: below the issuer].
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,
}

const SIGNING: &str = "--service-account-signing-key-file";
const KEYS: &str = "--service-account-key-file";

impl AccountFlags {
    /// The keys, if they are not those that the cluster made.
    pub(super) fn load(&self) -> Result<(Option<Keyring>, Accounts), AccessError> {
        if self.service_account_issuer.iter().any(String::is_empty) {
            let why = "an issuer must not be empty".to_owned();
            return Err(AccessError::Flag { flag: "--service-account-issuer", why });
        }
        let mut others = Vec::new();
        for path in &self.service_account_key_file {
            let keys = PublicKey::of_pem(&read(KEYS, path)?);
            let unusable = |error| AccessError::Flag { flag: KEYS, why: format!("{}: {error}", path.display()) };
            others.extend(keys.map_err(unusable)?);
        }
        let keyring = match &self.service_account_signing_key_file {
            None if others.is_empty() => None,
            None => {
                let why = "is needed with --service-account-key-file: which of the keys signs is not known otherwise";
                return Err(AccessError::Flag { flag: SIGNING, why: why.to_owned() });
            }
            Some(path) => {
                let keyring = Keyring::new(&read(SIGNING, path)?, others);
                let unusable = |error| AccessError::Flag { flag: SIGNING, why: format!("{}: {error}", path.display()) };
                Some(keyring.map_err(unusable)?)
            }
        };
        let accounts = Accounts {
            audiences: self.api_audiences.clone(),
            jwks_uri: self.service_account_jwks_uri.clone(),
            ..Accounts::default()
        };
        let accounts = match self.service_account_issuer.as_slice() {
            [] => accounts,
            issuers => Accounts { issuers: issuers.to_vec(), ..accounts },
        };
        Ok((keyring, accounts))
    }
}
