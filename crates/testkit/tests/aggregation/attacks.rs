//! What a client or the other server may try.

use crate::other::{Mood, VERSION, World, full};
use crate::requests::connect;
use http::{Method, Request as Plain};
use pintle_apiserver::authn::User;

#[tokio::test(start_paused = true)]
async fn nobody_says_who_they_are_but_this_server() {
    let world = World::new(Mood::Well).await;
    let user = User::new("ann", &["system:masters"]);
    for claims in [
        &[("x-remote-user", "root"), ("x-remote-user", "admin"), ("x-remote-uid", "0")][..],
        &[("x-remote-group", "system:masters"), ("x-remote-extra-scopes", "all"), ("x-remote-anything", "x")],
        // What a connection names as its own is removed before the user is named, never after.
        &[("connection", "x-remote-user, x-remote-group"), ("x-remote-user", "root")],
        &[("connection", "keep-alive, X-Remote-Extra-Scopes"), ("x-remote-extra-scopes", "all")],
        &[("x_remote_user", "root"), ("impersonate-extra-scopes", ""), ("pintle-fence", "")],
    ] {
        let given: Vec<(&'static str, &str)> = claims
            .iter()
            .filter(|(name, _)| !name.starts_with("impersonate") && !name.starts_with("pintle"))
            .copied()
            .collect();
        let answer = world.get_as(user.clone(), &given, &format!("{VERSION}/things")).await;
        assert_eq!(answer.code, 200, "{claims:?}");
        let seen = world.other.seen().remove(0);
        assert_eq!(seen.all("x-remote-user"), ["ann"], "{claims:?}");
        assert_eq!(seen.all("x-remote-group"), ["system:masters", "system:authenticated"], "{claims:?}");
        let others = seen.headers.keys().map(|name| name.as_str()).filter(|name| name.starts_with("x-remote-"));
        assert_eq!(others.filter(|name| !["x-remote-user", "x-remote-group"].contains(name)).count(), 0, "{claims:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_means_to_the_other_server_what_it_meant_here() {
    let world = World::new(Mood::Well).await;
    for (path, arrives) in [
        ("/apis/things.example.com/v1/namespaces/a%2Fthings%2Fb", "/apis/things.example.com/v1/namespaces/a/things/b"),
        ("//apis//things.example.com/v1///things", "/apis/things.example.com/v1/things"),
        ("/apis/things.example.com/v1/things/a%3Fwatch=1", "/apis/things.example.com/v1/things/a%3Fwatch=1"),
        ("/apis/things.example.com/v1/things/%2561", "/apis/things.example.com/v1/things/%2561"),
        ("/apis/things.example.com/v1/things?limit=1;x=1", "/apis/things.example.com/v1/things?limit=1%3Bx%3D1"),
    ] {
        let answer = world.cluster.request("DELETE", path, "", "").await;
        assert_eq!(answer.code, 200, "{path}");
        assert_eq!(world.other.seen().remove(0).target, arrives, "{path}");
    }
    for path in [
        "/apis/things.example.com/v1/../../../api/v1/secrets",
        "/apis/things.example.com/v1/things/%2e%2e/%2E%2E/secrets",
        "/apis/things.example.com/v1/things/.",
        "/apis/things.example.com/v1/namespaces/a%2f..%2f..%2fthings",
    ] {
        assert_eq!(world.get(path).await.code, 400, "{path}");
        assert!(world.other.seen().is_empty(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_neither_followed_nor_passed_on() {
    let world = World::new(Mood::Well).await;
    world.other.is(Mood::Redirecting);
    let answer = world.get(&format!("{VERSION}/things")).await;
    let expected = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!((answer.code, &*answer.bytes), (502, expected.as_bytes()));
    assert!(!answer.headers.contains_key("location"));
    assert_eq!(world.other.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_protocol_is_changed_only_if_both_sides_want_it() {
    let world = World::new(Mood::Well).await;
    world.other.is(Mood::Switching);
    let answer = world.get(&format!("{VERSION}/things")).await;
    assert_eq!((answer.code, &*answer.bytes), (503, b"invalid upgrade response: status code 101\n".as_slice()));

    world.other.is(Mood::Refusing);
    let mut sender = connect(&world).await;
    let request = Plain::builder().method(Method::GET).uri(format!("{VERSION}/namespaces/a/things/b/talk"));
    let request = request.header("connection", "Upgrade").header("upgrade", "loud").body(full("")).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 503);
    // The connection is the client's and this server's still: nothing that is sent on it reaches the other server unseen.
    world.other.seen();
    world.other.is(Mood::Well);
    let request = Plain::get(format!("{VERSION}/things")).header("x-remote-user", "root").body(full("")).unwrap();
    sender.ready().await.unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    assert_eq!(world.other.seen().remove(0).all("x-remote-user"), ["admin"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_another_certificate_gets_no_request() {
    let world = World::new(Mood::Well).await;
    world.other.is(Mood::Misnamed);
    let answer = world.get(&format!("{VERSION}/things")).await;
    assert_eq!(answer.code, 503);
    let text = String::from_utf8_lossy(&answer.bytes).into_owned();
    assert!(text.contains("x509: certificate is valid for elsewhere.default.svc, not things.default.svc"), "{text}");
    assert!(world.other.seen().is_empty());
}
