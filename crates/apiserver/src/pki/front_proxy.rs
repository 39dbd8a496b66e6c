//! The authority of the front proxy: what it signed may say who a user is, without that user's credentials.
//!
//! It is another authority than the cluster's, whose certificates users may ask for: nobody gets one of this authority.

use super::{AUTHORITY_YEARS, CLIENT_YEARS, Identity, PkiError, read, valid_for, write_private};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::path::Path;

/// The name in the certificate that this server shows to other API servers.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

pub struct FrontProxy {
    pub ca_pem: String,
    ca_key_pem: String,
}

impl FrontProxy {
    /// An authority that lives only in memory.
    pub fn generate(now: Timestamp) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = valid_for(CertificateParams::default(), now, AUTHORITY_YEARS);
        params.distinguished_name.push(DnType::CommonName, "front-proxy-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let ca_pem = params.self_signed(&key)?.pem();
        Ok(FrontProxy { ca_pem, ca_key_pem: key.serialize_pem() })
    }

    /// The authority kept in a directory, made there if it is new.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, PkiError> {
        let (ca, key) = (directory.join("front-proxy-ca.crt"), directory.join("front-proxy-ca.key"));
        if ca.exists() || key.exists() {
            return Ok(FrontProxy { ca_pem: read(&ca)?, ca_key_pem: read(&key)? });
        }
        let authority = FrontProxy::generate(now)?;
        fs::create_dir_all(directory).map_err(|source| PkiError::File { path: directory.into(), source })?;
        write_private(&key, &authority.ca_key_pem)?;
        write_private(&ca, &authority.ca_pem)?;
        Ok(authority)
    }

    /// What the server shows to other API servers, which then believe what it says about the user.
    pub fn client(&self, now: Timestamp) -> Result<Identity, PkiError> {
        let mut params = valid_for(CertificateParams::default(), now, CLIENT_YEARS);
        params.distinguished_name.push(DnType::CommonName, FRONT_PROXY_CLIENT);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let issuer = Issuer::from_ca_cert_pem(&self.ca_pem, KeyPair::from_pem(&self.ca_key_pem)?)?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::Clock;

    #[test]
    fn the_authority_of_a_directory_stays_the_same() {
        let directory = std::env::temp_dir().join(format!("pintle-front-proxy-{}", std::process::id()));
        let now = Clock::system().now();
        let first = FrontProxy::open(&directory, now).unwrap();
        let again = FrontProxy::open(&directory, now).unwrap();
        assert_eq!(first.ca_pem, again.ca_pem);
        assert!(again.client(now).is_ok());
        fs::remove_dir_all(&directory).unwrap();
    }
}
