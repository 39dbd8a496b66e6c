//! Nodes elsewhere, over HTTPS: the server shows its certificate and wants to see theirs.
//!
//! A node's address is what the node wrote into its own status. The server connects only to addresses of other machines:
//! never to loopback, link-local and multicast ones, behind which its own services and those of its host are.

use super::{NodeAnswer, Nodes, Place};
use crate::body::Body;
use crate::pki::{Identity, PkiError};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Until a connection stands.
const CONNECT: Duration = Duration::from_secs(10);

/// Reaches nodes by their addresses.
#[derive(Clone)]
pub struct Remote {
    tls: Arc<rustls::ClientConfig>,
    may_connect: fn(IpAddr) -> bool,
}

/// Whether an address can be another machine's.
pub fn is_global_unicast(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_broadcast())
        }
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_loopback() || v6.is_unicast_link_local() || v6.is_multicast()),
    }
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
        Ok(Remote { tls: Arc::new(tls), may_connect: is_global_unicast })
    }

    /// The same, with another opinion on addresses: a test has its nodes on loopback.
    pub fn connecting_to(self, may_connect: fn(IpAddr) -> bool) -> Self {
        Remote { may_connect, ..self }
    }

    /// Resolves a node's address and connects to what was checked. All that it resolves to must be allowed.
    async fn connect(&self, address: &str, port: u16) -> std::io::Result<TcpStream> {
        let resolved: Vec<SocketAddr> = tokio::net::lookup_host((address, port)).await?.collect();
        if !resolved.iter().all(|one| (self.may_connect)(one.ip())) {
            let why = "address not allowed: a node's address must not be a loopback, link-local or multicast address";
            return Err(std::io::Error::other(why));
        }
        TcpStream::connect(resolved.as_slice()).await
    }

    async fn request(self, place: Place, request: Request<Bytes>) -> Result<NodeAnswer, String> {
        let Some((address, port)) = place.endpoint else {
            return Err("its status has no address and port to reach it at".to_owned());
        };
        let late = |_| format!("no connection to {address}:{port} in {} s", CONNECT.as_secs());
        let connecting = async {
            let stream = self.connect(&address, port).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(address.clone()).map_err(std::io::Error::other)?;
            TlsConnector::from(self.tls.clone()).connect(name, stream).await
        };
        let stream = tokio::time::timeout(CONNECT, connecting).await.map_err(late)?;
        let stream = stream.map_err(|error| format!("{address}:{port}: {error}"))?;
        let broken = |error: hyper::Error| format!("{address}:{port}: {error}");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(async move {
            // Whoever reads the answer learns of its end.
            let _ = connection.with_upgrades().await;
        });
        let mut request = request.map(Full::new);
        if let Ok(host) = HeaderValue::from_str(&format!("{address}:{port}")) {
            request.headers_mut().insert(header::HOST, host);
        }
        let mut response = sender.send_request(request).await.map_err(broken)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let upgraded = hyper::upgrade::on(&mut response).await.map_err(broken)?;
            let connection: Box<dyn super::Duplex> = Box::new(TokioIo::new(upgraded));
            return Ok(NodeAnswer { response: response.map(|_| Body::empty()), connection: Some(connection) });
        }
        // An answer that breaks off ends there.
        let frames = |body: hyper::body::Incoming| {
            let frames = body.into_data_stream().take_while(|frame| futures::future::ready(frame.is_ok()));
            Body::Stream(Box::pin(frames.filter_map(|frame| futures::future::ready(frame.ok()))))
        };
        Ok(NodeAnswer { response: response.map(frames), connection: None })
    }
}

impl Nodes for Remote {
    fn send(&self, place: Place, request: Request<Bytes>) -> BoxFuture<'static, Result<NodeAnswer, String>> {
        Box::pin(self.clone().request(place, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_other_machines_are_connected_to() {
        for allowed in ["10.0.0.1", "192.0.2.7", "172.16.0.1", "2001:db8::1", "fd00::1"] {
            assert!(is_global_unicast(allowed.parse().unwrap()), "{allowed}");
        }
        for refused in [
            "127.0.0.1",
            "127.8.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
        ] {
            assert!(!is_global_unicast(refused.parse().unwrap()), "{refused}");
        }
    }
}
