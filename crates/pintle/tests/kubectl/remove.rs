//! delete with each propagation, by selector, and of whole namespaces: what goes and what remains.

use super::{Cluster, assert_says};
use crate::harness::eventually;

const OWNED: &str = "get replicasets,pods -o name";

#[tokio::test]
async fn delete_in_the_background_takes_what_it_owned_soon() {
    let cluster = Cluster::with_web().await;
    assert_says(&cluster.ok("delete deployment web").await, &["deployment.apps \"web\" deleted"]);
    cluster.fails("get deployment web").await;
    cluster.until(OWNED, str::is_empty).await;
}

#[tokio::test]
async fn delete_in_the_foreground_takes_what_it_owned_first() {
    let cluster = Cluster::with_web().await;
    assert_says(&cluster.ok("delete deployment web --cascade=foreground").await, &["deployment.apps \"web\" deleted"]);
    // kubectl returned because the Deployment is gone, so everything below it is gone already.
    assert_eq!(cluster.ok("get deployments,replicasets,pods -o name").await, "");
}

#[tokio::test]
async fn delete_in_the_foreground_waits_for_pods_that_take_their_time() {
    let cluster = Cluster::start().await;
    cluster
        .apply(
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: slow}, spec: {selector: {matchLabels: {app: slow}}, template: \
             {metadata: {labels: {app: slow}, annotations: {simulated.pintle.dev/stop-takes: 1500ms}}, spec: {containers: [{name: a, image: a}]}}}}",
        )
        .await;
    cluster.rolled_out("slow").await;
    cluster.ok("delete deployment slow --cascade=foreground --wait=false").await;
    assert_eq!(cluster.ok("get deployment slow -o jsonpath={.metadata.finalizers}").await, r#"["foregroundDeletion"]"#);
    cluster.ok("wait --for=delete deployment/slow --timeout=60s").await;
    assert_eq!(cluster.ok(OWNED).await, "");
}

#[tokio::test]
async fn delete_as_orphan_leaves_what_it_owned_running() {
    let cluster = Cluster::with_web().await;
    let before = cluster.ok(OWNED).await;
    assert_says(&cluster.ok("delete deployment web --cascade=orphan").await, &["deployment.apps \"web\" deleted"]);
    cluster.fails("get deployment web").await;
    assert_eq!(cluster.ok(OWNED).await, before);
    cluster.until("get rs -o jsonpath={.items[0].metadata.ownerReferences}", str::is_empty).await;
    let set = cluster.ok("get rs -o name").await;
    cluster.ok(&format!("delete {} --cascade=orphan", set.trim())).await;
    cluster.until("get pods -o jsonpath={.items[*].metadata.ownerReferences}", str::is_empty).await;
    assert_eq!(cluster.ok("get pods --no-headers").await.matches(" Running ").count(), 2);
}

#[tokio::test]
async fn an_orphaned_replica_set_is_adopted_again() {
    let cluster = Cluster::with_web().await;
    let before = cluster.ok(OWNED).await;
    cluster.ok("delete deployment web --cascade=orphan").await;
    cluster.make_web(2).await;
    assert_eq!(cluster.ok(OWNED).await, before);
    assert_eq!(cluster.ok("get rs -o jsonpath={.items[0].metadata.ownerReferences[0].name}").await, "web");
}

#[tokio::test]
async fn delete_takes_several_by_selector_and_all() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        cluster.ok(&format!("create configmap {name}")).await;
    }
    cluster.ok("label configmap a b set=x").await;
    assert_says(
        &cluster.ok("delete configmap -l set=x").await,
        &["configmap \"a\" deleted", "configmap \"b\" deleted"],
    );
    assert_says(&cluster.ok("get configmap -o name").await, &["configmap/c\n"]);
    cluster.ok("create secret generic one").await;
    cluster.ok("create secret generic two").await;
    cluster.ok("delete secrets --all").await;
    assert_eq!(cluster.ok("get secrets -o name").await, "");
    let said = cluster.fails("delete configmap ghost").await;
    assert_eq!(said, "Error from server (NotFound): configmaps \"ghost\" not found\n");
    assert_eq!(cluster.ok("delete configmap ghost --ignore-not-found").await, "");
}

#[tokio::test]
async fn a_pod_is_given_its_grace_period_unless_it_is_forced() {
    let cluster = Cluster::start().await;
    cluster.ok("run stubborn --image=nginx --annotations=simulated.pintle.dev/ignores-term=true").await;
    cluster.ok("wait --for=condition=Ready pod/stubborn --timeout=60s").await;
    cluster.ok("delete pod stubborn --wait=false").await;
    cluster.until("get pods", |pods| pods.contains("Terminating")).await;
    let grace = cluster.ok("get pod stubborn -o jsonpath={.metadata.deletionGracePeriodSeconds}").await;
    assert_eq!(grace, "30");
    let said = cluster.run("delete pod stubborn --force --grace-period=0").await;
    assert_eq!(said.code, Some(0), "{said}");
    assert_says(&said.stdout, &["pod \"stubborn\" force deleted"]);
    cluster.fails("get pod stubborn").await;
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let cluster = Cluster::start().await;
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}").await;
    cluster.ok("delete configmap held --wait=false").await;
    assert_ne!(cluster.ok("get configmap held -o jsonpath={.metadata.deletionTimestamp}").await, "");
    cluster.ok(r#"patch configmap held --type=merge -p '{"metadata":{"finalizers":null}}'"#).await;
    cluster.fails("get configmap held").await;
}

#[tokio::test]
async fn a_namespace_goes_with_everything_in_it() {
    let cluster = Cluster::start().await;
    cluster.ok("create namespace harbour").await;
    cluster.until("get serviceaccounts -n harbour -o name", |found| found == "serviceaccount/default\n").await;
    cluster.ok("create deployment web --image=nginx --replicas=2 -n harbour").await;
    cluster.ok("rollout status deployment/web -n harbour --timeout=60s").await;
    cluster.ok("create configmap colours -n harbour").await;
    cluster.ok("delete namespace harbour --wait=false").await;
    let refused = eventually("new objects are refused", async || {
        let answer = cluster.run("create configmap late -n harbour").await;
        if answer.code == Some(0) { Err(answer.to_string()) } else { Ok(answer.stderr) }
    })
    .await;
    assert!(refused.contains("because it is being terminated") || refused.contains("not found"), "{refused}");
    cluster.ok("wait --for=delete namespace/harbour --timeout=60s").await;
    let said = cluster.fails("get namespace harbour").await;
    assert_eq!(said, "Error from server (NotFound): namespaces \"harbour\" not found\n");
    assert_eq!(cluster.ok("get all,configmaps -n harbour -o name").await, "");
}
