//! cordon, uncordon, drain and taint: keeping Pods off a node.

use super::table::Table;
use super::{Cluster, assert_says, squeezed};

async fn node_of(cluster: &Cluster, pod: &str) -> String {
    cluster.ok(&format!("get pod {pod} -o jsonpath={{.spec.nodeName}}")).await
}

#[tokio::test]
async fn a_cordoned_node_takes_no_more_pods() {
    let cluster = Cluster::start().await;
    cluster.ok("run before --image=nginx").await;
    cluster.ok("wait --for=condition=Ready pod/before --timeout=60s").await;
    assert_eq!(cluster.ok("cordon node-0").await, "node/node-0 cordoned\n");
    assert_eq!(cluster.ok("cordon node-0").await, "node/node-0 already cordoned\n");
    let nodes = Table::parse(&cluster.ok("get nodes").await);
    assert_eq!(nodes.cell("node-0", "STATUS"), "Ready,SchedulingDisabled");
    cluster
        .until("get node node-0 -o jsonpath={.spec.taints[*].key}", |t| t == "node.kubernetes.io/unschedulable")
        .await;
    cluster.ok("run after --image=nginx").await;
    let events = cluster.until("events --for=pod/after", |events| events.contains("FailedScheduling")).await;
    assert_says(&events, &["0/1 nodes are available: 1 node(s) were unschedulable."]);
    assert_eq!(node_of(&cluster, "before").await, "node-0");
    assert_eq!(cluster.ok("uncordon node-0").await, "node/node-0 uncordoned\n");
    cluster.ok("wait --for=condition=Ready pod/after --timeout=60s").await;
    assert_eq!(Table::parse(&cluster.ok("get nodes").await).cell("node-0", "STATUS"), "Ready");
}

#[tokio::test]
async fn drain_moves_pods_to_other_nodes() {
    let cluster = Cluster::with(&["--nodes=2"]).await;
    cluster.make_web(4).await;
    let said = cluster.ok("drain node-0 --timeout=60s").await;
    assert!(said.starts_with("node/node-0 cordoned\n") && said.ends_with("node/node-0 drained\n"), "{said}");
    cluster.rolled_out("web").await;
    let nodes =
        cluster.until("get pods -o jsonpath={.items[*].spec.nodeName}", |n| n.split_whitespace().count() == 4).await;
    assert_eq!(nodes, "node-1 node-1 node-1 node-1");
}

#[tokio::test]
async fn drain_asks_before_it_loses_a_pod_for_good() {
    let cluster = Cluster::start().await;
    cluster.ok("run alone --image=nginx").await;
    cluster.ok("wait --for=condition=Ready pod/alone --timeout=60s").await;
    let said = cluster.fails("drain node-0").await;
    assert_says(&said, &["cannot delete", "default/alone"]);
    let said = cluster.ok("drain node-0 --force --timeout=60s").await;
    assert_says(&said, &["evicting pod default/alone\n", "pod/alone evicted\n", "node/node-0 drained\n"]);
    cluster.fails("get pod alone").await;
}

#[tokio::test]
async fn a_disruption_budget_holds_a_drain_up() {
    let cluster = Cluster::with_web().await;
    let budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}}";
    assert_eq!(cluster.apply(budget).await, "poddisruptionbudget.policy/web created\n");
    let answer = cluster.run("drain node-0 --timeout=1s").await;
    assert_eq!(answer.code, Some(1), "{answer}");
    assert_says(&answer.stderr, &["Cannot evict pod as it would violate the pod's disruption budget."]);
    assert_eq!(cluster.ok("get deployment web -o jsonpath={.status.availableReplicas}").await, "2");
    cluster.ok(r#"patch pdb web --type=merge -p '{"spec":{"maxUnavailable":2}}'"#).await;
    cluster.until("get pdb web -o jsonpath={.status.disruptionsAllowed}", |allowed| allowed == "2").await;
    assert_says(&cluster.ok("drain node-0 --timeout=60s").await, &["node/node-0 drained\n"]);
}

#[tokio::test]
async fn a_taint_keeps_pods_off_unless_they_tolerate_it() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.ok("taint node node-0 dedicated=ships:NoSchedule").await, "node/node-0 tainted\n");
    assert_says(&squeezed(&cluster.ok("describe node node-0").await), &["Taints: dedicated=ships:NoSchedule\n"]);
    cluster.ok("run other --image=nginx").await;
    let events = cluster.until("events --for=pod/other", |events| events.contains("FailedScheduling")).await;
    assert_says(&events, &["0/1 nodes are available: 1 node(s) had untolerated taint"]);
    cluster.ok(r#"run ship --image=nginx --overrides={"spec":{"tolerations":[{"key":"dedicated","operator":"Equal","value":"ships","effect":"NoSchedule"}]}}"#).await;
    cluster.ok("wait --for=condition=Ready pod/ship --timeout=60s").await;
    assert_eq!(node_of(&cluster, "other").await, "");
    assert_eq!(cluster.ok("taint node node-0 dedicated-").await, "node/node-0 untainted\n");
    cluster.ok("wait --for=condition=Ready pod/other --timeout=60s").await;
}
