//! The certificate that new connections are shown, which changes while the server runs.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::WebhookError;
use super::certificates::Identity;

#[derive(Debug, Default)]
pub(super) struct Resolver(Mutex<Option<Arc<CertifiedKey>>>);

impl Resolver {
    /// Connections that begin after this are shown the new certificate; others go on.
    pub(super) fn show(&self, identity: &Identity) -> Result<(), WebhookError> {
        let broken = |error: &dyn std::fmt::Display| WebhookError::Certificate(error.to_string());
        let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(|e| broken(&e))?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|e| broken(&e))?;
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).map_err(|e| broken(&e))?;
        let shown = Arc::new(CertifiedKey::new(vec![chain], key));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        Ok(())
    }

    pub(super) fn shown(&self) -> Option<Arc<CertifiedKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.shown()
    }
}
