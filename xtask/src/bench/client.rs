//! A small HTTPS client for loads: one connection, one request at a time, no more work than needed.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where a server is and how to get in.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: String,
    tls: Arc<rustls::ClientConfig>,
    token: Option<String>,
}

impl Target {
    /// `identity` is a PEM text with a client certificate and its key.
    pub(crate) fn new(address: &str, identity: Option<&str>, token: Option<String>) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Loopback(provider)));
        let tls = match identity {
            Some(pem) => {
                let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(pem.as_bytes())?)?
            }
            None => builder.with_no_client_auth(),
        };
        let address = address.trim_start_matches("https://").trim_end_matches('/').to_owned();
        ensure!(
            address.starts_with("127.") || address.starts_with("[::1]") || address.starts_with("localhost"),
            "loads go to loopback only"
        );
        Ok(Target { address, tls: Arc::new(tls), token })
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address).await.with_context(|| self.address.clone())?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, target: self.clone() })
    }
}

pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    target: Target,
}

impl Connection {
    /// The code and the whole body.
    pub(crate) async fn call(&mut self, method: Method, path: &str, media: &str, body: Bytes) -> Result<(u16, Bytes)> {
        let response = self.open(method, path, media, body).await?;
        let code = response.status().as_u16();
        Ok((code, response.into_body().collect().await?.to_bytes()))
    }

    /// The response as it begins, for watches.
    pub(crate) async fn open(
        &mut self,
        method: Method,
        path: &str,
        media: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.target.address)
            .header("accept", "application/json")
            .header("user-agent", "pintle-bench");
        if !media.is_empty() {
            request = request.header("content-type", media);
        }
        if let Some(token) = &self.target.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }
}

/// Loads run against loopback, where there is nobody to impersonate the server.
#[derive(Debug)]
struct Loopback(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Loopback {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
