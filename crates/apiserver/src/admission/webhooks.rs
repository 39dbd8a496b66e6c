//! Programs that are asked about a write over HTTPS: mutating webhooks may change the object, validating ones refuse it.
//!
//! ```text
//! MutatingWebhookConfiguration ─┐                      ┌─ matching: is the request meant? in which version?
//!                               ├─ configurations ──→ Hook ── call: AdmissionReview out, answer back ──→ mutate, validate
//! ValidatingWebhookConfiguration┘
//! ```
//!
//! - A configuration counts from the answer to its own write on: both kinds are followed like roles.
//! - Webhooks are found by the resource that their rules name, so configurations that do not match cost nothing.
//! - What a webhook makes of an object is decoded and defaulted again, as if a client had sent it.

mod answer;
mod call;
mod configurations;
mod hook;
mod lockout;
mod matching;
pub mod metrics;
mod mutate;
mod question;
mod round;
#[cfg(test)]
mod tests;
mod validate;

pub use configurations::Configurations;
pub use lockout::Lockout;
pub use metrics::Families;
pub use mutate::Mutating;
pub use round::Round;
pub use validate::Validating;

use super::Review;
use crate::catalogue::Resource;
use pintle_meta::{Status, object};
use serde_json::Value;

/// Kinds that no webhook is asked about: nobody locks the door and throws the key away.
const EXEMPT: [&str; 6] = [
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

fn is_exempt(resource: &Resource) -> bool {
    resource.group == "admissionregistration.k8s.io" && EXEMPT.contains(&resource.name.as_str())
}

/// Is this an object of the resource itself, and not one that stands for a part of it, as a Scale does?
fn is_whole(review: &Review<'_>, object: &Value) -> bool {
    object::kind(object) == review.resource.kind && object::text(object, &["apiVersion"]) == kept_version(review)
}

/// The version in which the object is while it is reviewed: the stored one, or its own where a webhook converts.
fn kept_version(review: &Review<'_>) -> String {
    let resource = review.resource;
    if resource.converter().is_some() { resource.api_version() } else { resource.stored_api_version.clone() }
}

/// An object under review in the version that a webhook is shown.
async fn in_version(review: &Review<'_>, version: &Resource, value: Value) -> Result<Value, Status> {
    let value = review.registry.convert_one(version, &version.api_version(), value).await?;
    Ok(review.registry.value_in(version, value))
}

/// The way back.
async fn as_kept(review: &Review<'_>, version: &Resource, value: Value) -> Result<Value, Status> {
    let mut value = review.registry.convert_one(version, &kept_version(review), value).await?;
    review.registry.to_stored(version, &mut value);
    Ok(value)
}
