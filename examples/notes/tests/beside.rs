//! The example behind a cluster's API server: both are real HTTPS servers on loopback.

use futures::future::BoxFuture;
use futures::{StreamExt, pin_mut};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use notes::{Directory, GROUP, definition};
use pintle_apiserver::backend::{Backend, Mirror};
use pintle_apiserver::beside::{Beside, Cluster};
use pintle_apiserver::nodes::Duplex;
use pintle_apiserver::nodes::network::Network;
use pintle_apiserver::pki::{FrontProxy, Identity, Pki};
use pintle_apiserver::{ApiServer, Pace, Parts, authn, bootstrap, listener};
use pintle_meta::{Clock, Random};
use pintle_store::MemoryStore;
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

/// The endpoints of every Service are one server on loopback.
struct Loopback(SocketAddr);

impl Network for Loopback {
    fn connect(&self, _: String, _: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        let address = self.0;
        Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Duplex>) })
    }
}

struct World {
    main: ApiServer,
    notes: ApiServer,
    notes_address: SocketAddr,
    notes_ca: String,
    pki: Pki,
    directory: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.notes.stop();
        self.main.stop();
    }
}

fn kubeconfig(url: &str, ca_pem: &str, user: &Identity) -> String {
    use base64::Engine;
    let encode = |text: &str| base64::prelude::BASE64_STANDARD.encode(text);
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": encode(ca_pem)}}],
        "users": [{"name": "u", "user": {"client-certificate-data": encode(&user.certificate_pem),
            "client-key-data": encode(&user.key_pem)}}]})
    .to_string()
}

impl World {
    async fn start() -> Self {
        let clock = Clock::system();
        let pki = Pki::generate(clock.now()).unwrap();
        let front_proxy = FrontProxy::generate(clock.now()).unwrap();
        let parts = Parts {
            store: Arc::new(MemoryStore::new()),
            clock: clock.clone(),
            random: Random::seeded(1),
            token_key: pki.token_key.clone(),
            pace: Pace::default(),
            seats: 100,
        };
        let main = ApiServer::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", tcp.local_addr().unwrap());
        let tls = pki.server_tls(&["127.0.0.1".parse().unwrap()], &[], clock.now()).unwrap();
        main.front_proxy.set(front_proxy.client(clock.now()).unwrap());
        bootstrap::publish(&main, &url, &pki.ca_pem, &front_proxy.ca_pem).await.unwrap();
        tokio::spawn(listener::serve(main.clone(), tcp, tls));
        let running = main.clone();
        tokio::spawn(async move { running.run().await });

        let directory = tempfile::tempdir().unwrap();
        let admin = pki.client("admin", authn::MASTERS, clock.now()).unwrap();
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig(&url, &pki.ca_pem, &admin)).unwrap();
        let cluster = Cluster::of_kubeconfig(&file).unwrap();
        let mirror = Arc::new(Mirror::new(definition(), Directory(directory.path().to_owned())));
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let notes_address = tcp.local_addr().unwrap();
        main.registry.outbound.set_network(Arc::new(Loopback(notes_address)));
        let service = "notes/notes".parse().unwrap();
        let backends: [Arc<dyn Backend>; 1] = [mirror.clone()];
        let Beside { server: notes, tls, registrations } =
            Beside::start(&cluster, &backends, &service, (clock, Random::seeded(2)))
                .await
                .unwrap_or_else(|error| panic!("{error}"));
        tokio::spawn(listener::serve(notes.clone(), tcp, tls));
        let running = notes.clone();
        tokio::spawn(async move { mirror.follow(running, Duration::from_millis(50)).await });
        let notes_ca = registrations[0]["spec"]["caBundle"].as_str().unwrap().to_owned();
        let world = World { main, notes, notes_address, notes_ca, pki, directory };
        world.service().await;
        for registration in &registrations {
            cluster.register(registration).await.unwrap_or_else(|error| panic!("{error}"));
        }
        world.until_available().await;
        world
    }

    /// A Service whose endpoints are there; that they are on loopback is the network's affair.
    async fn service(&self) {
        let client = self.admin();
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "notes"}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "notes", "namespace": "notes"},
                "spec": {"ports": [{"port": 443}]}}),
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": "notes-1", "namespace": "notes", "labels": {"kubernetes.io/service-name": "notes"}},
                "ports": [{"name": "", "port": 8443}], "endpoints": [{"addresses": ["10.1.2.3"]}]}),
        ] {
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let types = object.types.clone().unwrap();
            let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
            let api: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            api.create(&PostParams::default(), &object).await.unwrap();
        }
    }

    async fn until_available(&self) {
        let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
        let services: Api<DynamicObject> = Api::all_with(self.admin(), &ApiResource::from_gvk(&kind));
        let available = async {
            loop {
                let service = services.get("v1.notes.example.com").await.unwrap();
                if service.data["status"]["conditions"][0]["status"] == "True" {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), available).await.expect("the server becomes available");
    }

    /// An administrator of the cluster.
    fn admin(&self) -> Client {
        self.main.client(authn::User::internal("admin"))
    }

    fn api(&self, client: Client) -> Api<DynamicObject> {
        Api::namespaced_with(client, "default", &resource())
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(format!("default/{name}.json"))
    }

    /// A client that goes to the custom API server without the cluster's.
    async fn direct(&self, user: &Identity) -> Client {
        use base64::Engine;
        let ca = base64::prelude::BASE64_STANDARD.decode(&self.notes_ca).unwrap();
        let text = kubeconfig(&format!("https://{}", self.notes_address), &String::from_utf8(ca).unwrap(), user);
        let mut config: kube::config::Kubeconfig = serde_json::from_str(&text).unwrap();
        let cluster = config.clusters[0].cluster.as_mut().unwrap();
        cluster.tls_server_name = Some("notes.notes.svc".to_owned());
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "Note"))
}

fn note(name: &str, title: &str) -> DynamicObject {
    DynamicObject::new(name, &resource()).data(json!({"spec": {"title": title}}))
}

fn saved(file: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn notes_are_files_and_are_read_and_written_through_the_cluster() {
    let world = World::start().await;
    let notes = world.api(world.admin());
    let created = notes.create(&PostParams::default(), &note("milk", "buy milk")).await.unwrap();
    assert_eq!(created.data["spec"]["pinned"], false, "defaulted");
    assert_eq!(saved(&world.file("milk"))["spec"]["title"], "buy milk");
    assert_eq!(code(notes.create(&PostParams::default(), &note("milk", "again")).await.unwrap_err()), 409);
    assert_eq!(code(notes.create(&PostParams::default(), &note("long", &"x".repeat(81))).await.unwrap_err()), 422);
    assert!(!world.file("long").exists());

    let patch = Patch::Merge(json!({"spec": {"text": "two bottles"}, "metadata": {"labels": {"shop": "dairy"}}}));
    notes.patch("milk", &PatchParams::default(), &patch).await.unwrap();
    let applied = note("milk", "buy much milk");
    notes.patch("milk", &PatchParams::apply("me").force(), &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(
        saved(&world.file("milk"))["spec"],
        json!({"pinned": false, "text": "two bottles", "title": "buy much milk"})
    );
    let mut stale = created.clone();
    stale.data["spec"]["title"] = "old".into();
    assert_eq!(code(notes.replace("milk", &PostParams::default(), &stale).await.unwrap_err()), 409);

    std::fs::write(world.file("bread"), r#"{"spec": {"title": "by hand"}}"#).unwrap();
    std::fs::write(world.file("broken"), "no note").unwrap();
    let list = notes.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["bread", "milk"]);
    let dairy = notes.list(&ListParams::default().labels("shop=dairy")).await.unwrap();
    assert_eq!(dairy.items.len(), 1);
    notes.delete("bread", &DeleteParams::default()).await.unwrap();
    assert!(!world.file("bread").exists());
    assert_eq!(code(notes.get("bread").await.unwrap_err()), 404);
}

#[tokio::test]
async fn who_watches_sees_what_others_do_to_the_files() {
    let world = World::start().await;
    let notes = world.api(world.admin());
    notes.create(&PostParams::default(), &note("milk", "buy milk")).await.unwrap();
    let list = notes.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    let events = notes.watch(&WatchParams::default(), &version).await.unwrap();
    pin_mut!(events);
    let mut next = async || match tokio::time::timeout(Duration::from_secs(30), events.next()).await.unwrap() {
        Some(Ok(WatchEvent::Added(note))) => format!("added {}", note.name_any()),
        Some(Ok(WatchEvent::Modified(note))) => format!("modified {} {}", note.name_any(), note.data["spec"]["title"]),
        Some(Ok(WatchEvent::Deleted(note))) => format!("deleted {}", note.name_any()),
        other => panic!("{other:?}"),
    };
    std::fs::write(world.file("bread"), r#"{"spec": {"title": "by hand"}}"#).unwrap();
    assert_eq!(next().await, "added bread");
    std::fs::write(world.file("milk"), r#"{"spec": {"title": "other"}}"#).unwrap();
    assert_eq!(next().await, r#"modified milk "other""#);
    std::fs::remove_file(world.file("bread")).unwrap();
    assert_eq!(next().await, "deleted bread");
}

#[tokio::test]
async fn rights_of_the_cluster_hold_also_for_those_who_come_directly() {
    let world = World::start().await;
    let clock = Clock::system();
    world.api(world.admin()).create(&PostParams::default(), &note("milk", "buy milk")).await.unwrap();
    let ann = world.pki.client("ann", "people", clock.now()).unwrap();
    let through = world.api(world.main.client(authn::User::new("ann", &[])));
    let direct = world.api(world.direct(&ann).await);
    assert_eq!(code(through.get("milk").await.unwrap_err()), 403);
    assert_eq!(code(direct.get("milk").await.unwrap_err()), 403);
    let stranger = Pki::generate(clock.now()).unwrap().client("ann", authn::MASTERS, clock.now()).unwrap();
    let direct = world.api(world.direct(&stranger).await);
    assert!(direct.get("milk").await.is_err(), "a certificate of somebody else's authority opens nothing");
    let admin = world.pki.client("root", authn::MASTERS, clock.now()).unwrap();
    let direct = world.direct(&admin).await;
    assert_eq!(world.api(direct.clone()).get("milk").await.unwrap().data["spec"]["title"], "buy milk");
    // A certificate of the cluster makes nobody a proxy, whatever its name is.
    let posing = world.pki.client("front-proxy-client", "people", clock.now()).unwrap();
    let posing = world.direct(&posing).await;
    let claim =
        http::Request::get("/apis/notes.example.com/v1/namespaces/default/notes/milk").header("x-remote-user", "root");
    let claim = claim.header("x-remote-group", "system:masters").body(Vec::new()).unwrap();
    assert_eq!(code(posing.request::<serde_json::Value>(claim).await.unwrap_err()), 403);
    let pods = Api::<DynamicObject>::namespaced_with(
        direct,
        "default",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod")),
    );
    assert_eq!(code(pods.list(&ListParams::default()).await.unwrap_err()), 404, "nothing but notes is served");
}

#[tokio::test]
async fn no_path_leads_out_of_the_directory() {
    let world = World::start().await;
    std::fs::write(world.directory.path().join("secret.json"), r#"{"spec": {"title": "secret"}}"#).unwrap();
    let root = world.pki.client("root", authn::MASTERS, Clock::system().now()).unwrap();
    for client in [world.admin(), world.direct(&root).await] {
        for path in [
            "namespaces/../notes/secret",
            "namespaces/a%2f..%2f../notes/secret",
            "namespaces/default/notes/..%2fsecret",
            "namespaces/%2e%2e/notes",
        ] {
            let body = json!({"apiVersion": "notes.example.com/v1", "kind": "Note", "metadata": {"name": "out"}, "spec": {"title": "out"}});
            for (method, body) in [("GET", ""), ("DELETE", ""), ("POST", &*body.to_string())] {
                let request = http::Request::builder().method(method).uri(format!("/apis/notes.example.com/v1/{path}"));
                let request =
                    request.header("content-type", "application/json").body(body.as_bytes().to_vec()).unwrap();
                assert!(client.request::<serde_json::Value>(request).await.is_err(), "{method} {path}");
            }
        }
    }
    assert!(world.directory.path().join("secret.json").exists());
    assert!(!world.directory.path().join("out.json").exists());
}
