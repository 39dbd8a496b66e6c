//! apply --server-side: fields have owners, and owners do not run over one another unasked.

use super::{Cluster, assert_says};

fn colours(data: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: colours}}, data: {{{data}}}}}")
}

const DATA: &str = "get configmap colours -o jsonpath={.data}";

#[tokio::test]
async fn applying_again_takes_away_what_is_no_longer_said() {
    let cluster = Cluster::start().await;
    let line = "apply --server-side -f -";
    assert_eq!(
        cluster.ok_with(line, &colours("sea: blue, sand: yellow")).await,
        "configmap/colours serverside-applied\n"
    );
    assert_eq!(cluster.ok_with(line, &colours("sea: green")).await, "configmap/colours serverside-applied\n");
    assert_eq!(cluster.ok(DATA).await, r#"{"sea":"green"}"#);
    let managers = cluster.ok("get configmap colours --show-managed-fields -o jsonpath='{range .metadata.managedFields[*]}{.manager} {.operation}{\"\\n\"}{end}'").await;
    assert_eq!(managers, "kubectl Apply\n");
}

#[tokio::test]
async fn two_managers_share_an_object() {
    let cluster = Cluster::start().await;
    cluster.ok_with("apply --server-side --field-manager=ann -f -", &colours("sea: blue")).await;
    cluster.ok_with("apply --server-side --field-manager=bob -f -", &colours("sand: yellow")).await;
    assert_eq!(cluster.ok(DATA).await, r#"{"sand":"yellow","sea":"blue"}"#);
    cluster.ok_with("apply --server-side --field-manager=bob -f -", &colours("")).await;
    assert_eq!(cluster.ok(DATA).await, r#"{"sea":"blue"}"#, "bob takes away only what is his");
}

#[tokio::test]
async fn a_conflict_names_the_owner_and_force_takes_the_field() {
    let cluster = Cluster::start().await;
    cluster.ok_with("apply --server-side --field-manager=ann -f -", &colours("sea: blue")).await;
    let refused = cluster.run_with("apply --server-side --field-manager=bob -f -", &colours("sea: red")).await;
    assert_eq!(refused.code, Some(1), "{refused}");
    assert_says(
        &refused.stderr,
        &["error: Apply failed with 1 conflict: conflict with \"ann\": .data.sea\n", "--force-conflicts"],
    );
    assert_eq!(cluster.ok(DATA).await, r#"{"sea":"blue"}"#);
    // The same value is no quarrel.
    cluster.ok_with("apply --server-side --field-manager=bob -f -", &colours("sea: blue")).await;
    let forced = "apply --server-side --force-conflicts --field-manager=bob -f -";
    assert_eq!(cluster.ok_with(forced, &colours("sea: red")).await, "configmap/colours serverside-applied\n");
    assert_eq!(cluster.ok(DATA).await, r#"{"sea":"red"}"#);
    let back = cluster.run_with("apply --server-side --field-manager=ann -f -", &colours("sea: blue")).await;
    assert_says(&back.stderr, &["conflict with \"bob\": .data.sea\n"]);
}

#[tokio::test]
async fn a_writer_that_does_not_apply_owns_what_it_wrote() {
    let cluster = Cluster::start().await;
    cluster.ok_with("apply --server-side -f -", &colours("sea: blue")).await;
    cluster.ok(r#"patch configmap colours --type=merge -p '{"data":{"sea":"grey"}}'"#).await;
    let refused = cluster.run_with("apply --server-side -f -", &colours("sea: blue")).await;
    assert_says(
        &refused.stderr,
        &["Apply failed with 1 conflict: conflict with \"kubectl-patch\" using v1: .data.sea\n"],
    );
}

#[tokio::test]
async fn containers_are_merged_by_name_and_scale_is_left_to_its_owner() {
    let cluster = Cluster::start().await;
    let manifest = |image: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{selector: {{matchLabels: {{app: web}}}}, \
             template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: web, image: '{image}'}}]}}}}}}}}"
        )
    };
    cluster.ok_with("apply --server-side -f -", &manifest("web:1")).await;
    cluster.ok("scale deployment web --replicas=3").await;
    cluster.ok_with("apply --server-side -f -", &manifest("web:2")).await;
    let got =
        cluster.ok("get deployment web -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[*].image}'").await;
    assert_eq!(got, "3 web:2");
    let diff = cluster.run_with("diff --server-side -f -", &manifest("web:3")).await;
    assert_eq!(diff.code, Some(1), "{diff}");
    assert_says(&diff.stdout, &["-      - image: web:2\n", "+      - image: web:3\n"]);
}
