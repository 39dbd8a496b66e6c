//! When a bootstrap token's Secret goes.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use pintle_runtime::{Plan, Write};

pub(super) const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Deletes a token that has expired, or looks again when it will have.
pub(super) fn plan(secret: &Secret, now: Timestamp) -> Plan {
    let Some(end) = ends_at(secret) else { return Plan::default() };
    let left = end.duration_since(now);
    if left.is_positive() {
        return Plan { again: Some(left.unsigned_abs()), ..Plan::default() };
    }
    // Somebody may have given it more time since.
    Plan::of(vec![Write::delete(secret).at_version_of(&secret.metadata)])
}

/// Nothing for a token that does not expire. A time that cannot be read has passed.
pub(super) fn ends_at(secret: &Secret) -> Option<Timestamp> {
    let text = secret.data.as_ref()?.get("expiration").filter(|text| !text.0.is_empty())?;
    let end = std::str::from_utf8(&text.0).ok().and_then(|text| text.parse().ok());
    Some(end.unwrap_or(Timestamp::MIN))
}
