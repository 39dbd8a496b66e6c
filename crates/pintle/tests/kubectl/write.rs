//! create, apply, label, annotate, edit and diff: changing objects as a whole.

use super::{Cluster, assert_says};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const SEA: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: colours, labels: {tier: front}}
data: {sea: blue, sand: yellow}
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 1
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers:
      - {name: api, image: 'api:1', env: [{name: A, value: '1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: api}, ports: [{port: 80}]}
";

#[tokio::test]
async fn create_makes_things_once() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.ok("create namespace harbour").await, "namespace/harbour created\n");
    assert_eq!(cluster.ok("create configmap a --from-literal=x=1").await, "configmap/a created\n");
    assert_eq!(cluster.ok("create secret generic s --from-literal=password=hunter2").await, "secret/s created\n");
    assert_eq!(cluster.ok("get secret s -o jsonpath={.data.password}").await, "aHVudGVyMg==");
    assert_eq!(cluster.ok("get secret s -o jsonpath={.type}").await, "Opaque");
    assert_eq!(cluster.ok("create serviceaccount robot").await, "serviceaccount/robot created\n");
    assert_eq!(
        cluster.fails("create configmap a").await,
        "error: failed to create configmap: configmaps \"a\" already exists\n"
    );
    assert_eq!(cluster.ok("create deployment web --image=nginx --replicas=0").await, "deployment.apps/web created\n");
    assert_eq!(cluster.ok("get deployment web -o jsonpath={.spec.template.spec.containers[0].name}").await, "nginx");
}

#[tokio::test]
async fn a_bad_object_is_refused_with_the_field() {
    let cluster = Cluster::start().await;
    let said = cluster.run_with("create -f -", &SEA.replace("name: colours", "name: Colours")).await;
    assert_eq!(said.code, Some(1), "{said}");
    assert_says(
        &said.stderr,
        &[
            "The ConfigMap \"Colours\" is invalid: metadata.name: Invalid value: \"Colours\": a lowercase RFC 1123 subdomain must consist of",
        ],
    );
    let said = cluster.run_with("create -f -", &DEPLOYMENT.replace("image: 'api:1'", "imgae: 'api:1'")).await;
    assert_says(&said.stderr, &["unknown field \"spec.template.spec.containers[0].imgae\""]);
}

#[tokio::test]
async fn dry_run_leaves_nothing() {
    let cluster = Cluster::start().await;
    let said = cluster.ok_with("apply --dry-run=server -f -", SEA).await;
    assert_eq!(said, "configmap/colours created (server dry run)\n");
    cluster.fails("get configmap colours").await;
    let yaml = cluster.ok("create deployment web --image=nginx --dry-run=client -o yaml").await;
    assert_says(&yaml, &["kind: Deployment\n", "image: nginx\n"]);
    cluster.fails("get deployment web").await;
}

#[tokio::test]
async fn apply_creates_then_configures_then_leaves_alone() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.apply(SEA).await, "configmap/colours created\n");
    assert_eq!(cluster.apply(SEA).await, "configmap/colours unchanged\n");
    // What was applied before and is no longer there goes; what others added stays.
    cluster.ok(r#"patch configmap colours --type=merge -p {"data":{"sky":"grey"}}"#).await;
    assert_eq!(cluster.apply(&SEA.replace(", sand: yellow", "")).await, "configmap/colours configured\n");
    assert_eq!(cluster.ok("get configmap colours -o jsonpath={.data}").await, r#"{"sea":"blue","sky":"grey"}"#);
}

#[tokio::test]
async fn apply_merges_containers_and_variables_by_name() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.apply(DEPLOYMENT).await, "deployment.apps/api created\nservice/api created\n");
    cluster.ok("set env deployment/api B=2").await;
    let changed = DEPLOYMENT.replace("api:1", "api:2");
    assert_eq!(cluster.apply(&changed).await, "deployment.apps/api configured\nservice/api unchanged\n");
    let container = "{.spec.template.spec.containers[0]";
    assert_eq!(cluster.ok(&format!("get deployment api -o jsonpath={container}.image}}")).await, "api:2");
    let names = cluster.ok(&format!("get deployment api -o jsonpath={container}.env[*].name}}")).await;
    let mut names: Vec<_> = names.split_whitespace().collect();
    names.sort_unstable();
    assert_eq!(names, ["A", "B"]);
    cluster.rolled_out("api").await;
    let deleted = cluster.ok_with("delete -f -", DEPLOYMENT).await;
    assert_says(&deleted, &["deployment.apps \"api\" deleted", "service \"api\" deleted"]);
}

#[tokio::test]
async fn replace_puts_another_in_its_place() {
    let cluster = Cluster::start().await;
    cluster.apply(SEA).await;
    assert_eq!(cluster.ok_with("replace -f -", &SEA.replace("blue", "green")).await, "configmap/colours replaced\n");
    assert_eq!(cluster.ok("get configmap colours -o jsonpath={.data.sea}").await, "green");
}

#[tokio::test]
async fn label_adds_changes_and_takes_away() {
    let cluster = Cluster::start().await;
    cluster.apply(SEA).await;
    assert_eq!(cluster.ok("label configmap colours owner=ann").await, "configmap/colours labeled\n");
    let said = cluster.fails("label configmap colours owner=bob").await;
    assert_eq!(said, "error: 'owner' already has a value (ann), and --overwrite is false\n");
    assert_eq!(cluster.ok("label configmap colours owner=bob --overwrite").await, "configmap/colours labeled\n");
    assert_eq!(cluster.ok("get configmap colours -o jsonpath={.metadata.labels.owner}").await, "bob");
    assert_eq!(cluster.ok("label configmap colours owner-").await, "configmap/colours unlabeled\n");
    assert_eq!(
        cluster.ok("label configmap colours owner-").await,
        "label \"owner\" not found.\nconfigmap/colours not labeled\n"
    );
    let said = cluster.fails("label configmap colours 'owner=not a value'").await;
    assert_says(&said, &["not a value"]);
}

#[tokio::test]
async fn annotate_adds_and_takes_away() {
    let cluster = Cluster::start().await;
    cluster.apply(SEA).await;
    assert_eq!(
        cluster.ok("annotate configmap colours 'note=any text, even this'").await,
        "configmap/colours annotated\n"
    );
    assert_eq!(
        cluster.ok("get configmap colours -o jsonpath={.metadata.annotations.note}").await,
        "any text, even this"
    );
    assert_eq!(cluster.ok("annotate configmap colours note-").await, "configmap/colours annotated\n");
    assert_eq!(cluster.ok("get configmap colours -o jsonpath={.metadata.annotations.note}").await, "");
}

/// An editor that runs a line of sed.
fn editor(cluster: &Cluster, name: &str, script: &str) -> String {
    let path = cluster.place.path(name);
    fs::write(&path, format!("#!/bin/sh\nexec sed -i '{script}' \"$1\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn edit_saves_what_the_editor_left() {
    let cluster = Cluster::start().await;
    cluster.apply(SEA).await;
    let line = "edit configmap colours";
    let with = async |editor: String| {
        let mut command = cluster.command(line);
        command.env("KUBE_EDITOR", editor);
        cluster.finish(line, command.output()).await
    };
    let answer = with(editor(&cluster, "paint", "s/sea: blue/sea: green/")).await;
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(0), "configmap/colours edited\n"), "{answer}");
    assert_eq!(cluster.ok("get configmap colours -o jsonpath={.data.sea}").await, "green");
    let answer = with(editor(&cluster, "admire", "")).await;
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), "Edit cancelled, no changes made.\n"), "{answer}");
}

#[tokio::test]
async fn diff_shows_what_apply_would_change() {
    let cluster = Cluster::start().await;
    cluster.apply(SEA).await;
    let same = cluster.run_with("diff -f -", SEA).await;
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), ""), "{same}");
    let changed = cluster.run_with("diff -f -", &SEA.replace("blue", "green")).await;
    assert_eq!(changed.code, Some(1), "{changed}");
    assert_says(&changed.stdout, &["v1.ConfigMap.default.colours", "\n-  sea: blue\n", "\n+  sea: green\n"]);
    let added = cluster.run_with("diff -f -", &SEA.replace("name: colours", "name: tones")).await;
    assert_says(&added.stdout, &["\n+kind: ConfigMap\n", "\n+  name: tones\n"]);
    assert_eq!(cluster.ok("get configmap colours -o jsonpath={.data.sea}").await, "blue", "diff changes nothing");
}

#[tokio::test]
async fn a_question_is_asked_with_create_and_a_misspelled_one_is_refused() {
    let cluster = Cluster::start().await;
    let question = "
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: jane, resourceAttributes: {verb: get, resource: pods, namespace: default}}
";
    // kubectl looks such kinds up in OpenAPI v2, in protobuf: they cannot be patched, so v3 does not tell it enough.
    let said = cluster.run_with("create -o jsonpath={.status.allowed} -f -", question).await;
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "false"), "{said}");
    let said = cluster.run_with("create -f -", &question.replace("resource: pods", "resourc: pods")).await;
    assert_eq!(said.code, Some(1), "{said}");
    assert_says(&said.stderr, &["unknown field \"resourc\" in io.k8s.api.authorization.v1.ResourceAttributes"]);
    let review = "{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: nonsense}}";
    let said = cluster.run_with("create -o jsonpath={.status.error} -f -", review).await;
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "invalid bearer token"), "{said}");
}
