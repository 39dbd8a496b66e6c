//! A custom API server beside a cluster's own: it serves what its backends serve, to users and with rights that are the
//! cluster's.
//!
//! - Whom the cluster's API server passes on, with a certificate of the front proxy's authority, is who the headers say.
//! - Whoever comes otherwise shows a client certificate of the cluster, or a token, which the cluster is asked about
//!   (TokenReview).
//! - What somebody may do the cluster is asked too (SubjectAccessReview). Answers count for ten seconds.
//!
//! `examples/notes` is one, and the guide's chapter on custom API servers builds it.

use crate::access::Access;
use crate::authn::config::{Authentication, FrontProxy, TokenWebhook};
use crate::authn::front_proxy::{FrontProxyError, Options};
use crate::authz::config::{Authorization, Mode, WebhookConfig};
use crate::backend::Backend;
use crate::outbound::{Endpoint, EndpointError, Failure, Login, Outbound, Trust};
use crate::pki::{self, Pki, PkiError};
use crate::{ApiServer, Pace, Parts, StartError, default_seats};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, header};
use pintle_meta::{Clock, Random, object};
use pintle_store::MemoryStore;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long the cluster's answers count.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the cluster says about how it passes requests on.
const PUBLISHED: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// Where a Pod finds its credentials.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A cluster, as a custom API server reaches it.
pub struct Cluster {
    endpoint: Endpoint,
    outbound: Outbound,
}

/// Why there is no custom API server.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("this is no Pod: {0} is not set")]
    NoPod(&'static str),
    #[error("the cluster cannot be asked: {0}")]
    Unreachable(#[from] Failure),
    #[error("{asked} was answered with {code}: {why}")]
    Refused { asked: String, code: u16, why: String },
    #[error(transparent)]
    FrontProxy(#[from] FrontProxyError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Cluster {
    /// The cluster and the user of a kubeconfig. The user must be able to read the ConfigMap
    /// `extension-apiserver-authentication` and to create TokenReviews and SubjectAccessReviews.
    pub fn of_kubeconfig(path: &Path) -> Result<Self, BesideError> {
        Ok(Cluster { endpoint: Endpoint::of_kubeconfig(path)?, outbound: Outbound::default() })
    }

    /// The cluster in which this process is a Pod, and its service account.
    pub fn of_pod() -> Result<Self, BesideError> {
        let set = |name| std::env::var(name).map_err(|_| BesideError::NoPod(name));
        let (host, port) = (set("KUBERNETES_SERVICE_HOST")?, set("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let path = Path::new(SERVICE_ACCOUNT).join("ca.crt");
        let bundle = std::fs::read(&path).map_err(|source| BesideError::File { path, source })?;
        let trust = Trust::of_bundle(&bundle, None).map_err(EndpointError::from)?;
        let login = Login::File(Path::new(SERVICE_ACCOUNT).join("token"));
        let endpoint = Endpoint { login, ..Endpoint::of_url(&format!("https://{host}:{port}"), trust)? };
        Ok(Cluster { endpoint, outbound: Outbound::default() })
    }

    fn at(&self, path: &str) -> Endpoint {
        Endpoint { path: path.to_owned(), ..self.endpoint.clone() }
    }

    /// Creates an APIService, or changes it so that it leads here.
    pub async fn register(&self, registration: &Value) -> Result<(), BesideError> {
        let name = object::name(registration);
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let request = Request::patch(format!("{path}?fieldManager=custom-api-server&force=true"))
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml");
        self.ask(request, registration.to_string().into()).await.map(|_| ())
    }

    /// The `data` of the ConfigMap in which the cluster says how it passes requests on.
    async fn published(&self) -> Result<Value, BesideError> {
        Ok(self.ask(Request::get(PUBLISHED), Bytes::new()).await?["data"].clone())
    }

    async fn ask(&self, request: http::request::Builder, body: Bytes) -> Result<Value, BesideError> {
        let mut request = request.header(header::ACCEPT, "application/json");
        let login = match &self.endpoint.login {
            Login::Nothing => None,
            Login::Fixed(login) => Some(login.clone()),
            Login::File(path) => {
                let token = tokio::fs::read_to_string(path).await;
                let token = token.map_err(|source| BesideError::File { path: path.clone(), source })?;
                Some(format!("Bearer {}", token.trim()))
            }
        };
        if let Some(login) = login {
            request = request.header(header::AUTHORIZATION, login);
        }
        let request = request.body(body).map_err(|error| Failure::Http(error.to_string()))?;
        let asked = request.uri().path().to_owned();
        let answer = self.outbound.ask_address(&self.endpoint.to, request, PATIENCE).await?;
        let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        if !answer.status().is_success() {
            let (code, why) = (answer.status().as_u16(), object::text(&body, &["message"]).to_owned());
            return Err(BesideError::Refused { asked, code, why });
        }
        Ok(body)
    }
}

/// The Service by which the cluster reaches a custom API server, at port 443.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub namespace: String,
    pub name: String,
}

impl FromStr for Service {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').ok_or("it must be NAMESPACE/NAME")?;
        Ok(Service { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// A custom API server.
pub struct Beside {
    pub server: ApiServer,
    /// For its listener: a certificate of an authority of its own.
    pub tls: Arc<rustls::ServerConfig>,
    /// The APIServices that make the cluster pass requests on to it, and trust its certificate.
    pub registrations: Vec<Value>,
}

impl Beside {
    /// A server that serves these backends and nothing else.
    pub async fn start(
        cluster: &Cluster,
        backends: &[Arc<dyn Backend>],
        service: &Service,
        (clock, random): (Clock, Random),
    ) -> Result<Self, BesideError> {
        let authority = Pki::generate(clock.now())?;
        let identity = authority.serving(&format!("{}.{}.svc", service.name, service.namespace), &[], clock.now())?;
        let published = cluster.published().await?;
        let options = Options::of_published(&published)?;
        let client_ca_pem = object::text(&published, &["client-ca-file"]).to_owned();
        let authorities = format!("{client_ca_pem}\n{}", options.ca_pem);
        let tls = pki::server_tls(&identity, &authorities, &[b"h2", b"http/1.1"])?;
        let reviewer = TokenWebhook {
            endpoint: cluster.at("/apis/authentication.k8s.io/v1/tokenreviews"),
            version: "v1".to_owned(),
            ttl: REMEMBERED,
        };
        let rights = WebhookConfig {
            name: "cluster".to_owned(),
            endpoint: cluster.at("/apis/authorization.k8s.io/v1/subjectaccessreviews"),
            version: "v1".to_owned(),
            timeout: PATIENCE,
            authorized_ttl: REMEMBERED,
            unauthorized_ttl: REMEMBERED,
            denies_on_failure: false,
        };
        let access = Access {
            authentication: Authentication {
                front_proxy: Some(FrontProxy { options, client_ca_pem }),
                webhook: Some(reviewer),
                ..Authentication::default()
            },
            authorization: Authorization { chain: vec![Mode::Webhook(Box::new(rights))] },
        };
        let parts = Parts {
            store: Arc::new(MemoryStore::new()),
            clock,
            random,
            // Nobody gets a token from here.
            token_key: authority.token_key.clone(),
            pace: Pace::default(),
            seats: default_seats(),
        };
        let server = ApiServer::start_with(parts, access).await?;
        server.registry.catalogue.amend(|catalogue| catalogue.only(backends)).await;
        let registrations = backends.iter().map(|backend| registration(backend.as_ref(), service, &authority.ca_pem));
        Ok(Beside { server, tls, registrations: registrations.collect() })
    }
}

fn registration(backend: &dyn Backend, service: &Service, ca_pem: &str) -> Value {
    let (group, version) = (backend.group(), backend.version());
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("{version}.{group}")},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": BASE64_STANDARD.encode(ca_pem),
            "service": {"namespace": service.namespace, "name": service.name, "port": 443}}})
}
