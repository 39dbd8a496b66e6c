//! Whose certificates are accepted, and which one is shown.

use super::verify::{Anyone, Known};
use crate::pki::Identity;
use pintle_meta::Clock;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where the machine keeps the authorities that it trusts, on the usual distributions.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Accepts certificates of these authorities, and each of them as a server's own.
pub fn accepting(roots: Vec<CertificateDer<'static>>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Known::new(Arc::new(rustls::crypto::aws_lc_rs::default_provider()), roots))
}

/// The number tells connections of different trust apart.
static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
    time: Arc<Time>,
    id: u64,
}

/// The clock by which certificates have begun and ended: that of the server which connects.
#[derive(Debug, Default)]
struct Time(OnceLock<Clock>);

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let now = self.0.get_or_init(Clock::system).now().as_second();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).ok()?)))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    NoCertificates,
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the client certificate cannot be read: {0}")]
    Identity(rustls::pki_types::pem::Error),
}

impl Trust {
    /// Accepts certificates of these authorities (PEM); of those that the machine trusts, if there are none.
    pub fn of_bundle(bundle: &[u8], identity: Option<&Identity>) -> Result<Self, TrustError> {
        let roots = if bundle.is_empty() { system_roots() } else { certificates(bundle) };
        if roots.is_empty() && !bundle.is_empty() {
            return Err(TrustError::NoCertificates);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self::verifying(Arc::new(Known::new(provider.clone(), roots)), provider, identity)
    }

    /// Accepts every certificate: what `insecureSkipTLSVerify` asks for.
    pub fn of_anyone(identity: Option<&Identity>) -> Result<Self, TrustError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self::verifying(Arc::new(Anyone(provider.clone())), provider, identity)
    }

    fn verifying(
        verifier: Arc<dyn ServerCertVerifier>,
        provider: Arc<CryptoProvider>,
        identity: Option<&Identity>,
    ) -> Result<Self, TrustError> {
        let time = Arc::new(Time::default());
        let config = ClientConfig::builder_with_details(provider, time.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(identity.certificate_pem.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(TrustError::Identity)?;
                config.with_client_auth_cert(chain, key)?
            }
        };
        Ok(Trust { config: Arc::new(config), time, id: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    /// For connections at this clock's time. One trust is used with one clock.
    pub(crate) fn config(&self, clock: &Clock) -> Arc<ClientConfig> {
        self.time.0.get_or_init(|| clock.clone());
        self.config.clone()
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn system_roots() -> Vec<CertificateDer<'static>> {
    let bundle = SYSTEM_BUNDLES.iter().find_map(|path| std::fs::read(path).ok());
    bundle.map(|bundle| certificates(&bundle)).unwrap_or_default()
}
