//! What passes to another server and back.

use crate::other::{Content, Mood, VERSION, World, full};
use bytes::Bytes;
use http::{Method, Request as Plain, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pintle_apiserver::authn::User;
use pintle_apiserver::body::Payload;
use pintle_apiserver::listener::connections::Connections;
use pintle_apiserver::request::{Peer, Request};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// A connection of a client, over which requests arrive piece by piece.
pub async fn connect(world: &World) -> SendRequest<Content> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (server, place) = (world.cluster.server.clone(), Connections::new().admit().unwrap());
    place.is_from([10, 0, 0, 99].into());
    let service = service_fn(move |mut request: Plain<Incoming>| {
        let (server, place) = (server.clone(), place.clone());
        let upgrade = request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();
        let peer = Peer::Internal(Arc::new(User::internal("admin")));
        let request = Request::new(head, Payload::Arriving(body), peer).over(place, upgrade);
        async move { Ok::<_, Infallible>(server.handle(request).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
    tokio::spawn(serving.with_upgrades());
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender
}

#[tokio::test(start_paused = true)]
async fn every_path_below_the_version_reaches_the_other_server() {
    let world = World::new(Mood::Well).await;
    for (method, path, body) in [
        ("GET", format!("{VERSION}/namespaces/a/things/b?limit=5&labelSelector=a%3Db"), ""),
        ("POST", format!("{VERSION}/namespaces/a/things"), r#"{"any": "thing"}"#),
        ("PATCH", format!("{VERSION}/namespaces/a/things/b/odd/sub/resource"), "[]"),
        ("DELETE", format!("{VERSION}/things"), ""),
        ("GET", VERSION.to_owned(), ""),
    ] {
        let answer = world.cluster.request(method, &path, "application/json", body).await;
        assert_eq!(answer.code, 200, "{method} {path}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "pages elsewhere may not read it");
        let seen = world.other.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        let expected = path.replace("limit=5&labelSelector=a%3Db", "labelSelector=a%3Db&limit=5");
        assert_eq!((seen[0].method.as_str(), &seen[0].target, seen[0].body.as_str()), (method, &expected, body));
        assert!(seen[0].is_certified);
        assert_eq!(seen[0].all("host"), ["things.default.svc:443"]);
    }
    assert_eq!(world.get("/apis/things.example.com/v2/things").await.code, 404);
    assert_eq!(world.get("/apis/things.example.com").await.body["versions"][0]["version"], "v1");
    assert!(world.other.seen().is_empty(), "what it is not registered for is not asked of it");
}

#[tokio::test(start_paused = true)]
async fn the_other_server_learns_who_the_user_is_and_acts_as() {
    let world = World::new(Mood::Well).await;
    let path = format!("{VERSION}/namespaces/a/things/b");
    let extra = BTreeMap::from([("example.com/Team".to_owned(), vec!["one".to_owned(), "two".to_owned()])]);
    let user = User { uid: "u-1".to_owned(), extra, ..User::new("ann", &["system:masters", "team"]) };
    assert_eq!(
        world.get_as(user.clone(), &[("authorization", "Basic eDp5"), ("cookie", "a=b")], &path).await.code,
        200
    );
    let seen = world.other.seen().remove(0);
    assert_eq!(seen.all("x-remote-user"), ["ann"]);
    assert_eq!(seen.all("x-remote-uid"), ["u-1"]);
    assert_eq!(seen.all("x-remote-group"), ["system:masters", "team", "system:authenticated"]);
    assert_eq!(seen.all("x-remote-extra-example.com%2fteam"), ["one", "two"]);
    assert!(seen.all("authorization").is_empty(), "credentials stay here");
    assert_eq!(seen.all("cookie"), ["a=b"]);

    let acting = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    assert_eq!(world.get_as(user, &acting, &path).await.code, 200);
    let seen = world.other.seen().remove(0);
    assert_eq!(seen.all("x-remote-user"), ["bob"]);
    assert!(seen.all("impersonate-user").is_empty() && seen.all("x-remote-uid").is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_may_not_is_refused_before_the_other_server_is_asked() {
    let world = World::new(Mood::Well).await;
    let path = format!("{VERSION}/namespaces/a/things/b");
    let refused = world.get_as(User::new("ann", &[]), &[], &path).await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().contains(r#"cannot get resource "things" in API group "things.example.com""#));
    assert!(world.other.seen().is_empty());
    for (kind, spec) in [
        (
            "ClusterRole",
            json!({"rules": [{"apiGroups": ["things.example.com"], "resources": ["things"], "verbs": ["get"]}]}),
        ),
        (
            "ClusterRoleBinding",
            json!({"subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "things", "apiGroup": "rbac.authorization.k8s.io"}}),
        ),
    ] {
        let mut object = spec;
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "things"});
        world.cluster.apply(object).await;
    }
    assert_eq!(world.get_as(User::new("ann", &[]), &[], &path).await.code, 200);
    assert_eq!(world.get_as(User::new("ann", &[]), &[], &format!("{VERSION}/things?watch=1")).await.code, 403);
    assert_eq!(world.get_as(User::new("ann", &[]), &[], VERSION).await.code, 200, "everybody may discover");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_passed_on_event_by_event_for_as_long_as_it_lasts() {
    let world = World::new(Mood::Well).await;
    let mut sender = connect(&world).await;
    let request = Plain::get(format!("{VERSION}/things?watch=true")).body(full("")).unwrap();
    let mut answer = sender.send_request(request).await.unwrap().into_body();
    for number in 0..3 {
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), format!("event {number}\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_passed_on_while_it_arrives() {
    let world = World::new(Mood::Well).await;
    let mut sender = connect(&world).await;
    let (pieces, mut body) = mpsc::channel(1);
    let body: Content = StreamBody::new(futures::stream::poll_fn(move |cx| body.poll_recv(cx))).boxed_unsync();
    let request = Plain::post(format!("{VERSION}/namespaces/a/things/b/echo")).body(body).unwrap();
    let mut answer = sender.send_request(request).await.unwrap().into_body();
    for word in ["one", "two", "three"] {
        pieces.send(Ok(http_body::Frame::data(Bytes::from(word)))).await.unwrap();
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), word, "before the next piece is sent");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_changes_its_protocol_is_handed_over() {
    let world = World::new(Mood::Well).await;
    let mut sender = connect(&world).await;
    let request = Plain::builder().method(Method::POST).uri(format!("{VERSION}/namespaces/a/things/b/talk"));
    let request = request.header("connection", "Upgrade").header("upgrade", "loud").header("x-remote-user", "root");
    let mut answer = sender.send_request(request.body(full("")).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 101);
    let mut connection = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    connection.write_all(b"word").await.unwrap();
    let mut louder = [0; 4];
    connection.read_exact(&mut louder).await.unwrap();
    assert_eq!(&louder, b"WORD");
    let seen = world.other.seen().remove(0);
    assert_eq!(seen.all("x-remote-user"), ["admin"]);
    assert_eq!((seen.all("upgrade"), seen.all("x-forwarded-for")), (vec!["loud"], vec!["10.0.0.99"]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up_in_time() {
    let world = World::new(Mood::Well).await;
    world.other.is(Mood::Hanging);
    let began = tokio::time::Instant::now();
    let answer = world.get(VERSION).await;
    assert_eq!(
        (answer.code, &*answer.bytes),
        (503, b"error trying to reach service: context deadline exceeded\n".as_slice())
    );
    assert_eq!(began.elapsed(), Duration::from_secs(5), "every client that starts asks for this");
    let began = tokio::time::Instant::now();
    assert_eq!(world.get(&format!("{VERSION}/things")).await.code, 504);
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    // Another, which nobody has found wanting yet.
    let world = World::new(Mood::Well).await;
    world.other.is(Mood::Down);
    let answer = world.get(&format!("{VERSION}/things")).await;
    let expected = "error trying to reach service: dial tcp 10.1.2.3:8443: connect: connection refused\n";
    assert_eq!((answer.code, &*answer.bytes), (503, expected.as_bytes()));
    tokio::time::sleep(Duration::from_secs(40)).await;
    let answer = world.get(&format!("{VERSION}/things")).await;
    assert_eq!((answer.code, &*answer.bytes), (503, b"service unavailable\n".as_slice()));
}
