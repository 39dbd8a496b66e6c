//! One HTTP request, as probes and hooks make it.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
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

/// As many as Go's client follows.
const REDIRECTS: usize = 10;

/// Where one request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    https: bool,
    host: String,
    port: u16,
    path: String,
}

pub(super) async fn get(host: &str, port: u16, action: &HTTPGetAction, timeout: Duration) -> Outcome {
    let path = action.path.as_deref().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let https = action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let mut target = Target { https, host: host.to_owned(), port, path };
    let url = target.url();
    let follow = async {
        for _ in 0..=REDIRECTS {
            let (code, next) = ask(&target, action, timeout).await?;
            match next.and_then(|next| target.redirected(&next)) {
                // Whoever is sent elsewhere was answered by someone who is well.
                Some(next) if code.is_redirection() && next.host == target.host => target = next,
                _ => return Ok(code),
            }
        }
        Err(format!("stopped after {REDIRECTS} redirects"))
    };
    let code = match tokio::time::timeout(timeout, follow).await {
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

impl Target {
    fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}{}", joined(&self.host, self.port), self.path)
    }

    /// Where a `Location` of its answer leads; nothing if that cannot be read.
    fn redirected(&self, location: &str) -> Option<Target> {
        let location = location.split('#').next().unwrap_or_default();
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(Target { path: location.to_owned(), ..self.clone() });
        }
        let absolute = match location.strip_prefix("//") {
            Some(rest) => format!("{}://{rest}", if self.https { "https" } else { "http" }),
            None => location.to_owned(),
        };
        if !absolute.contains("://") {
            let path = self.path.split('?').next().unwrap_or_default();
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            return Some(Target { path: format!("{directory}/{location}"), ..self.clone() });
        }
        let uri: Uri = absolute.parse().ok()?;
        let https = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Some(Target { https, host, port, path })
    }
}

/// One answer: its code, and where it leads.
async fn ask(
    target: &Target,
    action: &HTTPGetAction,
    timeout: Duration,
) -> Result<(StatusCode, Option<String>), String> {
    let request = request(target, action)?;
    let stream = connect(&target.host, target.port, timeout).await?;
    if !target.https {
        return exchange(stream, request).await;
    }
    let connector = TlsConnector::from(Arc::new(trusting()?));
    let name = ServerName::try_from(target.host.clone()).map_err(|error| error.to_string())?;
    exchange(connector.connect(name, stream).await.map_err(|error| error.to_string())?, request).await
}

fn request(target: &Target, action: &HTTPGetAction) -> Result<Request<Empty<Bytes>>, String> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::GET;
    let path = &target.path;
    *request.uri_mut() = path.parse().map_err(|error| format!("the path {path:?}: {error}"))?;
    let headers = request.headers_mut();
    headers.insert(HOST, value(&joined(&target.host, target.port))?);
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

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<(StatusCode, Option<String>), String>
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
    let answer = answer.map_err(|error| error.to_string())?;
    let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    Ok((answer.status(), location.map(str::to_owned)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_where_a_browser_would_go() {
        let at = |url: &str| {
            let start = Target { https: false, host: "10.0.0.1".into(), port: 8080, path: "/a/b?c".into() };
            start.redirected(url).map(|target| target.url())
        };
        for (location, expected) in [
            ("/x?y=1#z", Some("http://10.0.0.1:8080/x?y=1")),
            ("x", Some("http://10.0.0.1:8080/a/x")),
            ("http://10.0.0.1/x", Some("http://10.0.0.1:80/x")),
            ("https://10.0.0.1:8443", Some("https://10.0.0.1:8443/")),
            ("//example.com/x", Some("http://example.com:80/x")),
            ("https://[::1]:1/", Some("https://[::1]:1/")),
            ("ftp://example.com/", None),
        ] {
            assert_eq!(at(location).as_deref(), expected, "{location}");
        }
    }
}
