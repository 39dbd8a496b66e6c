//! An HTTPS server whose behaviour is chosen by the path.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::nodes::Duplex;
use crate::nodes::network::Network;

type Seen = Arc<Mutex<Vec<(String, Value)>>>;

pub(crate) struct Hooks {
    pub(crate) port: u16,
    /// Whose certificates it shows, as PEM.
    pub(crate) authority: String,
    seen: Seen,
}

impl Hooks {
    pub(crate) async fn start(names: &[&str]) -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = parameters.self_signed(&key).unwrap();
        let issuer = Issuer::new(parameters, key);
        let own_key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        let own = own.signed_by(&own_key, &issuer).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hooks =
            Hooks { port: listener.local_addr().unwrap().port(), authority: authority.pem(), seen: Seen::default() };
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), hooks.seen.clone()));
        hooks
    }

    /// Paths and reviews, in the order in which they came.
    pub(crate) fn seen(&self) -> Vec<(String, Value)> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, seen: Seen) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, seen) = (tls.clone(), seen.clone());
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, seen.clone()));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, seen: Seen) -> Result<Response<Full<Bytes>>, io::Error> {
    let path = request.uri().path().trim_matches('/').to_owned();
    let login = request.headers().get("authorization").cloned();
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    seen.lock().unwrap().push((path.clone(), review.clone()));
    if path.starts_with("convert") {
        return Ok(Response::new(Full::from(converted(&path, &review["request"]).to_string())));
    }
    let request = &review["request"];
    let mut response = json!({"uid": request["uid"], "allowed": true});
    let patch = |operations: &str| json!({"uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations)});
    let add = |path: &str, value: Value| patch(&json!([{"op": "add", "path": path, "value": value}]).to_string());
    let count =
        request["object"]["data"].as_object().map_or(0, |data| data.keys().filter(|key| *key != "count").count());
    let raw = |code: u16, text: &'static str| {
        Response::builder()
            .status(code)
            .header("location", "https://127.0.0.1:1/allow")
            .header("content-type", "text/plain")
            .body(Full::from(text))
    };
    match path.as_str() {
        "deny" => response = json!({"uid": request["uid"], "status": {"message": "because I say so"}}),
        "login" if login.is_none_or(|login| login != "Bearer known") => {
            response = json!({"uid": request["uid"], "status": {"message": "who are you?"}});
        }
        "deny-422" => response = json!({"uid": request["uid"], "status": {"code": 422, "message": "not like this"}}),
        "uid" => response["uid"] = "another".into(),
        "warn" => response["warnings"] = json!(["first warning", "second warning"]),
        "label" => response = add("/metadata/labels", json!({"patched": "yes"})),
        "patch" => response = add("/data/m", "1".into()),
        "count" => response = add("/data/count", count.to_string().into()),
        "patch-path" => response = patch(r#"[{"op": "remove", "path": "/nope/at/all"}]"#),
        "patch-text" => response = patch("this is no patch"),
        "patch-type" => response = add("/data", 7.into()),
        "patch-namespace" => response = add("/metadata/namespace", "default".into()),
        "patch-label" => response = add("/metadata/labels", json!({"bad label!": "x"})),
        "patch-unknown" => response = add("/unknown", 7.into()),
        "html" => return raw(200, "<html>hello</html>").map_err(io::Error::other),
        "empty" => return raw(200, "").map_err(io::Error::other),
        "500" => return raw(500, "it broke").map_err(io::Error::other),
        "redirect" => return raw(302, "").map_err(io::Error::other),
        "close" => return Err(io::Error::other("hangs up")),
        "hang" => std::future::pending().await,
        "huge" => {
            let huge = vec![b' '; crate::outbound::MAX_ANSWER_BYTES + 1];
            return Ok(Response::new(Full::from(huge)));
        }
        _ => {}
    }
    let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    if path == "no-response" {
        review["response"] = Value::Null;
    }
    Ok(Response::new(Full::from(review.to_string())))
}

/// Version v1 says `size`, v2 says `spec.size`.
fn converted(path: &str, request: &Value) -> Value {
    let wanted = request["desiredAPIVersion"].clone();
    let objects = request["objects"].as_array().into_iter().flatten().map(|object| {
        let mut object = object.clone();
        if object["apiVersion"] != wanted {
            let (flat, nested) = (object["size"].take(), object["spec"]["size"].take());
            object.as_object_mut().unwrap().retain(|key, _| !matches!(key.as_str(), "size" | "spec"));
            match wanted.as_str().is_some_and(|wanted| wanted.ends_with("/v1")) {
                true => object["size"] = nested,
                false => object["spec"] = json!({"size": flat}),
            }
        }
        object["apiVersion"] = wanted.clone();
        if path == "convert-renames" {
            object["metadata"]["name"] = "another".into();
        }
        object
    });
    let objects: Vec<Value> = if path == "convert-loses" { Vec::new() } else { objects.collect() };
    let result = match path {
        "convert-fails" => json!({"status": "Failed", "message": "cannot do that"}),
        _ => json!({"status": "Success"}),
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": request["uid"], "convertedObjects": objects, "result": result}})
}

/// A network in which every address is this machine.
pub(crate) struct Loopback;

impl Network for Loopback {
    fn connect(&self, _host: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}
