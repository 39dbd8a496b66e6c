//! Where the identity is kept, so that all replicas show the same: a Secret, written by compare-and-set.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use pintle_meta::Clock;

use super::WebhookError;
use super::certificates::{self, Identity, Issue, Step};
use crate::error::{ApiError, ignore_not_found};

/// How often the race for a renewal is run before others are left to it.
const TRIES: usize = 8;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";

pub(super) struct Keeper {
    pub(super) api: Api<Secret>,
    pub(super) name: String,
    pub(super) issue: Issue,
    pub(super) clock: Clock,
}

impl Keeper {
    /// The identity that all replicas share, renewed if its time has come, and how long it needs no look.
    ///
    /// Of several who renew at once one writes; the others read what it wrote.
    pub(super) async fn identity(&self) -> Result<(Identity, Duration), WebhookError> {
        for _ in 0..TRIES {
            let now = self.clock.now();
            let secret = ignore_not_found(self.api.get(&self.name).await)?;
            let held = secret.as_ref().and_then(read);
            let step = certificates::next_step(held.as_ref(), &self.issue.names, now);
            if let (Step::Keep(until), Some(held)) = (step, &held) {
                let rest = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                return Ok((held.clone(), rest));
            }
            let renewed = certificates::take(step, held.as_ref(), &self.issue, now)
                .map_err(|error| WebhookError::Certificate(error.to_string()))?;
            match self.write(secret, &renewed).await {
                Err(error) if error.is_conflict() || error.is_already_exists() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
                Ok(_) => tracing::info!(secret = self.name, ?step, "the webhook's certificates were renewed"),
            }
        }
        Err(WebhookError::Contended(self.name.clone()))
    }

    async fn write(&self, secret: Option<Secret>, identity: &Identity) -> Result<Secret, kube::Error> {
        let parts = [
            (CERTIFICATE, &identity.certificate),
            (KEY, &identity.key),
            (BUNDLE, &identity.bundle),
            (AUTHORITY_KEY, &identity.authority_key),
        ];
        let parts = parts.map(|(name, text)| (name.to_owned(), ByteString(text.clone().into_bytes())));
        match secret {
            // Its resourceVersion makes it a compare-and-set.
            Some(mut secret) => {
                secret.data.get_or_insert_default().extend(parts);
                self.api.replace(&self.name, &PostParams::default(), &secret).await
            }
            None => {
                let mut secret = Secret { data: Some(BTreeMap::from(parts)), ..Secret::default() };
                secret.metadata.name = Some(self.name.clone());
                self.api.create(&PostParams::default(), &secret).await
            }
        }
    }
}

fn read(secret: &Secret) -> Option<Identity> {
    let data = secret.data.as_ref()?;
    let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
    Some(Identity {
        certificate: text(CERTIFICATE)?,
        key: text(KEY)?,
        bundle: text(BUNDLE)?,
        authority_key: text(AUTHORITY_KEY)?,
    })
}
