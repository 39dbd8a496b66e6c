//! An API server with a certificate of its own authority, reached through a Service of the cluster, and what it was asked.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pintle_apiserver::authn::User;
use pintle_apiserver::nodes::Duplex;
use pintle_apiserver::nodes::network::Network;
use pintle_apiserver::pki::{FrontProxy, Pki, server_tls};
use pintle_apiserver::request::Peer;
use pintle_meta::Clock;
use pintle_testkit::{Answer, Cluster};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

pub type Content = UnsyncBoxBody<Bytes, io::Error>;

pub const GROUP: &str = "things.example.com";
pub const VERSION: &str = "/apis/things.example.com/v1";
pub const SERVICE: &str = "v1.things.example.com";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// How the server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// It takes no connections.
    Down,
    /// It takes connections and says nothing.
    Silent,
    /// It takes requests and never answers.
    Hanging,
    /// Its certificate is for another name.
    Misnamed,
    /// It sends everybody elsewhere.
    Redirecting,
    /// It knows nothing.
    Ignorant,
    /// It only has what servers had years ago.
    Old,
    /// What it says about itself is not what clients can read, or about what is not its own.
    Lying,
    /// It changes the protocol though nobody asked.
    Switching,
    /// It answers a request for another protocol with a plain answer.
    Refusing,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: HeaderMap,
    pub body: String,
    /// A certificate of the authority of front proxies was shown.
    pub is_certified: bool,
}

impl Seen {
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
    }
}

/// Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Other(Arc<Inner>);

struct Inner {
    mood: Mutex<Mood>,
    seen: Mutex<Vec<Seen>>,
    named: TlsAcceptor,
    misnamed: TlsAcceptor,
    ca_pem: String,
}

impl Other {
    pub fn new(front_proxy: &FrontProxy) -> Self {
        let now = Clock::system().now();
        let pki = Pki::generate(now).unwrap();
        let acceptor = |name: &str| {
            let identity = pki.serving(name, &[], now).unwrap();
            TlsAcceptor::from(server_tls(&identity, &front_proxy.ca_pem, &[b"http/1.1"]).unwrap())
        };
        Other(Arc::new(Inner {
            mood: Mutex::new(Mood::Well),
            seen: Mutex::default(),
            named: acceptor("things.default.svc"),
            misnamed: acceptor("elsewhere.default.svc"),
            ca_pem: pki.ca_pem.clone(),
        }))
    }

    pub fn is(&self, mood: Mood) {
        *self.0.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    fn mood(&self) -> Mood {
        *self.0.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests that came since somebody last asked.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn serve(self, stream: tokio::io::DuplexStream) {
        let mood = self.mood();
        if mood == Mood::Silent {
            return std::future::pending().await;
        }
        let acceptor = if mood == Mood::Misnamed { &self.0.misnamed } else { &self.0.named };
        // Who does not trust it goes away.
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let is_certified = stream.get_ref().1.peer_certificates().is_some();
        let service = service_fn(|request| self.answer(request, mood, is_certified));
        let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        _ = serving.with_upgrades().await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        since: Mood,
        is_certified: bool,
    ) -> io::Result<Response<Content>> {
        let mut request = request;
        let mood = self.mood();
        if matches!(mood, Mood::Down | Mood::Silent | Mood::Misnamed) && mood != since {
            // Connections of better times end.
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let upgrade = (request.uri().path().ends_with("/talk") || mood == Mood::Switching)
            .then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();
        let streams = head.uri.path().ends_with("/echo");
        let (body, text) = match streams {
            true => (Some(body), String::new()),
            false => {
                let whole = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                (None, String::from_utf8_lossy(&whole).into_owned())
            }
        };
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).push(Seen {
            method: head.method.to_string(),
            target: head.uri.to_string(),
            headers: head.headers.clone(),
            body: text,
            is_certified,
        });
        Ok(match (mood, head.uri.path()) {
            (Mood::Hanging, _) => std::future::pending().await,
            (Mood::Redirecting, _) => {
                let elsewhere = Response::builder().status(302).header(header::LOCATION, "https://169.254.169.254/");
                elsewhere.body(full("go away")).unwrap()
            }
            (Mood::Ignorant, _) => with(404, "text/plain", "nothing here"),
            (Mood::Switching, _) => switched(upgrade),
            (Mood::Refusing, path) if path.ends_with("/talk") => with(200, "text/plain", "let us not"),
            (Mood::Old, "/apis" | "/openapi/v3") => with(404, "text/plain", "what?"),
            (Mood::Lying, "/apis") => with(
                200,
                AGGREGATED,
                r#"{"items": [{"metadata": {"name": "things.example.com"},
                "versions": [{"version": "v1", "resources": [{"resource": {"no": "string"}}]}]}]}"#,
            ),
            (mood, path) => match body {
                Some(body) => Response::new(body.map_err(io::Error::other).boxed_unsync()),
                None => well(mood, path, head.uri.query().unwrap_or_default(), upgrade),
            },
        })
    }
}

fn well(mood: Mood, path: &str, query: &str, upgrade: Option<hyper::upgrade::OnUpgrade>) -> Response<Content> {
    let kind = json!({"group": GROUP, "version": "v1", "kind": "Thing"});
    let resource = json!({"resource": "things", "responseKind": kind, "scope": "Namespaced", "singularResource": "thing",
        "verbs": ["get", "list"], "shortNames": ["th"]});
    let document = match path {
        "/apis" => {
            let list = json!({"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList", "items": [
                {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [resource]}]},
                {"metadata": {"name": GROUP}, "versions": [
                    {"version": "v1", "resources": [resource], "freshness": "Current"}]}]});
            return with(200, AGGREGATED, &list.to_string());
        }
        VERSION => {
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"), "resources": [
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"]}]})
        }
        "/openapi/v3" => {
            let own = if mood == Mood::Lying {
                "https://evil.example.com/"
            } else {
                "/openapi/v3/apis/things.example.com/v1?hash=AB12"
            };
            json!({"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=EVIL"},
                "apis/things.example.com/v1": {"serverRelativeURL": own}}})
        }
        "/openapi/v3/apis/things.example.com/v1" => json!({"openapi": "3.0.0", "info": {"title": "things"}}),
        "/openapi/v2" => json!({"swagger": "2.0", "info": {},
            "paths": {"/apis/apps/v1/deployments": {"get": {"description": "stolen"}},
                "/apis/things.example.com/v1/things": {"get": {"responses": {"200": {"description": "OK",
                    "schema": {"$ref": "#/definitions/com.example.things.Thing"}}}}}},
            "definitions": {"com.example.things.Thing": {"type": "object", "x-kubernetes-group-version-kind": [kind]},
                "io.k8s.api.core.v1.Pod": {"type": "string"}}}),
        path if path.ends_with("/talk") => return switched(upgrade),
        _ if query.contains("watch=") => {
            // One event now, another much later.
            let events = futures::stream::unfold(0, |number| async move {
                if number > 0 {
                    tokio::time::sleep(Duration::from_secs(600)).await;
                }
                let frame = http_body::Frame::data(Bytes::from(format!("event {number}\n")));
                Some((Ok(frame), number + 1))
            });
            return Response::new(StreamBody::new(events).boxed_unsync());
        }
        _ => json!({"kind": "Thing", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": "a"}}),
    };
    let mut answer = with(200, "application/json", &document.to_string());
    answer.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*".parse().unwrap());
    answer
}

/// Says every word back, louder.
fn switched(upgrade: Option<hyper::upgrade::OnUpgrade>) -> Response<Content> {
    tokio::spawn(async move {
        let Some(Ok(connection)) = (match upgrade {
            Some(upgrade) => Some(upgrade.await),
            None => None,
        }) else {
            return;
        };
        let (mut connection, mut word) = (TokioIo::new(connection), [0; 4]);
        if connection.read_exact(&mut word).await.is_ok() {
            _ = connection.write_all(&word.map(|byte| byte.to_ascii_uppercase())).await;
        }
    });
    let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    answer.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "loud").body(full("")).unwrap()
}

pub fn full(text: &str) -> Content {
    Full::new(Bytes::from(text.to_owned())).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn with(code: u16, media: &str, text: &str) -> Response<Content> {
    Response::builder().status(code).header(header::CONTENT_TYPE, media).body(full(text)).unwrap()
}

impl Network for Other {
    fn connect(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        let other = self.clone();
        Box::pin(async move {
            assert_eq!((host.as_str(), port), ("10.1.2.3", 8443), "only endpoints are connected to");
            if other.mood() == Mood::Down {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tokio::spawn(other.serve(theirs));
            Ok(Box::new(ours) as Box<dyn Duplex>)
        })
    }
}

/// A cluster with the server behind it.
pub struct World {
    pub cluster: Cluster,
    pub other: Other,
}

impl World {
    /// The server is registered, and nothing was asked yet but by the cluster itself.
    pub async fn new(mood: Mood) -> Self {
        let world = World::unregistered().await;
        world.other.is(mood);
        world.serve().await;
        world.register(json!({})).await;
        world.other.seen();
        world
    }

    pub async fn unregistered() -> Self {
        let cluster = Cluster::bare().await;
        let now = Clock::system().now();
        let front_proxy = FrontProxy::generate(now).unwrap();
        cluster.server.front_proxy.set(front_proxy.client(now).unwrap());
        let other = Other::new(&front_proxy);
        cluster.server.registry.outbound.set_network(Arc::new(other.clone()));
        World { cluster, other }
    }

    /// Its Service, and the endpoints of that.
    pub async fn serve(&self) {
        self.cluster
            .apply(
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "things", "namespace": "default"},
                "spec": {"clusterIP": "10.96.0.50", "ports": [{"name": "https", "port": 443}]}}),
            )
            .await;
        self.cluster
            .apply(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": "things-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "things"}},
                "ports": [{"name": "https", "port": 8443}],
                "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": true}}]}))
            .await;
    }

    /// Its APIService, and all that follows.
    pub async fn register(&self, spec: Value) {
        use base64::Engine;
        let bundle = base64::prelude::BASE64_STANDARD.encode(&self.other.0.ca_pem);
        let mut service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": SERVICE}, "spec": {"group": GROUP, "version": "v1", "groupPriorityMinimum": 2000,
                "versionPriority": 10, "caBundle": bundle, "service": {"name": "things", "namespace": "default"}}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            service["spec"][key] = value.clone();
        }
        self.cluster.apply(service).await;
        // As long as a server may take to say what it serves, several times.
        tokio::time::sleep(Duration::from_secs(40)).await;
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.cluster.request("GET", path, "", "").await
    }

    /// As somebody who is not an administrator, with headers.
    pub async fn get_as(&self, user: User, headers: &[(&'static str, &str)], path: &str) -> Answer {
        self.cluster.request_as(Peer::Internal(user.into()), headers, "GET", path, "", "").await
    }

    /// The condition of its APIService: status, reason, message.
    pub async fn condition(&self) -> (String, String, String) {
        let service = self.get(&format!("/apis/apiregistration.k8s.io/v1/apiservices/{SERVICE}")).await.body;
        let condition = &service["status"]["conditions"][0];
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }
}
