//! Which requests are signed, and for how long.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::Plan;

use crate::csr::{self, Asked};

/// How long a certificate holds if less is not asked for.
const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
/// For clocks that are behind.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);
/// Lives shorter than this are not shortened by what they are backdated.
const SHORT: SignedDuration = SignedDuration::from_hours(8);

/// A certificate to be made: the subject and the names of the request, and nothing else of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The request as PEM.
    pub request: Vec<u8>,
    /// In the words of the API, `client auth` and its kin.
    pub usages: Vec<String>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub serial: u128,
}

/// Who signs: the certificate as PEM, or why there is none. What it is given has been checked and approved.
pub type Authority = Arc<dyn Fn(&Order) -> Result<String, String> + Send + Sync>;

/// Writes the certificate, or why there is none.
pub(super) fn plan(request: &CertificateSigningRequest, now: Timestamp, serial: u128, authority: &Authority) -> Plan {
    let signed = match step(request, now, serial) {
        Step::Nothing => return Plan::default(),
        Step::Fail(why) => Err(why.to_owned()),
        Step::Sign(order) => authority(&order),
    };
    let mut status = request.status.clone().unwrap_or_default();
    match signed {
        Ok(pem) => status.certificate = Some(ByteString(pem.into_bytes())),
        Err(why) => status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
            type_: "Failed".to_owned(),
            status: "True".to_owned(),
            reason: Some("SignerValidationFailure".to_owned()),
            message: Some(why),
            last_update_time: Some(Time(now)),
            last_transition_time: Some(Time(now)),
        }),
    }
    let mut plan = Plan::default();
    plan.set_status(request, request.status.as_ref(), &status);
    plan
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Sign(Order),
    Fail(&'static str),
    Nothing,
}

pub(super) fn step(request: &CertificateSigningRequest, now: Timestamp, serial: u128) -> Step {
    let spec = &request.spec;
    let ours = [csr::CLIENT, csr::NODE_CLIENT, csr::NODE_SERVING].contains(&spec.signer_name.as_str());
    let has = |kind| csr::condition(request, kind).is_some();
    if !ours || !has("Approved") || has("Denied") || has("Failed") || csr::is_issued(request) {
        return Step::Nothing;
    }
    let usages = spec.usages.clone().unwrap_or_default();
    // A client may have no name of its own; whether that is of use is the approver's business.
    let asked = Asked::of(request).unwrap_or_default();
    if let Some(why) = csr::refusal(&spec.signer_name, &asked, &usages) {
        return Step::Fail(why);
    }
    let wanted = spec.expiration_seconds.map(|seconds| SignedDuration::from_secs(seconds.into()));
    let life = wanted.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
    let shortened = if life < SHORT { SignedDuration::ZERO } else { BACKDATED };
    Step::Sign(Order {
        request: spec.request.0.clone(),
        usages,
        not_before: now.checked_sub(BACKDATED).unwrap_or(now),
        not_after: now.checked_add(life - shortened).unwrap_or(now),
        serial,
    })
}
