//! Front proxies, over a real listener: only their certificate makes their headers count.

use crate::outside::{ISSUER, accounts};
use bytes::Bytes;
use http::Request;
use pintle_apiserver::access::Access;
use pintle_apiserver::authn::config::{Authentication, FrontProxy};
use pintle_apiserver::authn::front_proxy::Options;
use pintle_apiserver::authn::static_tokens::StaticTokens;
use pintle_apiserver::authz::config::{Authorization, Mode};
use pintle_apiserver::outbound::{Destination, Outbound, Place, Trust};
use pintle_apiserver::pki::{Identity, Pki};
use pintle_apiserver::{ApiServer, Pace, Parts, listener};
use pintle_meta::{Clock, Random};
use pintle_store::MemoryStore;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn a_users_name_in_headers_counts_only_from_a_proxy_with_the_right_certificate() {
    let clock = Clock::system();
    let now = clock.now();
    let (own, proxies, strangers) =
        (Pki::generate(now).unwrap(), Pki::generate(now).unwrap(), Pki::generate(now).unwrap());
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let options = Options {
        ca_pem: proxies.ca_pem.clone(),
        allowed_names: list(&["aggregator"]),
        username_headers: list(&["X-Remote-User"]),
        uid_headers: list(&["X-Remote-Uid"]),
        group_headers: list(&["X-Remote-Group"]),
        extra_prefixes: list(&["X-Remote-Extra-"]),
    };
    let authentication = Authentication {
        front_proxy: Some(FrontProxy { options, client_ca_pem: own.ca_pem.clone() }),
        static_tokens: Some(StaticTokens::parse("t,joe,1").unwrap()),
        ..accounts()
    };
    let parts = Parts {
        store: Arc::new(MemoryStore::new()),
        clock,
        random: Random::seeded(1),
        token_key: own.token_key.clone(),
        pace: Pace::default(),
        seats: 32,
    };
    let authorization = Authorization { chain: vec![Mode::AlwaysAllow] };
    let server = ApiServer::start_with(parts, Access { authentication, authorization }).await.unwrap();
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let tls = own.server_tls_for(&[loopback], &[], &proxies.ca_pem, now).unwrap();
    let tcp = tokio::net::TcpListener::bind((loopback, 0)).await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let serving = tokio::spawn(listener::serve(server.clone(), tcp, tls));

    let outbound = Outbound::default();
    let ask = async |identity: Option<&Identity>, headers: &[(&str, &str)]| {
        let trust = Trust::of_bundle(own.ca_pem.as_bytes(), identity).unwrap();
        let to = Destination { place: Place::Address { host: "127.0.0.1".into(), port }, trust };
        let request = Request::post(WHO).header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Bytes::from("{}")).unwrap();
        let answer = outbound.ask_address(&to, request, Duration::from_secs(20)).await;
        let answer = answer.map_err(|failure| failure.to_string())?;
        let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let user = body["status"]["userInfo"].clone();
        if answer.status() == 201 { Ok(user) } else { Err(answer.status().as_u16().to_string()) }
    };
    let name = |user: Result<Value, String>| user.map(|user| user["username"].as_str().unwrap_or_default().to_owned());
    let named = |text: &str| Ok(text.to_owned());
    let jane =
        [("x-remote-user", "jane"), ("x-remote-group", "devs"), ("x-remote-uid", "42"), ("x-remote-extra-a%2fb", "c")];

    let proxy = proxies.client("aggregator", "any", now).unwrap();
    let user = ask(Some(&proxy), &jane).await.unwrap();
    let expected = serde_json::json!({"username": "jane", "uid": "42", "groups": ["devs", "system:authenticated"],
        "extra": {"a/b": ["c"]}});
    assert_eq!(user, expected);
    // A proxy that names nobody is nobody; its certificate makes no user.
    assert_eq!(name(ask(Some(&proxy), &[]).await), named("system:anonymous"));
    assert_eq!(name(ask(Some(&proxy), &[("authorization", "Bearer t")]).await), named("joe"));
    // Another name of the proxies' authority is refused, and also as a user.
    let other = proxies.client("kubernetes-admin", "system:masters", now).unwrap();
    assert_eq!(ask(Some(&other), &jane).await, Err("401".to_owned()));
    assert_eq!(ask(Some(&other), &[]).await, Err("401".to_owned()));
    // A user's certificate, a token and nothing at all do not make the headers count.
    let user = own.client("aggregator", "any", now).unwrap();
    assert_eq!(name(ask(Some(&user), &jane).await), named("aggregator"));
    assert_eq!(name(ask(None, &jane).await), named("system:anonymous"));
    let with_token: Vec<_> = jane.iter().copied().chain([("authorization", "Bearer t")]).collect();
    assert_eq!(name(ask(None, &with_token).await), named("joe"));
    // A certificate of nobody's authority ends the connection.
    let stranger = strangers.client("aggregator", "any", now).unwrap();
    assert!(ask(Some(&stranger), &jane).await.is_err());
    assert_eq!(server.authenticator.tokens.audiences(), [ISSUER]);
    server.stop();
    serving.await.unwrap();
}

#[tokio::test]
async fn a_connection_does_not_keep_a_user_whose_certificate_has_ended() {
    let clock = Clock::system();
    let now = clock.now();
    let own = Pki::generate(now).unwrap();
    let parts = Parts {
        store: Arc::new(MemoryStore::new()),
        clock,
        random: Random::seeded(1),
        token_key: own.token_key.clone(),
        pace: Pace::default(),
        seats: 32,
    };
    let server = ApiServer::start(parts).await.unwrap();
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let tcp = tokio::net::TcpListener::bind((loopback, 0)).await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let serving = tokio::spawn(listener::serve(server.clone(), tcp, own.server_tls(&[loopback], &[], now).unwrap()));
    let identity = own.short_lived_client("jane", "devs", now, Duration::from_secs(3)).unwrap();
    let trust = Trust::of_bundle(own.ca_pem.as_bytes(), Some(&identity)).unwrap();
    let to = Destination { place: Place::Address { host: "127.0.0.1".into(), port }, trust };
    let outbound = Outbound::default();
    let ask = async || {
        let request = Request::post(WHO).header("content-type", "application/json").body(Bytes::from("{}")).unwrap();
        // A new connection would not come about: this answer is one over the connection from before.
        outbound.ask_address(&to, request, Duration::from_secs(20)).await.unwrap().status().as_u16()
    };
    assert_eq!(ask().await, 201);
    let began = Instant::now();
    let code = loop {
        let code = ask().await;
        if code != 201 || began.elapsed() > Duration::from_secs(60) {
            break code;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(code, 401);
    server.stop();
    serving.await.unwrap();
}
