//! How long a request is kept, by what became of it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pintle_runtime::{Plan, Write};
use x509_parser::prelude::parse_x509_pem;

use crate::csr;

const DONE: SignedDuration = SignedDuration::from_hours(1);
const WAITING: SignedDuration = SignedDuration::from_hours(24);

/// Deletes a request whose time is over, or looks again when it will be.
pub(super) fn plan(request: &CertificateSigningRequest, now: Timestamp) -> Plan {
    let Some(end) = ends_at(request) else { return Plan::default() };
    let left = end.duration_since(now);
    match left.is_positive() {
        true => Plan { again: Some(left.unsigned_abs()), ..Plan::default() },
        false => Plan::of(vec![Write::delete(request)]),
    }
}

/// When a request goes; nothing if it is kept for good.
pub(super) fn ends_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let since = |kind: &str| csr::condition(request, kind)?.last_update_time.as_ref().map(|time| time.0);
    let after = |moment: Option<Timestamp>, age| moment?.checked_add(age).ok();
    let is_issued = csr::is_issued(request);
    let created = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let has_none = request.status.as_ref().and_then(|status| status.conditions.as_ref()).is_none_or(Vec::is_empty);
    [
        after(since("Denied"), DONE),
        after(since("Failed"), DONE),
        after(since("Approved"), if is_issued { DONE } else { WAITING }),
        after(created.filter(|_| has_none), WAITING),
        since("Approved").and_then(|_| expiry(request)),
    ]
    .into_iter()
    .flatten()
    .min()
}

/// When the certificate ends.
fn expiry(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let pem = &request.status.as_ref()?.certificate.as_ref()?.0;
    let (_, block) = parse_x509_pem(pem).ok()?;
    Timestamp::from_second(block.parse_x509().ok()?.validity().not_after.timestamp()).ok()
}
