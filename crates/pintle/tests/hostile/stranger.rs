//! A client without credentials, over HTTP/1.1 and HTTP/2, that does what no honest client does.

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Requests under way at once, where an attack is many of them.
const AT_ONCE: usize = 32;

pub struct Stranger {
    address: String,
    http1: TlsConnector,
    http2: TlsConnector,
}

type Http2<B> = hyper::client::conn::http2::SendRequest<B>;

impl Stranger {
    pub fn new(address: &str) -> Self {
        let connector = |protocol: &[u8]| {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let builder = rustls::ClientConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions().expect("versions");
            let trusting = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
            let mut config = trusting.with_no_client_auth();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Stranger { address: address.to_owned(), http1: connector(b"http/1.1"), http2: connector(b"h2") }
    }

    async fn connect(&self, connector: &TlsConnector) -> Option<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address).await.ok()?;
        connector.connect(ServerName::try_from("localhost").ok()?, stream).await.ok()
    }

    async fn http2<B>(&self) -> Option<Http2<B>>
    where
        B: http_body::Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = self.connect(&self.http2).await?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }

    /// One honest question.
    pub async fn get(&self, path: &str) -> u16 {
        let mut sender = self.http2::<Empty<Bytes>>().await.expect("a connection");
        let request = Request::get(format!("https://localhost{path}")).body(Empty::new()).expect("a request");
        sender.send_request(request).await.expect("an answer").status().as_u16()
    }

    /// Opens connections and says nothing.
    pub async fn hold(&self, connections: usize, time: Duration) {
        let held = futures::stream::iter(0..connections).map(|_| self.connect(&self.http2)).buffer_unordered(AT_ONCE);
        let held: Vec<_> = held.collect().await;
        tokio::time::sleep(time).await;
        assert!(held.iter().flatten().count() > 0, "no connection was taken at all");
    }

    /// Sends bodies to where it may not write, several at once on each connection.
    pub async fn send_bodies(&self, connections: usize, streams: usize, bytes: usize) {
        let body = Bytes::from(vec![b' '; bytes]);
        let one = |_| {
            let body = body.clone();
            async move {
                let Some(sender) = self.http2::<Full<Bytes>>().await else { return };
                let send = |_| {
                    let (mut sender, body) = (sender.clone(), body.clone());
                    async move {
                        let request = Request::post("https://localhost/api/v1/namespaces/default/configmaps")
                            .header("content-type", "application/json")
                            .body(Full::new(body));
                        let Ok(answer) = sender.send_request(request.expect("a request")).await else { return };
                        assert_eq!(answer.status(), 403);
                    }
                };
                futures::future::join_all((0..streams).map(send)).await;
            }
        };
        // All at once: what they cost together is the question.
        futures::future::join_all((0..connections).map(one)).await;
    }

    /// Sends the head of a request over HTTP/1.1, a byte each second.
    pub async fn trickle(&self, connections: usize, time: Duration) {
        let open = futures::stream::iter(0..connections).map(|_| self.connect(&self.http1)).buffer_unordered(AT_ONCE);
        let mut open: Vec<_> = open.filter_map(futures::future::ready).collect().await;
        for second in 0..time.as_secs() {
            let byte = &b"GET /api"[second as usize..][..1];
            for stream in &mut open {
                // One that was closed for a newcomer is closed.
                let _ = stream.write_all(byte).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Asks and takes it back at once, again and again.
    pub async fn reset(&self, connections: usize, times: usize) {
        let one = |_| async move {
            let Some(mut sender) = self.http2::<Empty<Bytes>>().await else { return };
            for _ in 0..times {
                if sender.ready().await.is_err() {
                    return;
                }
                let request = Request::get("https://localhost/api/v1/pods").body(Empty::new()).expect("a request");
                let asked = sender.send_request(request);
                // Polled once, so that it is sent; dropped, so that it is reset.
                let _ = tokio::time::timeout(Duration::ZERO, asked).await;
            }
        };
        futures::stream::iter(0..connections).map(one).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    }

    /// Asks for what has never been there, each time by another name.
    pub async fn make_up_paths(&self, paths: usize) {
        let connections = AT_ONCE.min(paths);
        let one = |connection: usize| async move {
            let Some(mut sender) = self.http2::<Empty<Bytes>>().await else { return };
            for number in (connection..paths).step_by(connections) {
                let path = format!("https://localhost/apis/made-up-{number}.example.com/v1/made-up-{number}/x");
                let request = Request::get(path).body(Empty::new()).expect("a request");
                if sender.ready().await.is_err() {
                    return;
                }
                let Ok(answer) = sender.send_request(request).await else { return };
                assert_eq!(answer.status(), 403);
                let _ = answer.into_body().collect().await;
            }
        };
        futures::future::join_all((0..connections).map(one)).await;
    }
}

/// A stranger does not verify the server.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
