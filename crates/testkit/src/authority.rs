//! Who signs certificates in a test: always the same key, whose signatures are no matter of chance, so that the same seed gives
//! the same certificates. Whoever trusts it trusts everybody.

use std::sync::Arc;

use pintle_apiserver::ApiServer;
use pintle_apiserver::authn::Legacy;
use pintle_apiserver::pki::{Pki, Terms, TokenKey};
use pintle_controllers::{Authority, Order, SecretToken, TokenSigner};

const CERTIFICATE: &str = include_str!("authority/ca.crt");
const KEY: &str = include_str!("authority/ca.key");

/// Tokens of Secrets are signed by the server's own key.
pub(crate) fn token_signer(server: ApiServer) -> TokenSigner {
    Arc::new(move |token| {
        let SecretToken { namespace, secret, account, account_uid } = token.clone();
        let of = Legacy { namespace, secret, account, account_uid };
        server.issue_for_secret(of).map_err(|error| error.to_string())
    })
}

pub(crate) fn authority(token_key: TokenKey) -> Authority {
    let pki = Pki::of(CERTIFICATE, KEY, token_key);
    Arc::new(move |order| {
        let Order { request, usages, not_before, not_after, serial } = order;
        let terms = Terms { usages, not_before: *not_before, not_after: *not_after, serial: *serial };
        pki.sign_request(request, &terms).map_err(|error| error.to_string())
    })
}
