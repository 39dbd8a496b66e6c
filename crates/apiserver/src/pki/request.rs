//! Signs what others ask for: the subject and names of their request, with the usages and the life that they are given.

use super::{Pki, PkiError};
use jiff::Timestamp;
use rcgen::{CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType, SerialNumber};
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, parse_x509_pem};

/// What a certificate has that its request does not decide.
pub struct Terms<'a> {
    /// In the words of the API, `client auth` and its kin.
    pub usages: &'a [String],
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub serial: u128,
}

impl Pki {
    /// A certificate as PEM for a request as PEM. That the request may be granted is known before.
    pub fn sign_request(&self, request: &[u8], terms: &Terms<'_>) -> Result<String, PkiError> {
        let refused = |why: &str| PkiError::Request(why.to_owned());
        must_be_simple(request)?;
        let text = std::str::from_utf8(request).map_err(|_| refused("it is not PEM"))?;
        let mut asked = CertificateSigningRequestParams::from_pem(text).map_err(|error| refused(&error.to_string()))?;
        let params = &mut asked.params;
        if let Some(name) = params.subject_alt_names.iter().find_map(|name| self.own_name(name)) {
            return Err(refused(&format!("{name} is the API server's own, and nobody else gets a certificate for it")));
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = terms.usages.iter().filter_map(|usage| key_usage(usage)).collect();
        params.extended_key_usages = terms.usages.iter().filter_map(|usage| purpose(usage)).collect();
        params.not_before = moment(terms.not_before).into();
        params.not_after = moment(terms.not_after).into();
        // Positive, whatever the first bit is.
        params.serial_number = Some(SerialNumber::from((terms.serial >> 1).to_be_bytes().to_vec()));
        params.use_authority_key_identifier_extension = true;
        Ok(asked.signed_by(&self.issuer()?)?.pem())
    }
}

impl Pki {
    /// The name as text if it is one of the API server's own.
    fn own_name(&self, name: &SanType) -> Option<String> {
        let text = match name {
            SanType::DnsName(name) => name.as_str().trim_end_matches('.').to_ascii_lowercase(),
            SanType::IpAddress(address) => address.to_canonical().to_string(),
            _ => return None,
        };
        self.own.lock().unwrap_or_else(PoisonError::into_inner).contains(&text).then_some(text)
    }
}

/// The library that signs takes a subject with one value of each kind; another one must not lose parts in silence.
fn must_be_simple(request: &[u8]) -> Result<(), PkiError> {
    let refused = |why: &str| PkiError::Request(why.to_owned());
    let (_, block) = parse_x509_pem(request).map_err(|_| refused("it is not PEM"))?;
    let (_, asked) = X509CertificationRequest::from_der(&block.contents).map_err(|e| refused(&e.to_string()))?;
    let mut seen = BTreeSet::new();
    for part in asked.certification_request_info.subject.iter() {
        let mut values = part.iter();
        match (values.next(), values.next()) {
            (Some(value), None) if seen.insert(value.attr_type().to_id_string()) => {}
            _ => return Err(refused("its subject has several values of one kind, such as two organizations")),
        }
    }
    Ok(())
}

fn moment(time: Timestamp) -> SystemTime {
    let seconds = u64::try_from(time.as_second()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn key_usage(usage: &str) -> Option<KeyUsagePurpose> {
    Some(match usage {
        "signing" | "digital signature" => KeyUsagePurpose::DigitalSignature,
        "content commitment" => KeyUsagePurpose::ContentCommitment,
        "key encipherment" => KeyUsagePurpose::KeyEncipherment,
        "key agreement" => KeyUsagePurpose::KeyAgreement,
        "data encipherment" => KeyUsagePurpose::DataEncipherment,
        _ => return None,
    })
}

fn purpose(usage: &str) -> Option<ExtendedKeyUsagePurpose> {
    Some(match usage {
        "client auth" => ExtendedKeyUsagePurpose::ClientAuth,
        "server auth" => ExtendedKeyUsagePurpose::ServerAuth,
        _ => return None,
    })
}

/// `sha256:…` of an authority's public key, by which somebody who has seen it nowhere else knows it again.
pub fn public_key_hash(ca_pem: &str) -> Result<String, PkiError> {
    let bad = || PkiError::Setup("the authority's certificate cannot be read".to_owned());
    let (_, block) = parse_x509_pem(ca_pem.as_bytes()).map_err(|_| bad())?;
    let certificate = block.parse_x509().map_err(|_| bad())?;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate.public_key().raw);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use x509_parser::prelude::X509Certificate;

    fn request(params: CertificateParams) -> Vec<u8> {
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap().into_bytes()
    }

    #[test]
    fn a_certificate_has_the_names_that_were_asked_and_no_more_power() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let pki = Pki::generate(now).unwrap();
        let mut params = CertificateParams::new(["a".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "system:node:a");
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let usages = ["digital signature".to_owned(), "server auth".to_owned()];
        let terms = Terms {
            usages: &usages,
            not_before: now,
            not_after: "2026-02-01T00:00:00Z".parse().unwrap(),
            serial: u128::MAX,
        };
        let pem = pki.sign_request(&request(params), &terms).unwrap();
        let (_, block) = parse_x509_pem(pem.as_bytes()).unwrap();
        let (_, made) = X509Certificate::from_der(&block.contents).unwrap();
        let (_, ca) = parse_x509_pem(pki.ca_pem.as_bytes()).unwrap();
        made.verify_signature(Some(ca.parse_x509().unwrap().public_key())).unwrap();
        assert!(!made.is_ca());
        assert!(!made.key_usage().unwrap().unwrap().value.key_cert_sign());
        assert!(made.extended_key_usage().unwrap().unwrap().value.server_auth);
        assert_eq!(made.validity().not_after.timestamp(), terms.not_after.as_second());
        assert_eq!(made.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 1);
    }

    #[test]
    fn an_authority_is_known_again_by_its_key() {
        let now = Timestamp::UNIX_EPOCH;
        let (one, other) = (Pki::generate(now).unwrap(), Pki::generate(now).unwrap());
        let hash = public_key_hash(&one.ca_pem).unwrap();
        assert_eq!(hash.len(), "sha256:".len() + 64);
        assert_eq!(public_key_hash(&one.ca_pem).unwrap(), hash);
        assert_ne!(public_key_hash(&other.ca_pem).unwrap(), hash);
        assert!(public_key_hash("x").is_err());
    }

    #[test]
    fn nobody_gets_a_certificate_for_a_name_of_the_api_server() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let pki = Pki::generate(now).unwrap();
        pki.server_tls(&[[192, 0, 2, 1].into()], &["api.example.com".to_owned()], now).unwrap();
        let usages = ["server auth".to_owned()];
        let terms = Terms { usages: &usages, not_before: now, not_after: now, serial: 1 };
        for (name, signed) in [
            ("worker.example.com", true),
            ("192.0.2.2", true),
            ("kubernetes.default.svc", false),
            ("Kubernetes", false),
            ("api.example.com", false),
            ("192.0.2.1", false),
            ("10.96.0.1", false),
        ] {
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            assert_eq!(pki.sign_request(&request(params), &terms).is_ok(), signed, "{name}");
        }
    }
}
