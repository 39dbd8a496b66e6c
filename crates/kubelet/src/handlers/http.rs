//! One HTTP request, as probes and hooks make it.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::HTTPGetAction;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::WebPkiSupportedAlgorithms;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::{Outcome, connect, joined};

pub(super) async fn get(host: &str, port: u16, action: &HTTPGetAction, timeout: Duration) -> Outcome {
    let scheme = action.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let path = action.path.as_deref().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let address = joined(host, port);
    let url = format!("{scheme}://{address}{path}");
    let request = request(&address, &path, action)?;
    let ask = async {
        let stream = connect(host, port, timeout).await?;
        if scheme != "https" {
            return exchange(stream, request).await;
        }
        let connector = TlsConnector::from(Arc::new(trusting()?));
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        exchange(connector.connect(name, stream).await.map_err(|error| error.to_string())?, request).await
    };
    let code = match tokio::time::timeout(timeout, ask).await {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => return Err(format!("Get {url:?}: {error}")),
        Err(_) => {
            let cause = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            return Err(format!("Get {url:?}: {cause}"));
        }
    };
    match (200..400).contains(&code.as_u16()) {
        true => Ok(()),
        false => Err(format!("HTTP probe failed with statuscode: {}", code.as_u16())),
    }
}

fn request(address: &str, path: &str, action: &HTTPGetAction) -> Result<Request<Empty<Bytes>>, String> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.parse().map_err(|error| format!("the path {path:?}: {error}"))?;
    let headers = request.headers_mut();
    headers.insert(HOST, value(address)?);
    headers.insert(USER_AGENT, HeaderValue::from_static("kube-probe/1.36"));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for header in action.http_headers.iter().flatten() {
        let name: HeaderName = header.name.parse().map_err(|error| format!("header {:?}: {error}", header.name))?;
        headers.insert(name, value(&header.value)?);
    }
    Ok(request)
}

fn value(text: &str) -> Result<HeaderValue, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<StatusCode, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answer = sender.send_request(request);
    tokio::pin!(connection, answer);
    // The connection moves only while it is polled, and ends with this function.
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error),
        },
    };
    answer.map(|answer| answer.status()).map_err(|error| error.to_string())
}

/// A probe asks whether a server is well, not who it is.
fn trusting() -> Result<ClientConfig, String> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let verifier = Arc::new(Anyone(algorithms));
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
