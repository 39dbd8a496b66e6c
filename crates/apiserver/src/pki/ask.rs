//! What one who wants a certificate makes: a key, and the request that goes to the authority.

use super::PkiError;
use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use std::net::IpAddr;
use x509_parser::prelude::parse_x509_pem;

/// A request for a certificate and the key that stays at home, as PEM.
pub struct Request {
    pub pem: String,
    pub key_pem: String,
}

/// Asks in the name of a member of a group; names and addresses are those under which it will be reached.
pub fn ask(common_name: &str, organization: &str, names: &[String], addresses: &[IpAddr]) -> Result<Request, PkiError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
    let key = KeyPair::generate()?;
    Ok(Request { pem: params.serialize_request(&key)?.pem()?, key_pem: key.serialize_pem() })
}

/// From when until when a certificate holds.
pub fn validity(certificate_pem: &str) -> Result<(Timestamp, Timestamp), PkiError> {
    let bad = || PkiError::Setup("the certificate cannot be read".to_owned());
    let (_, block) = parse_x509_pem(certificate_pem.as_bytes()).map_err(|_| bad())?;
    let certificate = block.parse_x509().map_err(|_| bad())?;
    let moment = |seconds| Timestamp::from_second(seconds).map_err(|_| bad());
    let validity = certificate.validity();
    Ok((moment(validity.not_before.timestamp())?, moment(validity.not_after.timestamp())?))
}

#[cfg(test)]
mod tests {
    use super::super::{Pki, Terms};
    use super::*;

    #[test]
    fn what_is_asked_for_can_be_signed_and_says_how_long_it_holds() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let end: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        let request = ask("system:node:a", "system:nodes", &["a".to_owned()], &[[10, 0, 0, 1].into()]).unwrap();
        let terms = Terms { usages: &["server auth".to_owned()], not_before: now, not_after: end, serial: 1 };
        let signed = Pki::generate(now).unwrap().sign_request(request.pem.as_bytes(), &terms).unwrap();
        assert_eq!(validity(&signed).unwrap(), (now, end));
        assert!(validity(&request.key_pem).is_err());
    }
}
