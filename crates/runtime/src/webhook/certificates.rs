//! The webhook's own authority and serving certificate: made, read back, and the decision when to make new ones.
//!
//! The API server trusts the bundle that stands in its configurations, and a new bundle takes a moment to get there. So a
//! new authority never signs at once: it joins the bundle, and signs the next serving certificate, weeks later.
//!
//! ```text
//! authority   A ─────────────────────────────┬ B joins the bundle [B, A] ──────────── A expires
//! certificate a1 ───┬ a2 ───┬ a3 ───┬ … ──── a9 (by A, with B's birth) ┬ b1 (by B)
//! ```

use jiff::{SignedDuration, Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::IpAddr;

/// An authority outlives this many serving certificates.
const AUTHORITY_LIFETIMES: i64 = 6;

/// Certificates and keys as PEM, as the Secret keeps them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// The serving certificate.
    pub(super) certificate: String,
    pub(super) key: String,
    /// Whom to trust, the newest first.
    pub(super) bundle: String,
    /// The newest authority's key.
    pub(super) authority_key: String,
}

/// What to do, and when to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All is well until then.
    Keep(Timestamp),
    NewCertificate,
    NewAuthority,
    /// Nothing that is there can be used.
    NewAll,
}

/// For what and how long certificates are made.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub(super) names: Vec<String>,
    pub(super) days: u16,
}

#[derive(Debug, thiserror::Error)]
#[error("certificates cannot be made: {0}")]
pub(super) struct IssueError(#[from] rcgen::Error);

/// When an identity has to be renewed: each of its parts after two thirds of its life.
pub(super) fn next_step(identity: Option<&Identity>, names: &[String], now: Timestamp) -> Step {
    let Some(identity) = identity else { return Step::NewAll };
    let (Some(certificate), Some(authority)) = (life(&identity.certificate), life(&identity.bundle)) else {
        return Step::NewAll;
    };
    if KeyPair::from_pem(&identity.key).is_err() || KeyPair::from_pem(&identity.authority_key).is_err() {
        return Step::NewAll;
    }
    if authority.end <= now {
        return Step::NewAll;
    }
    if authority.renewal() <= now && certificate.end > now {
        return Step::NewAuthority;
    }
    let named = names.iter().all(|name| certificate.names.contains(name));
    if certificate.renewal() <= now || !named {
        return Step::NewCertificate;
    }
    Step::Keep(certificate.renewal().min(authority.renewal()))
}

/// Takes a step. `Keep` gives the same identity back.
pub(super) fn take(step: Step, old: Option<&Identity>, issue: &Issue, now: Timestamp) -> Result<Identity, IssueError> {
    match (step, old) {
        (Step::Keep(_), Some(old)) => Ok(old.clone()),
        (Step::NewCertificate, Some(old)) => {
            let (certificate, key) = certificate(&old.bundle, &old.authority_key, issue, now)?;
            Ok(Identity { certificate, key, ..old.clone() })
        }
        (Step::NewAuthority, Some(old)) => {
            // The last one by the old authority, so that the new one has the longest time to become known.
            let (certificate, key) = certificate(&old.bundle, &old.authority_key, issue, now)?;
            let (authority, authority_key) = authority(issue, now)?;
            let previous = first(&old.bundle);
            Ok(Identity { certificate, key, bundle: format!("{authority}{previous}"), authority_key })
        }
        _ => {
            let (bundle, authority_key) = authority(issue, now)?;
            let (certificate, key) = certificate(&bundle, &authority_key, issue, now)?;
            Ok(Identity { certificate, key, bundle, authority_key })
        }
    }
}

fn authority(issue: &Issue, now: Timestamp) -> Result<(String, String), IssueError> {
    let key = KeyPair::generate()?;
    let mut params = valid_for(CertificateParams::default(), now, i64::from(issue.days) * AUTHORITY_LIFETIMES);
    // The name tells authorities of one service apart, as verifiers look for the issuer by name.
    let name = format!("{} {}", issue.names.first().map_or("webhook", String::as_str), now.as_second());
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn certificate(
    bundle: &str,
    authority_key: &str,
    issue: &Issue,
    now: Timestamp,
) -> Result<(String, String), IssueError> {
    let issuer = Issuer::from_ca_cert_pem(&first(bundle), KeyPair::from_pem(authority_key)?)?;
    let key = KeyPair::generate()?;
    let mut params = valid_for(CertificateParams::new(issue.names.clone())?, now, i64::from(issue.days));
    params.distinguished_name.push(DnType::CommonName, issue.names.first().map_or("webhook", String::as_str));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}

/// The first certificate of a bundle.
fn first(bundle: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    bundle.find(END).map_or_else(String::new, |end| format!("{}\n", bundle[..end + END.len()].trim_start()))
}

fn valid_for(mut params: CertificateParams, now: Timestamp, days: i64) -> CertificateParams {
    // A day of slack for clocks that are behind, and the day that is not whole yet.
    let today = now.to_zoned(TimeZone::UTC).date();
    let day = |d: jiff::civil::Date| date_time_ymd(i32::from(d.year()), d.month() as u8, d.day() as u8);
    params.not_before = day(today.saturating_sub(1.days()));
    params.not_after = day(today.saturating_add((days + 1).days()));
    params
}

/// What the first certificate of a PEM text says about itself.
struct Life {
    start: Timestamp,
    end: Timestamp,
    names: Vec<String>,
}

impl Life {
    fn renewal(&self) -> Timestamp {
        let whole = self.end.duration_since(self.start);
        let two_thirds = SignedDuration::from_secs(whole.as_secs() / 3 * 2);
        self.start.checked_add(two_thirds).unwrap_or(self.end)
    }
}

fn life(pem: &str) -> Option<Life> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).ok()?;
    let moment = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    let names = match parsed.subject_alternative_name().ok()? {
        Some(names) => names
            .value
            .general_names
            .iter()
            .filter_map(|name| match name {
                x509_parser::extensions::GeneralName::DNSName(name) => Some((*name).to_owned()),
                x509_parser::extensions::GeneralName::IPAddress(bytes) => address(bytes),
                _ => None,
            })
            .collect(),
        None => Vec::new(),
    };
    Some(Life { start: moment(parsed.validity().not_before)?, end: moment(parsed.validity().not_after)?, names })
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| IpAddr::from(bytes).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::from(bytes).to_string())).ok()
}
