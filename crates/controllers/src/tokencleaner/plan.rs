//! When a bootstrap token's Secret goes.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

pub(super) const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Nothing for a token that does not expire. A time that cannot be read has passed.
pub(super) fn ends_at(secret: &Secret) -> Option<Timestamp> {
    let text = secret.data.as_ref()?.get("expiration").filter(|text| !text.0.is_empty())?;
    let end = std::str::from_utf8(&text.0).ok().and_then(|text| text.parse().ok());
    Some(end.unwrap_or(Timestamp::MIN))
}
