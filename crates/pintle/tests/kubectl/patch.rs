//! patch in its three types and the subresources: changing a part of an object.

use super::{Cluster, assert_says};

async fn with_deployment() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.ok("create deployment web --image=nginx --replicas=0").await;
    cluster
}

const CONTAINERS: &str = "get deployment web -o jsonpath={.spec.template.spec.containers[*].name}";

#[tokio::test]
async fn a_strategic_patch_adds_to_lists_by_key() {
    let cluster = with_deployment().await;
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log"}]}}}}"#;
    assert_eq!(cluster.ok(&format!("patch deployment web -p '{patch}'")).await, "deployment.apps/web patched\n");
    let names = cluster.ok(CONTAINERS).await;
    assert!(names == "log nginx" || names == "nginx log", "{names}");
    assert_eq!(
        cluster.ok(&format!("patch deployment web -p '{patch}'")).await,
        "deployment.apps/web patched (no change)\n"
    );
    let removal = r#"{"spec":{"template":{"spec":{"containers":[{"name":"log","$patch":"delete"}]}}}}"#;
    cluster.ok(&format!("patch deployment web -p '{removal}'")).await;
    assert_eq!(cluster.ok(CONTAINERS).await, "nginx");
}

#[tokio::test]
async fn a_merge_patch_replaces_lists() {
    let cluster = with_deployment().await;
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log"}]}}}}"#;
    let said = cluster.ok(&format!("patch deployment web --type=merge -p '{patch}'")).await;
    assert_eq!(said, "deployment.apps/web patched\n");
    assert_eq!(cluster.ok(CONTAINERS).await, "log");
    cluster.ok(r#"patch deployment web --type=merge -p '{"metadata":{"labels":{"app":null}}}'"#).await;
    assert_eq!(cluster.ok("get deployment web -o jsonpath={.metadata.labels}").await, "");
}

#[tokio::test]
async fn a_json_patch_follows_its_steps_or_does_nothing() {
    let cluster = with_deployment().await;
    let patch = r#"[{"op":"test","path":"/spec/replicas","value":0},{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:2"}]"#;
    assert_eq!(
        cluster.ok(&format!("patch deployment web --type=json -p '{patch}'")).await,
        "deployment.apps/web patched\n"
    );
    let image = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(cluster.ok(image).await, "nginx:2");
    let patch = patch.replace("\"value\":0", "\"value\":7").replace("nginx:2", "nginx:3");
    let said = cluster.fails(&format!("patch deployment web --type=json -p '{patch}'")).await;
    assert_says(&said, &["The request is invalid: the server rejected our request due to an error in our request"]);
    assert_eq!(cluster.ok(image).await, "nginx:2");
}

#[tokio::test]
async fn a_patch_that_breaks_the_object_is_refused_with_the_field() {
    let cluster = with_deployment().await;
    let said = cluster.fails(r#"patch deployment web -p '{"spec":{"replicas":-1}}'"#).await;
    assert_says(
        &said,
        &["The Deployment \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    );
    let said =
        cluster.fails(r#"patch deployment web -p '{"spec":{"selector":{"matchLabels":{"app":"other"}}}}'"#).await;
    assert_says(&said, &["The Deployment \"web\" is invalid: ", "spec.selector: Invalid value:", "field is immutable"]);
}

#[tokio::test]
async fn a_patch_reaches_status_and_scale_only_where_it_is_told_to() {
    let cluster = with_deployment().await;
    let scale = r#"patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":2}}'"#;
    assert_says(&cluster.ok(scale).await, &["web patched\n"]);
    cluster.rolled_out("web").await;
    assert_eq!(cluster.ok("get deployment web -o jsonpath={.status.replicas}").await, "2");
    let status = r#"{"status":{"allocatable":{"example.com/berth":"4"}}}"#;
    cluster.ok(&format!("patch node node-0 --type=merge -p '{status}'")).await;
    let berths = r"get node node-0 -o jsonpath={.status.allocatable.example\.com/berth}";
    assert_eq!(cluster.ok(berths).await, "", "the main path does not write status");
    let said = cluster.ok(r#"patch service kubernetes --subresource=status --type=merge -p '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}},"spec":{"type":"NodePort"}}'"#).await;
    assert_eq!(said, "service/kubernetes patched\n");
    let service =
        cluster.ok("get service kubernetes -o jsonpath='{.spec.type} {.status.loadBalancer.ingress[0].ip}'").await;
    assert_eq!(service, "ClusterIP 192.0.2.1", "the status path writes nothing else");
}
