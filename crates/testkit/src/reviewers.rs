//! An API server that asks programs of the test who users are and what they may do.

use crate::builder::Reviewers;
use pintle_apiserver::access::Access;
use pintle_apiserver::authn::config::{Authentication, TokenWebhook};
use pintle_apiserver::authz::config::{Authorization, Mode, WebhookConfig};
use pintle_apiserver::outbound::{Endpoint, Trust};
use std::time::Duration;

/// Kubernetes' own.
const TOKENS_COUNT: Duration = Duration::from_secs(120);
const AUTHORIZED_COUNTS: Duration = Duration::from_secs(300);
const UNAUTHORIZED_COUNTS: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(3);

impl Reviewers {
    /// # Panics
    ///
    /// When a URL is invalid.
    pub(crate) fn access(&self) -> Access {
        let webhook = self.tokens.as_deref().map(|url| TokenWebhook {
            endpoint: endpoint(url),
            version: "v1".to_owned(),
            ttl: TOKENS_COUNT,
        });
        let guard = self.access.as_deref().map(|url| {
            Mode::Webhook(Box::new(WebhookConfig {
                name: "guard".to_owned(),
                endpoint: endpoint(url),
                version: "v1".to_owned(),
                timeout: LIMIT,
                authorized_ttl: AUTHORIZED_COUNTS,
                unauthorized_ttl: UNAUTHORIZED_COUNTS,
                denies_on_failure: true,
            }))
        });
        let chain = [Some(Mode::Node), guard, Some(Mode::Rbac)].into_iter().flatten().collect();
        Access {
            authentication: Authentication { webhook, ..Authentication::default() },
            authorization: Authorization { chain },
        }
    }
}

/// The program makes its certificate when it starts, long after the API server: here nobody checks it.
fn endpoint(url: &str) -> Endpoint {
    let trust = Trust::of_anyone(None).unwrap_or_else(|error| panic!("{error}"));
    Endpoint::of_url(url, trust).unwrap_or_else(|error| panic!("{error}"))
}
