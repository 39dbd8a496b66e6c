//! Every script that a simulated node was told also loads into a kernel, in the same order, and then packets go where the objects
//! say.
//!
//! Needs root, `ip` and `nft`; where they are missing the test is reported as skipped.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams};
use pintle_network::Dataplane;
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

use net::{Net, can_run, ip};

#[expect(dead_code, reason = "the tests of rules need more of it")]
#[path = "../../../network/tests/net/mod.rs"]
mod net;

/// What a node was told in the course of a story, and where things are at its end.
struct Told {
    scripts: Vec<String>,
    pods: BTreeMap<String, String>,
    service: String,
}

fn pod(name: &str, app: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}]}})
}

fn policy(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Services, endpoints and policies come, change and go, and the loops are lost in between.
async fn story() -> Told {
    let loops = ["endpointslice", "serviceaccount", "garbage"];
    let cluster = Cluster::builder().loops(&loops).nodes(2).scheduler(false).isolated().network().start().await;
    cluster.settle().await;
    let service = |name: &str, more: Value| {
        let mut spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    let allow = |app: &str| {
        json!({"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": app}}}, {"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.8/29"]}}],
                "ports": [{"port": "http"}, {"port": 9000, "endPort": 9010, "protocol": "UDP"}]}]})
    };
    for object in [
        service("web", json!({})),
        service("sticky", json!({"type": "NodePort", "externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"})),
        service(
            "gone",
            json!({"type": "LoadBalancer", "externalIPs": ["198.51.100.7"], "loadBalancerSourceRanges": ["192.0.2.0/24"]}),
        ),
        pod("web-1", "web", "node-0"),
        pod("web-2", "web", "node-1"),
        pod("friend", "friend", "node-0"),
        pod("other", "other", "node-0"),
    ] {
        cluster.apply(object).await;
    }
    cluster.settle().await;
    cluster.apply(policy("allow", allow("nobody"))).await;
    cluster
        .apply(policy(
            "names",
            json!({"podSelector": {"matchLabels": {"app": "friend"}}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"namespaceSelector": {}}], "ports": [{"port": "http"}]}]}),
        ))
        .await;
    cluster.apply(pod("web-3", "web", "node-0")).await;
    cluster.settle().await;
    cluster.crash_loop("network-node-0").await;
    cluster.apply(policy("allow", allow("friend"))).await;
    cluster.api::<Pod>("default").delete("web-3", &DeleteParams::default()).await.unwrap();
    cluster.revive();
    cluster.settle().await;
    cluster.api::<Service>("default").delete("gone", &DeleteParams::default()).await.unwrap();
    let ports = Patch::Merge(json!({"spec": {"ports": [{"port": 81, "targetPort": "http"}]}}));
    cluster.api::<Service>("default").patch("sticky", &PatchParams::default(), &ports).await.unwrap();
    cluster.api::<NetworkPolicy>("default").delete("names", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert_eq!(cluster.stray_rules().await, Vec::<String>::new());
    let pods = cluster.api::<Pod>("default").list(&Default::default()).await.unwrap();
    let address = |pod: Pod| {
        (pod.metadata.name.unwrap_or_default(), pod.status.and_then(|status| status.pod_ip).unwrap_or_default())
    };
    let service = cluster.api::<Service>("default").get("web").await.unwrap();
    Told {
        scripts: cluster.scripts("node-0"),
        pods: pods.items.into_iter().map(address).collect(),
        service: service.spec.and_then(|spec| spec.cluster_ip).unwrap_or_default(),
    }
}

#[test]
fn what_a_simulated_node_was_told_carries_packets_in_a_kernel() {
    if !can_run() {
        return;
    }
    let virtually = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let told = virtually.block_on(story());
    assert!(told.scripts.len() > 10, "{} scripts", told.scripts.len());
    let really = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    really.block_on(async {
        let net = Net::new(&[1, 2, 3, 4]).await;
        net.kernel.apply(&net.here.removal()).await.unwrap();
        for (number, name) in [(1, "web-1"), (2, "web-2"), (3, "friend"), (4, "other")] {
            let (node, space, address) = (&net.name, net.space(&number.to_string()), &told.pods[name]);
            ip(&format!("-n {space} addr add {address}/32 dev eth0"));
            ip(&format!("-n {space} route replace default via 10.244.0.254 src {address}"));
            ip(&format!("-n {node} route add {address}/32 dev pod{number}"));
            net.serve(number, 8080);
            net.serve(number, 8081);
        }
        for (number, script) in told.scripts.iter().enumerate() {
            let taken = net.kernel.apply(script).await;
            taken.unwrap_or_else(|error| panic!("script {number}: {error}\n{script}"));
        }
        let (service, silence) = (format!("{}:80", told.service), Duration::from_millis(500));
        let tally = net.tally("3", &service, 30);
        assert_eq!(tally.keys().collect::<Vec<_>>(), ["1", "2"], "one who is allowed reaches both: {tally:?}");
        assert!(net.ask("3", &service).ends_with(&format!(" {}", told.pods["friend"])), "and is seen");
        let at = |pod: &str, port: u16| format!("{}:{port}", told.pods[pod]);
        assert_eq!(net.ask_for("3", &at("web-1", 8081), silence), "nothing", "another port");
        assert_eq!(net.ask_for("4", &at("web-1", 8080), silence), "nothing", "one who is not allowed");
        assert_eq!(net.ask_for("1", &at("other", 8080), silence), "nothing", "nothing goes out");
        assert!(net.ask("4", &at("friend", 8080)).starts_with("3 "), "one that is open");
        assert!(net.ask("node", &at("web-1", 8080)).starts_with("1 "), "the node itself");
    });
}
