//! A certificate that can be changed while connections are served under it.

use super::{Identity, PkiError, trusting};
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// What a server shows. Before there is a certificate nobody can connect.
#[derive(Debug, Default)]
pub struct Changing(ArcSwapOption<CertifiedKey>);

impl Changing {
    /// The certificate of all connections from now on.
    pub fn set(&self, identity: &Identity) -> Result<(), PkiError> {
        self.0.store(Some(Arc::new(certified(identity)?)));
        Ok(())
    }

    /// TLS for a node's own listener, as [`super::Pki::node_tls`] makes it, for one who is not the authority.
    pub fn node_tls(self: &Arc<Self>, ca_pem: &str) -> Result<Arc<ServerConfig>, PkiError> {
        let mut config = trusting(ca_pem)?.with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Changing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

pub(super) fn certified(identity: &Identity) -> Result<CertifiedKey, PkiError> {
    let setup = |error: rustls::pki_types::pem::Error| PkiError::Setup(error.to_string());
    let chain = vec![CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).map_err(setup)?];
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(setup)?;
    Ok(CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider())?)
}
