//! Nodes elsewhere, over HTTPS: the server shows its certificate and wants to see theirs.

use super::network::{CONNECT, Direct};
use super::{NodeAnswer, Nodes, Place};
use crate::body::Payload;
use crate::pki::{Identity, PkiError};
use futures::future::BoxFuture;
use http::{HeaderValue, Request, header};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::IpAddr;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Reaches nodes by their addresses.
#[derive(Clone)]
pub struct Remote {
    tls: Arc<rustls::ClientConfig>,
    network: Direct,
}

impl Remote {
    /// Trusts nodes with a certificate of this authority, and shows them this identity.
    pub fn new(ca_pem: &str, identity: &Identity) -> Result<Self, PkiError> {
        let setup = |error: rustls::pki_types::pem::Error| PkiError::Setup(error.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).map_err(setup)?)?;
        let chain = vec![CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).map_err(setup)?];
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(setup)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(Remote { tls: Arc::new(tls), network: Direct::default() })
    }

    /// The same, with another opinion on addresses: a test has its nodes on loopback.
    pub fn connecting_to(self, may_connect: fn(IpAddr) -> bool) -> Self {
        Remote { network: Direct::connecting_to(may_connect), ..self }
    }

    async fn request(self, place: Place, mut request: Request<Payload>) -> Result<NodeAnswer, String> {
        let Some((address, port)) = place.endpoint else {
            return Err("its status has no address and port to reach it at".to_owned());
        };
        let late = |_| format!("no connection to {address}:{port} in {} s", CONNECT.as_secs());
        let connecting = async {
            let stream = self.network.open(&address, port).await?;
            let name = ServerName::try_from(address.clone()).map_err(std::io::Error::other)?;
            TlsConnector::from(self.tls.clone()).connect(name, stream).await
        };
        let stream = tokio::time::timeout(CONNECT, connecting).await.map_err(late)?;
        let stream = stream.map_err(|error| format!("{address}:{port}: {error}"))?;
        if let Ok(host) = HeaderValue::from_str(&format!("{address}:{port}")) {
            request.headers_mut().insert(header::HOST, host);
        }
        super::exchange(stream, request).await.map_err(|error| format!("{address}:{port}: {error}"))
    }
}

impl Nodes for Remote {
    fn send(&self, place: Place, request: Request<Payload>) -> BoxFuture<'static, Result<NodeAnswer, String>> {
        Box::pin(self.clone().request(place, request))
    }
}
