//! Connections to scheduler extenders: certificates are judged as the API server judges those of webhooks.
//!
//! `kube` judges as `rustls` does, which accepts no authority's certificate as a server's own; `openssl req -x509` makes such
//! certificates, and Go accepts them if they are the ones that are configured.

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use pintle_apiserver::outbound::accepting;
use rustls::pki_types::{CertificateDer, ServerName};
use tower::ServiceBuilder;

pub(super) fn dial(config: Config) -> Result<Client, String> {
    let Some(roots) = config.root_cert.clone().filter(|_| !config.accept_invalid_certs) else {
        return Client::try_from(config).map_err(|error| error.to_string());
    };
    let mut tls = config.rustls_client_config().map_err(|error| error.to_string())?;
    tls.dangerous().set_certificate_verifier(accepting(roots.into_iter().map(CertificateDer::from).collect()));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(|error| format!("{name:?}: {error}"))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let connector = builder.enable_http1().wrap_connector(http);
    let service = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let layered = ServiceBuilder::new().layer(config.base_uri_layer()).service(service);
    Ok(Client::new(layered, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use http::Request;
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// A certificate that is its own authority, as `openssl req -x509` makes them, for these names.
    fn self_signed(names: &[&str]) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = rcgen::CertificateParams::new(names).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    /// A server that shows this certificate and answers everything with `{}`.
    async fn server((certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>)) -> SocketAddr {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let (acceptor, listener) =
            (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(socket).await else { continue };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
                let _ = stream.shutdown().await;
            }
        });
        address
    }

    async fn asks(address: SocketAddr, root: &CertificateDer<'_>, name: Option<&str>) -> bool {
        let mut config = Config::new(format!("https://{address}").parse().unwrap());
        config.root_cert = Some(vec![root.to_vec()]);
        config.tls_server_name = name.map(str::to_owned);
        let client = dial(config).unwrap();
        client.send(Request::get("/filter").body(Body::empty()).unwrap()).await.is_ok()
    }

    #[tokio::test]
    async fn an_extender_may_show_the_very_certificate_that_is_configured_and_no_other() {
        let (own, other) = (self_signed(&["127.0.0.1", "extender.example"]), self_signed(&["127.0.0.1"]));
        let root = own.0.clone();
        let address = server(own).await;
        assert!(asks(address, &root, None).await);
        assert!(asks(address, &root, Some("extender.example")).await);
        assert!(!asks(address, &root, Some("another.example")).await, "its name still counts");
        assert!(!asks(address, &other.0, None).await, "another one of the same names");
        let elsewhere = self_signed(&["192.0.2.1"]);
        let root = elsewhere.0.clone();
        assert!(!asks(server(elsewhere).await, &root, None).await, "its address still counts");
    }
}
