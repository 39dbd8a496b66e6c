//! Custom resources: defined, made, listed, explained, scaled and gone like any other kind.

use super::table::Table;
use super::{Cluster, assert_says};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.harbour.example.com}
spec:
  group: harbour.example.com
  scope: Namespaced
  names: {plural: ships, singular: ship, kind: Ship, shortNames: [sh], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.masts, statusReplicasPath: .status.masts}}
    additionalPrinterColumns:
    - {name: Masts, type: integer, jsonPath: .spec.masts}
    - {name: Flag, type: string, jsonPath: .spec.flag}
    - {name: Captain, type: string, jsonPath: .spec.captain, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: Ship is something that floats.
        required: [spec]
        properties:
          spec:
            type: object
            required: [masts]
            properties:
              masts: {type: integer, minimum: 1, maximum: 7, description: How many masts it has.}
              flag: {type: string, default: none}
              captain: {type: string}
          status: {type: object, properties: {masts: {type: integer}}}
";

fn ship(name: &str, spec: &str) -> String {
    format!("{{apiVersion: harbour.example.com/v1, kind: Ship, metadata: {{name: {name}}}, spec: {{{spec}}}}}")
}

async fn with_ships() -> Cluster {
    let cluster = Cluster::start().await;
    let said = cluster.apply(DEFINITION).await;
    assert_eq!(said, "customresourcedefinition.apiextensions.k8s.io/ships.harbour.example.com created\n");
    cluster.ok("wait --for=condition=Established crd/ships.harbour.example.com --timeout=60s").await;
    cluster
}

#[tokio::test]
async fn a_new_kind_is_listed_with_its_short_name_and_columns() {
    let cluster = with_ships().await;
    assert_eq!(
        cluster.apply(&ship("argo", "masts: 2, captain: jason")).await,
        "ship.harbour.example.com/argo created\n"
    );
    let ships = Table::parse(&cluster.ok("get sh").await);
    assert_eq!(ships.header, ["NAME", "MASTS", "FLAG", "AGE"]);
    assert_eq!(ships.rows[0][..3], ["argo", "2", "none"]);
    let wide = Table::parse(&cluster.ok("get ships -o wide").await);
    assert_eq!(wide.header, ["NAME", "MASTS", "FLAG", "CAPTAIN", "AGE"]);
    assert_eq!(wide.cell("argo", "CAPTAIN"), "jason");
    assert_eq!(cluster.ok("get ship argo -o jsonpath={.spec.flag}").await, "none");
    assert_says(&cluster.ok("get all").await, &["ship.harbour.example.com/argo"]);
    let resources = cluster.ok("api-resources --api-group=harbour.example.com --no-headers").await;
    assert_eq!(
        resources.split_whitespace().collect::<Vec<_>>(),
        ["ships", "sh", "harbour.example.com/v1", "true", "Ship"]
    );
    let definitions = Table::parse(&cluster.ok("get crd").await);
    assert_eq!(definitions.header, ["NAME", "CREATED AT"]);
}

#[tokio::test]
async fn a_bad_custom_object_is_refused_with_the_field() {
    let cluster = with_ships().await;
    let answer = cluster.run_with("create -f -", &ship("argo", "masts: 9")).await;
    assert_eq!(answer.code, Some(1), "{answer}");
    assert_says(
        &answer.stderr,
        &[
            "The Ship \"argo\" is invalid: spec.masts: Invalid value: 9: spec.masts in body should be less than or equal to 7",
        ],
    );
    let answer = cluster.run_with("create -f -", &ship("argo", "flag: red")).await;
    assert_says(&answer.stderr, &["The Ship \"argo\" is invalid: spec.masts: Required value"]);
    let answer = cluster.run_with("create -f -", &ship("argo", "masts: 1, colour: red")).await;
    assert_says(&answer.stderr, &["unknown field \"spec.colour\""]);
}

#[tokio::test]
async fn a_custom_kind_is_explained() {
    let cluster = with_ships().await;
    let said = cluster.ok("explain ship").await;
    assert_says(
        &said,
        &["GROUP:      harbour.example.com\nKIND:       Ship\nVERSION:    v1\n", "Ship is something that floats."],
    );
    assert_says(&said, &["  metadata\t<ObjectMeta>\n", "  spec\t<Object> -required-\n"]);
    let said = cluster.ok("explain ship.spec.masts").await;
    assert_says(&said, &["FIELD: masts <integer>\n", "How many masts it has."]);
    let said = cluster.ok("explain ship.spec --recursive").await;
    assert_says(&said, &["FIELDS:\n  captain\t<string>\n  flag\t<string>\n  masts\t<integer> -required-\n"]);
}

#[tokio::test]
async fn custom_objects_are_written_like_any_other() {
    let cluster = with_ships().await;
    cluster.apply(&ship("argo", "masts: 2")).await;
    assert_eq!(cluster.apply(&ship("argo", "masts: 2")).await, "ship.harbour.example.com/argo unchanged\n");
    assert_eq!(cluster.ok("scale ship argo --replicas=3").await, "ship.harbour.example.com/argo scaled\n");
    assert_eq!(cluster.ok("get ship argo -o jsonpath={.spec.masts}").await, "3");
    assert_eq!(cluster.ok("label ship argo sea=aegean").await, "ship.harbour.example.com/argo labeled\n");
    assert_eq!(cluster.ok("get ships -l sea=aegean -o name").await, "ship.harbour.example.com/argo\n");
    let said = cluster.ok(r#"patch ship argo --type=merge -p '{"spec":{"flag":"greek"}}'"#).await;
    assert_eq!(said, "ship.harbour.example.com/argo patched\n");
    let said = cluster.ok_with("apply --server-side --force-conflicts -f -", &ship("argo", "masts: 4")).await;
    assert_eq!(said, "ship.harbour.example.com/argo serverside-applied\n");
    assert_says(&cluster.ok("describe ship argo").await, &["Kind:         Ship", "Masts:  4"]);
    assert_says(&cluster.ok("delete ship argo").await, &["ship.harbour.example.com \"argo\" deleted"]);
}

#[tokio::test]
async fn the_kind_goes_with_its_definition() {
    let cluster = with_ships().await;
    cluster.apply(&ship("argo", "masts: 2")).await;
    cluster.ok("delete crd ships.harbour.example.com").await;
    assert_says(&cluster.fails("get ships").await, &["the server"]);
    cluster.apply(DEFINITION).await;
    cluster.ok("wait --for=condition=Established crd/ships.harbour.example.com --timeout=60s").await;
    assert_eq!(cluster.ok("get ships -o name").await, "", "the old objects do not come back");
}
