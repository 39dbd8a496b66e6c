//! A client that trusts the bundle asks over TLS; certificates live through years of virtual time; replicas race.

use std::sync::Mutex;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use pintle_meta::{Clock, Random};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::certificates::Identity;
use super::*;
use crate::shutdown::{Shutdown, Trigger};
use crate::testing::scripted;

const SERVICE: &str = "hook.at-system.svc";

/// One Secret, changed by compare-and-set as the API server does it.
#[derive(Clone, Default)]
struct OneSecret(Arc<Mutex<(Option<Value>, Vec<String>)>>);

impl OneSecret {
    fn client(&self) -> Client {
        let state = self.0.clone();
        scripted(move |method, path, body| {
            let (secret, log) = &mut *state.lock().unwrap();
            assert!(path.starts_with("/api/v1/namespaces/at-system/secrets"), "{path}");
            let refused = |code: u16, reason: &str| {
                (code, json!({"code": code, "reason": reason, "message": "", "status": "Failure"}))
            };
            let version = secret.as_ref().map(|s| s["metadata"]["resourceVersion"].clone());
            let (code, answer) = match (method, &secret) {
                ("GET", Some(secret)) => (200, (*secret).clone()),
                ("GET" | "PUT", None) => refused(404, "NotFound"),
                ("POST", Some(_)) => refused(409, "AlreadyExists"),
                ("PUT", Some(_)) if version.as_ref() != Some(&body["metadata"]["resourceVersion"]) => {
                    refused(409, "Conflict")
                }
                _ => {
                    let mut stored = body;
                    stored["metadata"]["resourceVersion"] = (log.len() + 1).to_string().into();
                    *secret = Some(stored.clone());
                    (201, stored)
                }
            };
            log.push(format!("{method} {code}"));
            (code, answer)
        })
    }

    fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().1.iter().filter(|line| *line == what).count()
    }

    fn bundle(&self) -> Option<String> {
        let secret: Secret = serde_json::from_value(self.0.lock().unwrap().0.clone()?).unwrap();
        String::from_utf8(secret.data?.get("ca.crt")?.0.clone()).ok()
    }
}

fn keeper(secret: &OneSecret, clock: &Clock, days: u16) -> Keeper {
    let issue = Issue { names: vec![SERVICE.to_owned()], days };
    Keeper { api: Api::namespaced(secret.client(), "at-system"), name: "tls".into(), issue, clock: clock.clone() }
}

fn roots(bundle: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    roots
}

/// Whether a client that trusts the bundle would go on with the handshake.
fn trusts(bundle: &str, identity: &Identity, now: Timestamp) -> bool {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(bundle)), provider).build().unwrap();
    let leaf = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let name = ServerName::try_from(SERVICE).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().unwrap()));
    verifier.verify_server_cert(&leaf, &[], &name, &[], now).is_ok()
}

#[tokio::test(start_paused = true)]
async fn through_months_of_renewals_no_connection_fails_even_with_yesterdays_bundle() {
    let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
    let secret = OneSecret::default();
    let (mut bundles, mut certificates): (Vec<String>, Vec<Identity>) = Default::default();
    let keeper = keeper(&secret, &clock, 6);
    for day in 0..150 {
        let (identity, rest) = keeper.identity().await.unwrap();
        let now = clock.now();
        assert!(rest > Duration::ZERO, "day {day}");
        assert!(trusts(&identity.bundle, &identity, now), "day {day}");
        if let Some(yesterday) = bundles.last() {
            assert!(
                trusts(yesterday, &identity, now),
                "day {day}: the API server has not heard of the new authority yet"
            );
        }
        // A replica that looks a day later still shows the certificate of before.
        if let Some(before) = certificates.last() {
            assert!(trusts(&identity.bundle, before, now), "day {day}: another replica is slow");
        }
        bundles.push(identity.bundle.clone());
        certificates.push(identity);
        tokio::time::advance(Duration::from_secs(86_400)).await;
    }
    let (mut authorities, mut shown) = (bundles, certificates.into_iter().map(|c| c.certificate).collect::<Vec<_>>());
    authorities.dedup();
    shown.dedup();
    assert!(authorities.len() >= 4 && shown.len() >= 25, "{} and {}", authorities.len(), shown.len());
    assert!(authorities.iter().skip(1).all(|bundle| roots(bundle).len() == 2), "the old and the new overlap");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_that_begin_at_once_one_writes_and_both_show_the_same() {
    let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
    let secret = OneSecret::default();
    let (one, two) = (keeper(&secret, &clock, 90), keeper(&secret, &clock, 90));
    let (first, second) = futures::join!(one.identity(), two.identity());
    assert!(first.unwrap().0 == second.unwrap().0);
    assert_eq!((secret.count("POST 201"), secret.count("POST 409")), (1, 1), "both were in the race");
    // And at the renewal.
    tokio::time::advance(Duration::from_secs(61 * 86_400)).await;
    let (first, second) = futures::join!(one.identity(), two.identity());
    assert!(first.unwrap().0 == second.unwrap().0);
    assert_eq!((secret.count("PUT 201"), secret.count("PUT 409")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_somebody_spoiled_is_made_anew() {
    let clock = Clock::virtual_from(Timestamp::from_second(1_800_000_000).unwrap());
    let secret = OneSecret::default();
    let keeper = keeper(&secret, &clock, 90);
    let before = keeper.identity().await.unwrap().0;
    secret.0.lock().unwrap().0.as_mut().unwrap()["data"]["tls.key"] = "bm8ga2V5".into();
    let after = keeper.identity().await.unwrap().0;
    assert!(before != after && trusts(&after.bundle, &after, clock.now()));
}

/// A server on a free port that a client can already talk to.
async fn start() -> (Trigger, OneSecret, std::net::SocketAddr, tokio::task::JoinHandle<Result<(), WebhookError>>) {
    let (secret, (trigger, shutdown)) = (OneSecret::default(), Shutdown::new());
    let context = Context::new(secret.client(), Clock::system(), Random::seeded(1), shutdown);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = WebhookServer::new(&context, WebhookConfig::new("at-system", "hook", "tls"))
        .mutating("/mutate", |request: Request<ConfigMap>| async move {
            let Some(mut map) = request.object else { return Mutation::unchanged() };
            map.metadata.labels.get_or_insert_default().insert("seen-by".into(), request.user_info.username);
            Mutation::to(map).warn("it was labelled")
        })
        .validating("/validate", |request: Request<ConfigMap>| async move {
            match request.object.and_then(|map| map.data) {
                Some(data) if data.contains_key("bad") => Verdict::deny("data.bad must not be set"),
                _ => Verdict::allow().warn("be careful"),
            }
        })
        .validating("/panic", |_: Request<ConfigMap>| async move { panic!("on purpose") });
    let serving = tokio::spawn(server.serve_on(listener));
    for _ in 0..500 {
        if secret.bundle().is_some() && ask(&secret, address, "GET", "/", "").await.is_some() {
            return (trigger, secret, address, serving);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server does not come up");
}

/// The code and the body; none when the handshake fails.
async fn ask(
    secret: &OneSecret,
    address: std::net::SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, String)> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(&secret.bundle()?))
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.ok()?;
    let mut stream = connector.connect(ServerName::try_from(SERVICE).unwrap(), stream).await.ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {SERVICE}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let code = answer.split(' ').nth(1)?.parse().ok()?;
    Some((code, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

fn review(data: Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "namespace": "default", "name": "m",
        "userInfo": {"username": "jane", "groups": ["a"]}, "oldObject": null, "dryRun": false,
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data, "newField": {"x": 1}}}})
    .to_string()
}

#[tokio::test]
async fn the_api_server_hears_what_to_change_and_what_to_refuse() {
    let (trigger, secret, address, serving) = start().await;
    let (code, body) = ask(&secret, address, "POST", "/mutate", &review(json!({"a": "b"}))).await.unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (code, &answer["apiVersion"], &answer["kind"]),
        (200, &json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    let response = &answer["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(true)));
    assert_eq!((&response["patchType"], &response["warnings"]), (&json!("JSONPatch"), &json!(["it was labelled"])));
    use base64::Engine;
    let patch = base64::prelude::BASE64_STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    // What the type does not know (newField) is not in it.
    assert_eq!(patch, json!([{"op": "add", "path": "/metadata/labels", "value": {"seen-by": "jane"}}]));

    let (_, body) = ask(&secret, address, "POST", "/validate", &review(json!({"bad": "x"}))).await.unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        answer["response"],
        json!({"uid": "u-1", "allowed": false, "status": {"code": 403, "message": "data.bad must not be set"}})
    );
    let (_, body) = ask(&secret, address, "POST", "/validate", &review(json!({}))).await.unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["response"], json!({"uid": "u-1", "allowed": true, "warnings": ["be careful"]}));
    trigger.fire();
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "it listens no longer");
}

#[tokio::test]
async fn nonsense_and_a_panic_are_answered_and_the_server_goes_on() {
    let (_trigger, secret, address, _serving) = start().await;
    let old = review(json!({})).replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
    let mistyped = review(json!({"a": 7}));
    for (method, path, body, code, said) in [
        ("POST", "/validate", "", 400, "the body is no AdmissionReview"),
        ("POST", "/validate", "{}", 400, "missing field"),
        ("POST", "/validate", old.as_str(), 400, "admission.k8s.io/v1beta1"),
        // The API server tells the user, as of any refusal.
        ("POST", "/mutate", mistyped.as_str(), 200, "invalid type: integer"),
        ("GET", "/validate", "", 405, "by POST"),
        ("POST", "/nowhere", "", 404, "no webhook answers at /nowhere"),
        ("POST", "/panic", review(json!({})).as_str(), 500, "the webhook has a bug"),
        ("POST", "/validate", review(json!({})).as_str(), 200, "u-1"),
    ] {
        let (got, body) = ask(&secret, address, method, path, body).await.unwrap();
        assert!(got == code && body.contains(said), "{method} {path}: {got} {body}");
    }
    let large = "x".repeat((8 << 20) + 1);
    // The server may hang up before all of it is sent.
    let answer = ask(&secret, address, "POST", "/validate", &large).await;
    assert!(answer.is_none_or(|(code, _)| code == 400));
    assert_eq!(ask(&secret, address, "POST", "/validate", &review(json!({}))).await.unwrap().0, 200);
}
