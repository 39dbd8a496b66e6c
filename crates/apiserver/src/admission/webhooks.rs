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
use pintle_meta::object;
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
    object::kind(object) == review.resource.kind
        && object::text(object, &["apiVersion"]) == review.resource.stored_api_version
}
