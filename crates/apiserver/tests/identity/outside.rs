//! The world outside of an API server: programs with TLS certificates, and a server that reaches them.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pintle_apiserver::access::Access;
use pintle_apiserver::authn::config::{Accounts, Authentication, TokenWebhook};
use pintle_apiserver::authz::config::{Authorization, Mode, WebhookConfig};
use pintle_apiserver::nodes::Duplex;
use pintle_apiserver::nodes::network::Network;
use pintle_apiserver::outbound::{Endpoint, Trust};
use pintle_apiserver::pki::{Pki, TokenKey};
use pintle_apiserver::request::{Peer, Request as ApiRequest};
use pintle_apiserver::{ApiServer, Pace, Parts};
use pintle_meta::{Clock, Random};
use pintle_store::MemoryStore;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// The issuer of service account tokens, and so the audience of tokens.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// What a program does with a request.
pub enum Reply {
    Json(Value),
    Code(u16, &'static str),
    Headers(u16, Vec<(&'static str, String)>),
    Text(String),
    Later(Duration, Box<Reply>),
    Hangs,
    /// Ends the connection without an answer.
    Breaks,
}

/// What a program was asked: the path, and the body as JSON.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

type Behaviour = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// A program under a name.
#[derive(Clone)]
pub struct Program {
    behaviour: Behaviour,
    asked: Arc<Mutex<Vec<Asked>>>,
    tls: TlsAcceptor,
}

impl Program {
    /// What it was asked since the last look.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    async fn answer(self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let asked = Asked { path: head.uri.to_string(), headers: head.headers, body };
        self.asked.lock().unwrap().push(asked.clone());
        let mut reply = (self.behaviour)(&asked);
        loop {
            let (code, headers, text) = match reply {
                Reply::Json(value) => (200, vec![("content-type", "application/json".to_owned())], value.to_string()),
                Reply::Code(code, text) => {
                    (code, vec![("content-type", "application/json".to_owned())], text.to_owned())
                }
                Reply::Headers(code, headers) => (code, headers, String::new()),
                Reply::Text(text) => (200, Vec::new(), text),
                Reply::Later(wait, then) => {
                    tokio::time::sleep(wait).await;
                    reply = *then;
                    continue;
                }
                Reply::Hangs => std::future::pending().await,
                Reply::Breaks => return Err(io::Error::other("as asked")),
            };
            let builder = headers.iter().fold(Response::builder().status(code), |b, (k, v)| b.header(*k, v));
            return Ok(builder.body(Full::new(text.into())).unwrap());
        }
    }
}

/// Programs by their names. Everything else cannot be reached.
#[derive(Clone)]
pub struct Outside {
    pub pki: Arc<Pki>,
    programs: Arc<Mutex<HashMap<String, Program>>>,
}

impl Outside {
    pub fn new() -> Self {
        let pki = Arc::new(Pki::generate(Clock::system().now()).unwrap());
        Outside { pki, programs: Arc::default() }
    }

    pub fn run(&self, name: &str, behaviour: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Program {
        self.run_as(name, name, behaviour)
    }

    /// A program whose certificate is for another name.
    pub fn run_as(
        &self,
        name: &str,
        certified: &str,
        behaviour: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Program {
        let tls = self.pki.node_tls(certified, &[], Clock::system().now()).unwrap();
        let program = Program { behaviour: Arc::new(behaviour), asked: Arc::default(), tls: TlsAcceptor::from(tls) };
        self.programs.lock().unwrap().insert(name.to_owned(), program.clone());
        program
    }

    pub fn trust(&self) -> Trust {
        Trust::of_bundle(self.pki.ca_pem.as_bytes(), None).unwrap()
    }

    pub fn endpoint(&self, url: &str) -> Endpoint {
        Endpoint::of_url(url, self.trust()).unwrap()
    }

    /// The token reviewer at this URL, as it is configured by flags.
    pub fn reviewer(&self, url: &str) -> Authentication {
        let webhook =
            TokenWebhook { endpoint: self.endpoint(url), version: "v1".to_owned(), ttl: Duration::from_secs(120) };
        Authentication { webhook: Some(webhook), ..accounts() }
    }

    pub fn authorizer(&self, url: &str) -> WebhookConfig {
        WebhookConfig {
            name: "hook".to_owned(),
            endpoint: self.endpoint(url),
            version: "v1".to_owned(),
            timeout: Duration::from_secs(3),
            authorized_ttl: Duration::from_secs(300),
            unauthorized_ttl: Duration::from_secs(30),
            denies_on_failure: false,
        }
    }
}

/// An authentication that knows service account tokens alone, for this issuer.
pub fn accounts() -> Authentication {
    let accounts = Accounts { issuers: vec![ISSUER.to_owned()], ..Accounts::default() };
    Authentication { accounts, ..Authentication::default() }
}

impl Network for Outside {
    fn connect(&self, host: String, _: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        let programs = self.programs.clone();
        let program = programs.lock().unwrap().get(&host).cloned();
        Box::pin(async move {
            let program = program.ok_or(io::ErrorKind::ConnectionRefused)?;
            let (near, far) = tokio::io::duplex(64 * 1024);
            tokio::spawn(async move {
                let Ok(stream) = program.tls.clone().accept(far).await else { return };
                // What runs under the name now, also over a connection that is older.
                let service = service_fn(move |request| programs.lock().unwrap()[&host].clone().answer(request));
                let connection = hyper::server::conn::http1::Builder::new();
                // A program that breaks its connections ends so.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
            Ok(Box::new(near) as Box<dyn Duplex>)
        })
    }
}

/// An API server that knows its users with the help of programs outside.
pub struct World {
    pub server: ApiServer,
    store: Arc<MemoryStore>,
    pub clock: Clock,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub text: String,
}

impl Answer {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or(&self.text)
    }
}

/// Making a key takes long; one is enough.
fn token_key() -> TokenKey {
    static KEY: std::sync::OnceLock<TokenKey> = std::sync::OnceLock::new();
    KEY.get_or_init(|| TokenKey::generate().unwrap()).clone()
}

impl World {
    pub async fn new(outside: &Outside, authentication: Authentication, authorization: Authorization) -> Self {
        let clock = Clock::virtual_from(Clock::system().now());
        World::with(outside, Access { authentication, authorization }, Arc::new(MemoryStore::new()), clock).await
    }

    /// One over the store of another: the same cluster, configured anew.
    pub async fn over(outside: &Outside, authentication: Authentication, before: &World) -> Self {
        let authorization = Authorization { chain: vec![Mode::AlwaysAllow] };
        let access = Access { authentication, authorization };
        World::with(outside, access, before.store.clone(), before.clock.clone()).await
    }

    async fn with(outside: &Outside, access: Access, store: Arc<MemoryStore>, clock: Clock) -> Self {
        let parts = Parts {
            store: store.clone(),
            clock: clock.clone(),
            random: Random::seeded(1),
            token_key: token_key(),
            pace: Pace::default(),
            seats: 600,
        };
        let server = ApiServer::start_with(parts, access).await.unwrap();
        server.registry.outbound.set_network(Arc::new(outside.clone()));
        World { server, store, clock }
    }

    /// One in which everybody who is known may do everything.
    pub async fn open(outside: &Outside, authentication: Authentication) -> Self {
        World::new(outside, authentication, Authorization { chain: vec![Mode::AlwaysAllow] }).await
    }

    pub async fn send(&self, peer: Peer, method: &str, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::from_bytes(method.as_bytes()).unwrap();
        head.uri = path.parse::<Uri>().unwrap();
        for (name, value) in headers {
            head.headers.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        if !body.is_empty() {
            head.headers.entry("content-type").or_insert("application/json".parse().unwrap());
        }
        let (head, body) = self.server.handle(ApiRequest::new(head, body, peer)).await.into_parts();
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { code: head.status.as_u16(), body: serde_json::from_slice(&bytes).unwrap_or_default(), text }
    }

    /// A request with a token.
    pub async fn get(&self, path: &str, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = if token.is_empty() { Vec::new() } else { vec![("authorization", bearer.as_str())] };
        self.send(Peer::Unknown, "GET", path, &headers, Value::Null).await
    }

    /// A request of the administrator, from this process.
    pub async fn admin(&self, method: &str, path: &str, body: Value) -> Answer {
        let admin = pintle_apiserver::authn::User::internal("admin");
        self.send(Peer::Internal(Arc::new(admin)), method, path, &[], body).await
    }

    /// Whose a token is: the user, or the code of the refusal.
    pub async fn who(&self, token: &str) -> Result<Value, u16> {
        let bearer = format!("Bearer {token}");
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = self.send(Peer::Unknown, "POST", path, &[("authorization", &bearer)], json!({})).await;
        if answer.code == 201 { Ok(answer.body["status"]["userInfo"].clone()) } else { Err(answer.code) }
    }
}
