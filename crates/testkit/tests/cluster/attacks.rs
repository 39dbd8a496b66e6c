//! What Kubernetes once let pass, tried on a real server: looking is not doing, and nobody takes what is another's address.

use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_testkit::Cluster;
use serde_json::{Value, json};

fn user(name: &str) -> Peer {
    Peer::Internal(User::new(name, &[]).into())
}

/// A cluster with a Pod on a node, and a user with these rights in the default namespace.
async fn cluster(name: &str, rules: Value) -> Cluster {
    let cluster = Cluster::builder().loops(&["serviceaccount"]).scheduler(false).start().await;
    cluster.settle().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}});
    cluster.create(pod).await.unwrap();
    cluster.settle().await;
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role",
        "metadata": {"name": name, "namespace": "default"}, "rules": rules});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": "default"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}]});
    cluster.create(role).await.unwrap();
    cluster.create(binding).await.unwrap();
    cluster
}

fn pods(subresources: &[&str], verbs: &[&str]) -> Value {
    let resources: Vec<String> = subresources.iter().map(|name| format!("pods{name}")).collect();
    json!([{"apiGroups": [""], "resources": resources, "verbs": verbs}])
}

const WEB: &str = "/api/v1/namespaces/default/pods/web";

async fn answers(cluster: &Cluster, name: &str, method: &str, path: &str) -> (u16, String) {
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let answer = cluster.request_as(user(name), &upgrade, method, path, "", "").await;
    (answer.code, answer.message().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_right_to_look_at_an_exec_is_no_right_to_run_a_command() {
    let cluster = cluster("looker", pods(&["", "/exec"], &["get", "list", "watch"])).await;
    let (code, message) = answers(&cluster, "looker", "GET", &format!("{WEB}/exec?command=sh&stdout=1")).await;
    assert_eq!(code, 403, "{message}");
    assert!(message.contains("cannot create resource \"pods/exec\""), "{message}");
    assert_eq!(answers(&cluster, "looker", "POST", &format!("{WEB}/exec?command=sh&stdout=1")).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_right_to_look_attaches_to_nothing_and_forwards_no_port() {
    let cluster = cluster("looker", pods(&["", "/attach", "/portforward"], &["get", "list", "watch"])).await;
    for path in ["attach?stdin=1", "portforward?ports=80"] {
        for method in ["GET", "POST"] {
            let (code, message) = answers(&cluster, "looker", method, &format!("{WEB}/{path}")).await;
            assert_eq!(code, 403, "{method} {path}: {message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_right_on_pods_is_none_on_what_stands_below_them() {
    let cluster = cluster("owner", pods(&[""], &["*"])).await;
    for (method, path) in [
        ("GET", "exec?command=sh&stdout=1"),
        ("POST", "exec?command=sh&stdout=1"),
        ("GET", "attach"),
        ("GET", "portforward"),
        ("GET", "log"),
        ("GET", "proxy/"),
        ("POST", "eviction"),
        ("POST", "binding"),
        ("PATCH", "ephemeralcontainers"),
        ("PATCH", "status"),
        ("PATCH", "resize"),
    ] {
        let (code, message) = answers(&cluster, "owner", method, &format!("{WEB}/{path}")).await;
        assert_eq!(code, 403, "{method} {path}: {message}");
    }
    assert_eq!(answers(&cluster, "owner", "GET", WEB).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_service_cannot_name_an_address_that_is_no_machines_own() {
    let cluster = Cluster::bare().await;
    for (address, taken) in [
        ("127.0.0.1", false),
        ("::1", false),
        ("169.254.169.254", false),
        ("224.0.0.1", false),
        ("0.0.0.0", false),
        ("not an address", false),
        ("198.51.100.7", true),
    ] {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"generateName": "s-", "namespace": "default"},
            "spec": {"ports": [{"port": 80}], "externalIPs": [address]}});
        let made = cluster.create(service).await;
        assert_eq!(made.is_ok(), taken, "{address}: {made:?}");
        if let Err(error) = made {
            assert!(error.to_string().contains("spec.externalIPs[0]"), "{address}: {error}");
        }
    }
}
