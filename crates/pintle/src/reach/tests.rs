//! A node over HTTPS: who may ask it.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use pintle_apiserver::nodes::read;
use pintle_apiserver::{Pace, Parts};
use pintle_kubelet::Fleet;
use pintle_meta::Random;
use pintle_runtime::Context;
use pintle_store::MemoryStore;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::*;

struct World {
    pki: Pki,
    clock: Clock,
    client: kube::Client,
    port: u16,
    // Both end what runs when they are dropped.
    _fleet: Fleet,
    _stop: pintle_runtime::Trigger,
}

/// An API server in memory, and one simulated node of it behind HTTPS on loopback.
async fn world() -> World {
    let clock = Clock::system();
    let pki = Pki::generate(clock.now()).unwrap();
    let parts = Parts {
        store: std::sync::Arc::new(MemoryStore::new()),
        clock: clock.clone(),
        random: Random::seeded(1),
        token_key: pki.token_key.clone(),
        pace: Pace::default(),
        seats: pintle_apiserver::default_seats(),
    };
    let server = ApiServer::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
    let client = server.client(User::internal("test"));
    let (stop, shutdown) = Shutdown::new();
    let context = Context::new(client.clone(), clock.clone(), Random::seeded(2), shutdown.clone());
    let machines = pintle_container::Simulated::new(clock.clone());
    let fleet = Fleet::simulated(&context, &machines, 1, pintle_kubelet::LEASE);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = pki.node_tls("node-0", &["127.0.0.1".parse().unwrap()], clock.now()).unwrap();
    let node =
        NodeServer { serving: fleet.serving(), node: "node-0".to_owned(), tls, client: client.clone(), only_own: true };
    tokio::spawn(node.serve(listener, shutdown));
    let nodes = Api::<Node>::all(client.clone());
    tokio::time::timeout(Duration::from_secs(20), async {
        while nodes.get_opt("node-0").await.unwrap().is_none() || !fleet.serving().has("node-0") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the node registers");
    World { pki, clock, client, port, _fleet: fleet, _stop: stop }
}

impl World {
    /// What a client with a certificate of this name and group is answered.
    async fn ask(&self, name: &str, group: &str, path: &str) -> (StatusCode, String) {
        let identity = self.pki.client(name, group, self.clock.now()).unwrap();
        let remote = Remote::new(&self.pki.ca_pem, &identity).unwrap().connecting_to(|address| address.is_loopback());
        let place = Place { name: "node-0".to_owned(), endpoint: Some(("127.0.0.1".to_owned(), self.port)) };
        let request = Request::builder().uri(path).body(bytes::Bytes::new().into()).unwrap();
        let answer = remote.send(place, request).await.unwrap();
        let code = answer.response.status();
        (code, String::from_utf8(read(answer.response.into_body()).await.unwrap().to_vec()).unwrap())
    }
}

#[tokio::test]
async fn the_api_server_may_ask_a_node_everything_and_others_what_their_roles_say() {
    let world = world().await;
    let server = ("kube-apiserver-kubelet-client", "any");
    assert_eq!(world.ask(server.0, server.1, "/healthz").await, (StatusCode::OK, "ok".to_owned()));
    let (code, said) = world.ask(server.0, server.1, "/containerLogs/default/ghost/main").await;
    assert_eq!((code, said.as_str()), (StatusCode::NOT_FOUND, "pod \"ghost\" does not exist\n"));
    assert_eq!(world.ask("stranger", "strangers", "/stats/summary").await.0, StatusCode::FORBIDDEN);

    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "stats"},
        "rules": [{"apiGroups": [""], "resources": ["nodes/stats"], "verbs": ["get"]}]}))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": "stats"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "stats"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "monitors"}]}))
    .unwrap();
    Api::all(world.client.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(world.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let (code, said) = world.ask("monitor", "monitors", "/stats/summary").await;
    assert_eq!(code, StatusCode::OK);
    assert!(said.contains("\"nodeName\":\"node-0\""), "{said}");
    assert_eq!(world.ask("monitor", "monitors", "/exec/default/web/main").await.0, StatusCode::FORBIDDEN);
}

impl World {
    /// What a client that has nothing but this token is answered.
    async fn ask_with(&self, token: Option<&str>, path: &str) -> (u16, String) {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{}/", self.port).parse().unwrap());
        let ca = rustls::pki_types::CertificateDer::from_pem_slice(self.pki.ca_pem.as_bytes()).unwrap();
        config.root_cert = Some(vec![ca.to_vec()]);
        let client = kube::Client::try_from(config).unwrap();
        let mut request = Request::builder().uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = client.send(request.body(Vec::new().into()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        (head.status.as_u16(), String::from_utf8(body.collect_bytes().await.unwrap().to_vec()).unwrap())
    }

    async fn allow(&self, resource: &str, service_account: &str) {
        let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": resource.replace('/', "-")},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]}))
        .unwrap();
        let name = role.metadata.name.clone().unwrap();
        let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": service_account}]}))
        .unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &role).await.unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    }
}

#[tokio::test]
async fn a_scraper_with_a_service_accounts_token_reads_what_its_role_says_and_nobody_else_does() {
    let world = world().await;
    let accounts = Api::<ServiceAccount>::namespaced(world.client.clone(), "default");
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "scraper"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = TokenRequest::default();
    let token = accounts.create_token_request("scraper", &PostParams::default(), &request).await.unwrap();
    let token = token.status.and_then(|status| status.token).unwrap();
    assert_eq!(world.ask_with(None, "/metrics/resource").await, (401, "Unauthorized".to_owned()));
    assert_eq!(world.ask_with(Some("made up"), "/metrics/resource").await, (401, "Unauthorized".to_owned()));
    let refused = "Forbidden (user=system:serviceaccount:default:scraper, verb=get, resource=nodes, subresource(s)=";
    let (code, said) = world.ask_with(Some(&token), "/pods").await;
    assert_eq!((code, said), (403, format!("{refused}[pods proxy])\n")));

    world.allow("nodes/metrics", "scraper").await;
    let (code, said) = world.ask_with(Some(&token), "/metrics/resource").await;
    assert_eq!(code, 200, "{said}");
    assert!(said.contains("resource_scrape_error 0"), "{said}");
    assert_eq!(world.ask_with(Some(&token), "/stats/summary").await.0, 403);
    // The right to one path of the node's is not the right to all.
    world.allow("nodes/healthz", "scraper").await;
    assert_eq!(world.ask_with(Some(&token), "/healthz").await, (200, "ok".to_owned()));
    assert_eq!(world.ask_with(Some(&token), "/exec/default/web/main").await.0, 403);
    for (path, family) in [
        ("/metrics", "kubelet_node_name{node=\"node-0\"} 1\n"),
        ("/metrics/cadvisor", "container_scrape_error 0\n"),
        ("/metrics/probes", ""),
    ] {
        let (code, said) = world.ask_with(Some(&token), path).await;
        assert!(code == 200 && said.contains(family), "{path}: {code} {said}");
    }
    world.allow("nodes/configz", "scraper").await;
    let (code, said) = world.ask_with(Some(&token), "/configz").await;
    assert!(code == 200 && said.contains("\"kubeletconfig\":{"), "{code} {said}");
}

#[tokio::test]
async fn a_node_listens_where_its_api_server_does_and_for_its_own_pods_where_they_look_for_it() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let node = address("192.0.2.7");
    for (listening, expected) in [
        ("0.0.0.0", vec![("0.0.0.0", false)]),
        ("127.0.0.1", vec![("127.0.0.1", false), ("192.0.2.7", true)]),
        ("192.0.2.7", vec![("192.0.2.7", false)]),
        ("192.0.2.8", vec![("192.0.2.8", false), ("192.0.2.7", true)]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(at, own)| (address(at), own)).collect();
        assert_eq!(places(node, address(listening)), expected, "{listening}");
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_says_so() {
    let pki = Pki::generate(Clock::system().now()).unwrap();
    let remote = Remote::new(&pki.ca_pem, &pki.node_client(Clock::system().now()).unwrap()).unwrap();
    let remote = remote.connecting_to(|address| address.is_loopback());
    let ask = |endpoint| {
        let place = Place { name: "far".to_owned(), endpoint };
        remote.send(place, Request::builder().uri("/healthz").body(bytes::Bytes::new().into()).unwrap())
    };
    let why = ask(None).await.err().unwrap();
    assert!(why.contains("no address"), "{why}");
    // Nobody listens on the port of a listener that is gone.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let why = ask(Some(("127.0.0.1".to_owned(), port))).await.err().unwrap();
    assert!(why.contains("refused"), "{why}");
}

#[tokio::test]
async fn a_node_that_names_the_api_servers_own_loopback_is_not_connected_to() {
    let pki = Pki::generate(Clock::system().now()).unwrap();
    let remote = Remote::new(&pki.ca_pem, &pki.node_client(Clock::system().now()).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for address in ["127.0.0.1", "localhost", "::ffff:127.0.0.1", "169.254.169.254"] {
        let place = Place { name: "far".to_owned(), endpoint: Some((address.to_owned(), port)) };
        let request = Request::builder().uri("/healthz").body(bytes::Bytes::new().into()).unwrap();
        let why = remote.send(place, request).await.err().unwrap();
        assert!(why.contains("address not allowed"), "{address}: {why}");
    }
}
