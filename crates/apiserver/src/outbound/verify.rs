//! How the certificate of a server is judged, and what is said of one that is not accepted.
//!
//! As `rustls` judges it, with one addition that Go's TLS makes and that users rely on: a certificate that is itself in the
//! bundle is accepted also if it is an authority's, as `openssl req -x509` makes them.

use super::Failure;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Accepts every certificate whose owner signed the handshake.
#[derive(Debug)]
pub(super) struct Anyone(pub(super) Arc<CryptoProvider>);

/// Accepts certificates of known authorities.
#[derive(Debug)]
pub(super) struct Known {
    /// Whether the owner of a certificate signed, without a check of who that is.
    handshake: Anyone,
    roots: Vec<CertificateDer<'static>>,
    /// None if no root can be used.
    usual: Option<Arc<WebPkiServerVerifier>>,
}

impl Known {
    pub(super) fn new(provider: Arc<CryptoProvider>, roots: Vec<CertificateDer<'static>>) -> Self {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().cloned());
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build().ok();
        Known { handshake: Anyone(provider), roots, usual }
    }

    fn knows_issuer(&self, shown: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(shown) else { return true };
        let is_issuer = |root: &CertificateDer<'_>| {
            X509Certificate::from_der(root)
                .is_ok_and(|(_, root)| root.subject().as_raw() == certificate.issuer().as_raw())
        };
        self.roots.iter().any(is_issuer)
    }

    fn judge(
        &self,
        shown: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Refused> {
        if self.roots.iter().any(|root| root.as_ref() == shown.as_ref()) {
            return Refused::unless_fits(shown, name, now);
        }
        let Some(usual) = &self.usual else { return Err(Refused::UnknownAuthority) };
        usual.verify_server_cert(shown, chain, name, &[], now).map(|_| ()).map_err(|error| match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                Refused::UnknownAuthority
            }
            // An authority's own certificate is looked at before its issuer is: the issuer is what matters.
            _ if !self.knows_issuer(shown) => Refused::UnknownAuthority,
            // Its own names and times first: they are what people look for.
            other => Refused::unless_fits(shown, name, now).err().unwrap_or_else(|| Refused::Other(other.to_string())),
        })
    }
}

/// Why a certificate is not accepted, in the words of Go's TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("x509: certificate signed by unknown authority")]
    UnknownAuthority,
    #[error("x509: certificate has expired or is not yet valid: current time {now} is {relation} {bound}")]
    Time { now: String, relation: &'static str, bound: String },
    #[error("x509: certificate relies on legacy Common Name field, use SANs instead")]
    CommonName,
    #[error("x509: certificate is not valid for any names, but wanted to match {0}")]
    NoNames(String),
    #[error("x509: cannot validate certificate for {0} because it doesn't contain any IP SANs")]
    NoAddresses(String),
    #[error("x509: certificate is valid for {names}, not {wanted}")]
    Name { names: String, wanted: String },
    #[error("x509: {0}")]
    Other(String),
}

impl Refused {
    fn unless_fits(shown: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Self> {
        let malformed = |error: &dyn std::fmt::Display| Refused::Other(format!("malformed certificate: {error}"));
        let (_, certificate) = X509Certificate::from_der(shown).map_err(|error| malformed(&error))?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let (begin, end) =
            (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
        let outside = |relation, bound| Refused::Time { now: at(seconds), relation, bound: at(bound) };
        if seconds < begin {
            return Err(outside("before", begin));
        }
        if seconds > end {
            return Err(outside("after", end));
        }
        let names = certificate.subject_alternative_name().map_err(|error| malformed(&error))?;
        let names: Vec<&GeneralName<'_>> = names.iter().flat_map(|names| &names.value.general_names).collect();
        let has_common_name = certificate.subject().iter_common_name().next().is_some();
        match name {
            ServerName::IpAddress(wanted) => of_address(&names, IpAddr::from(*wanted)),
            ServerName::DnsName(wanted) => of_name(&names, wanted.as_ref(), has_common_name),
            other => Err(Refused::Other(format!("{other:?} is no name of a server"))),
        }
    }
}

fn of_address(names: &[&GeneralName<'_>], wanted: IpAddr) -> Result<(), Refused> {
    let address = |name: &&GeneralName<'_>| match name {
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from),
        },
        _ => None,
    };
    let addresses: Vec<IpAddr> = names.iter().filter_map(address).collect();
    if addresses.contains(&wanted) {
        return Ok(());
    }
    if addresses.is_empty() {
        return Err(Refused::NoAddresses(wanted.to_string()));
    }
    let names = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err(Refused::Name { names, wanted: wanted.to_string() })
}

fn of_name(names: &[&GeneralName<'_>], wanted: &str, has_common_name: bool) -> Result<(), Refused> {
    let dns = |name: &&GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    let known: Vec<String> = names.iter().filter_map(dns).collect();
    if known.iter().any(|name| covers(name, wanted)) {
        return Ok(());
    }
    if names.is_empty() && has_common_name {
        return Err(Refused::CommonName);
    }
    if known.is_empty() {
        return Err(Refused::NoNames(wanted.to_owned()));
    }
    Err(Refused::Name { names: known.join(", "), wanted: wanted.to_owned() })
}

/// Does a name of a certificate stand for a server? A star stands for one label, the first.
fn covers(name: &str, wanted: &str) -> bool {
    if name.eq_ignore_ascii_case(wanted) {
        return true;
    }
    match (name.strip_prefix("*."), wanted.split_once('.')) {
        (Some(rest), Some((first, parent))) => !first.is_empty() && rest.eq_ignore_ascii_case(parent),
        _ => false,
    }
}

fn at(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.judge(end_entity, intermediates, server_name, now);
        judged.map_err(|refused| Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refused)))))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.handshake.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.handshake.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.handshake.supported_verify_schemes()
    }
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// What a handshake that failed is to those who asked.
pub(super) fn failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Failure::Closed;
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(refused)))) => {
            Failure::Certificate(format!("tls: failed to verify certificate: {refused}"))
        }
        Some(Error::InvalidMessage(_)) => Failure::Plain,
        Some(other) => Failure::Tls(other.to_string()),
        None => Failure::Tls(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_certificate_stands_for_one_label() {
        for (name, wanted, covered) in [
            ("hooks.a.svc", "hooks.a.svc", true),
            ("Hooks.A.svc", "hooks.a.svc", true),
            ("*.a.svc", "hooks.a.svc", true),
            ("*.svc", "hooks.a.svc", false),
            ("*.a.svc", "a.svc", false),
            ("other.a.svc", "hooks.a.svc", false),
        ] {
            assert_eq!(covers(name, wanted), covered, "{name} {wanted}");
        }
    }

    #[test]
    fn a_certificate_made_for_its_own_bundle_is_accepted_under_its_names_only() {
        let mut parameters = rcgen::CertificateParams::new(vec!["hooks.a.svc".to_owned()]).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let shown = certificate.der().clone();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000));
        let judge = |roots, name: &str| {
            let known = Known::new(provider.clone(), roots);
            known.judge(&shown, &[], &ServerName::try_from(name.to_owned()).unwrap(), now).map_err(|e| e.to_string())
        };
        assert_eq!(judge(vec![shown.clone()], "hooks.a.svc"), Ok(()));
        let other = Err("x509: certificate is valid for hooks.a.svc, not other.a.svc".to_owned());
        assert_eq!(judge(vec![shown.clone()], "other.a.svc"), other);
        let address = "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs";
        assert_eq!(judge(vec![shown.clone()], "127.0.0.1"), Err(address.to_owned()));
        assert_eq!(judge(vec![], "hooks.a.svc"), Err(Refused::UnknownAuthority.to_string()));
    }
}
