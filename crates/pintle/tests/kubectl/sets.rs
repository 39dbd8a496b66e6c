//! StatefulSets, DaemonSets and ReplicationControllers, from one state to the next and back.

use super::table::Table;
use super::{Cluster, assert_says, squeezed};

fn workload(kind: &str, more: &str) -> String {
    let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    let selector = if kind == "ReplicationController" { "{app: db}" } else { "{matchLabels: {app: db}}" };
    format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: db}}\nspec:\n  selector: {selector}\n{more}  template:\n    \
         metadata: {{labels: {{app: db}}}}\n    spec:\n      terminationGracePeriodSeconds: 1\n      \
         containers: [{{name: db, image: 'db:1'}}]\n"
    )
}

const IMAGES: &str = "get pods -o jsonpath={.items[*].spec.containers[0].image}";

async fn goes_forth_and_back(cluster: &Cluster, resource: &str, kind: &str) {
    let followed = format!("rollout status {resource}/db --timeout=60s");
    cluster.ok(&followed).await;
    cluster.ok(&format!("set image {resource}/db db=db:2")).await;
    cluster.ok(&followed).await;
    cluster.until(IMAGES, |images| !images.is_empty() && images.split(' ').all(|image| image == "db:2")).await;
    let history = squeezed(&cluster.ok(&format!("rollout history {resource}/db")).await);
    assert_says(&history, &["REVISION CHANGE-CAUSE\n1 <none>\n2 <none>\n"]);
    let first = squeezed(&cluster.ok(&format!("rollout history {resource}/db --revision=1")).await);
    assert_says(&first, &["with revision #1", "Image: db:1\n"]);
    let said = cluster.ok(&format!("rollout undo {resource}/db")).await;
    assert_eq!(said, format!("{kind}.apps/db rolled back\n"));
    cluster.ok(&followed).await;
    cluster.until(IMAGES, |images| !images.is_empty() && images.split(' ').all(|image| image == "db:1")).await;
    let history = squeezed(&cluster.ok(&format!("rollout history {resource}/db")).await);
    assert_says(&history, &["\n2 <none>\n3 <none>\n"]);
}

#[tokio::test]
async fn a_stateful_set_is_rolled_out_and_back() {
    let cluster = Cluster::start().await;
    cluster.apply(&workload("StatefulSet", "  serviceName: db\n  replicas: 2\n")).await;
    goes_forth_and_back(&cluster, "statefulset", "statefulset").await;
    assert_eq!(Table::parse(&cluster.ok("get sts db").await).cell("db", "READY"), "2/2");
    cluster.ok("scale sts db --replicas=3").await;
    cluster
        .until("get pods -o name", |pods| pods.lines().collect::<Vec<_>>() == ["pod/db-0", "pod/db-1", "pod/db-2"])
        .await;
}

#[tokio::test]
async fn a_daemon_set_is_rolled_out_and_back() {
    let cluster = Cluster::start().await;
    cluster.apply(&workload("DaemonSet", "")).await;
    goes_forth_and_back(&cluster, "daemonset", "daemonset").await;
    let table = Table::parse(&cluster.ok("get ds db").await);
    assert_eq!((table.cell("db", "DESIRED"), table.cell("db", "AVAILABLE")), ("1", "1"));
}

#[tokio::test]
async fn a_replication_controller_is_scaled() {
    let cluster = Cluster::start().await;
    cluster.apply(&workload("ReplicationController", "  replicas: 2\n")).await;
    cluster.until("get rc db --no-headers", |line| squeezed(line).starts_with("db 2 2 2 ")).await;
    cluster.ok("scale rc db --replicas=1").await;
    cluster.until("get rc db --no-headers", |line| squeezed(line).starts_with("db 1 1 1 ")).await;
    assert_says(&cluster.ok("describe rc db").await, &["SuccessfulDelete", "replication-controller"]);
}
