//! scale, set image and rollout: a Deployment from one state to the next and back.

use super::table::Table;
use super::{Cluster, assert_says, squeezed};

const IMAGE: &str = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
const POD_IMAGES: &str = "get pods -o jsonpath={.items[*].spec.containers[0].image}";

/// The images of the Pods once no other is left.
async fn only_image(cluster: &Cluster, image: &str) {
    cluster.until(POD_IMAGES, |images| !images.is_empty() && images.split(' ').all(|i| i == image)).await;
}

#[tokio::test]
async fn scale_makes_more_and_fewer_pods() {
    let cluster = Cluster::with_web().await;
    assert_eq!(cluster.ok("scale deployment/web --replicas=4").await, "deployment.apps/web scaled\n");
    cluster.rolled_out("web").await;
    assert_eq!(Table::parse(&cluster.ok("get deployment web").await).cell("web", "READY"), "4/4");
    assert_eq!(
        cluster.ok("scale deployment web --replicas=1 --current-replicas=4").await,
        "deployment.apps/web scaled\n"
    );
    cluster.until("get pods -o name", |pods| pods.lines().count() == 1).await;
    let said = cluster.fails("scale deployment web --replicas=2 --current-replicas=4").await;
    assert_says(&said, &["Expected replicas to be 4, was 1"]);
}

#[tokio::test]
async fn set_image_rolls_out_new_pods() {
    let cluster = Cluster::with_web().await;
    let said = cluster.ok("set image deployment/web nginx=nginx:1.26").await;
    assert_eq!(said, "deployment.apps/web image updated\n");
    cluster.rolled_out("web").await;
    assert_eq!(cluster.ok(IMAGE).await, "nginx:1.26");
    only_image(&cluster, "nginx:1.26").await;
    let sets =
        Table::parse(&cluster.ok("get rs --sort-by=.metadata.annotations.deployment\\.kubernetes\\.io/revision").await);
    let desired: Vec<_> = sets.rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(desired, ["0", "2"], "the old ReplicaSet stays for going back");
    let said = cluster.fails("set image deployment/web ghost=nginx:1.27").await;
    assert_says(&said, &["error: unable to find container named \"ghost\""]);
}

#[tokio::test]
async fn rollout_status_follows_until_it_is_done() {
    let cluster = Cluster::start().await;
    cluster.apply(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: slow}, spec: {replicas: 2, selector: {matchLabels: {app: slow}}, template: \
         {metadata: {labels: {app: slow}, annotations: {simulated.pintle.dev/start-delay: 700ms}}, spec: {containers: [{name: a, image: a}]}}}}",
    )
    .await;
    let said = cluster.ok("rollout status deployment/slow --timeout=60s").await;
    assert_says(&said, &["Waiting for deployment", "deployment \"slow\" successfully rolled out\n"]);
}

#[tokio::test]
async fn rollout_status_gives_up_after_its_time() {
    let cluster = Cluster::with_web().await;
    let ghost = r#"{"metadata":{"annotations":{"simulated.pintle.dev/pull-fails":"true"}},"spec":{"containers":[{"name":"nginx","image":"ghost"}]}}"#;
    cluster.ok(&format!(r#"patch deployment web -p '{{"spec":{{"template":{ghost}}}}}'"#)).await;
    let said = cluster.fails("rollout status deployment/web --timeout=1s").await;
    assert_says(&said, &["error: timed out waiting for the condition"]);
    // The old Pods serve on while the new one cannot start.
    cluster.until("get pods", |pods| pods.contains("ImagePullBackOff") || pods.contains("ErrImagePull")).await;
    assert_eq!(cluster.ok("get deployment web -o jsonpath={.status.availableReplicas}").await, "2");
}

#[tokio::test]
async fn rollout_history_lists_the_revisions() {
    let cluster = Cluster::with_web().await;
    cluster.ok("annotate deployment web kubernetes.io/change-cause='the first one'").await;
    cluster.until("rollout history deployment/web", |history| squeezed(history).contains("1 the first one\n")).await;
    cluster.ok("set image deployment/web nginx=nginx:1.26").await;
    cluster.ok("annotate deployment web kubernetes.io/change-cause='a newer nginx' --overwrite").await;
    cluster.rolled_out("web").await;
    let history = cluster.until("rollout history deployment/web", |history| history.contains("a newer nginx")).await;
    let lines: Vec<_> = history.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        ["deployment.apps/web", "REVISION  CHANGE-CAUSE", "1         the first one", "2         a newer nginx", ""]
    );
    let one = squeezed(&cluster.ok("rollout history deployment/web --revision=1").await);
    assert_says(&one, &["deployment.apps/web with revision #1\nPod Template:\n", "Image: nginx:1.25\n"]);
}

#[tokio::test]
async fn rollout_undo_goes_back() {
    let cluster = Cluster::with_web().await;
    for image in ["nginx:1.26", "nginx:1.27"] {
        cluster.ok(&format!("set image deployment/web nginx={image}")).await;
        cluster.rolled_out("web").await;
    }
    assert_eq!(cluster.ok("rollout undo deployment/web").await, "deployment.apps/web rolled back\n");
    cluster.rolled_out("web").await;
    assert_eq!(cluster.ok(IMAGE).await, "nginx:1.26");
    only_image(&cluster, "nginx:1.26").await;
    assert_eq!(cluster.ok("rollout undo deployment/web --to-revision=1").await, "deployment.apps/web rolled back\n");
    cluster.rolled_out("web").await;
    assert_eq!(cluster.ok(IMAGE).await, "nginx:1.25");
    let history = cluster.ok("rollout history deployment/web").await;
    let revisions: Vec<_> = history.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(
        revisions,
        ["deployment.apps/web", "REVISION", "3", "4", "5"],
        "a revision gone back to becomes the newest"
    );
    let said = cluster.fails("rollout undo deployment/web --to-revision=9").await;
    assert_says(&said, &["error: unable to find specified revision 9 in history"]);
}

#[tokio::test]
async fn rollout_restart_replaces_every_pod() {
    let cluster = Cluster::with_web().await;
    let before = cluster.ok("get pods -o name").await;
    assert_eq!(cluster.ok("rollout restart deployment/web").await, "deployment.apps/web restarted\n");
    cluster.rolled_out("web").await;
    cluster
        .until("get pods -o name", |now| now.lines().count() == 2 && now.lines().all(|pod| !before.contains(pod)))
        .await;
    let stamp =
        r"get deployment web -o jsonpath={.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt}";
    assert_ne!(cluster.ok(stamp).await, "");
}

#[tokio::test]
async fn rollout_pause_holds_changes_back_until_resume() {
    let cluster = Cluster::with_web().await;
    assert_eq!(cluster.ok("rollout pause deployment/web").await, "deployment.apps/web paused\n");
    let said = cluster.fails("rollout pause deployment/web").await;
    assert_says(&said, &["\"web\" is already paused"]);
    cluster.ok("set image deployment/web nginx=nginx:1.26").await;
    // The loop has seen the change, and nothing new was made of it.
    cluster
        .until("get deployment web -o jsonpath='{.metadata.generation} {.status.observedGeneration}'", |seen| {
            seen.split_once(' ').is_some_and(|(generation, observed)| generation == observed)
        })
        .await;
    assert_eq!(cluster.ok("get rs -o name").await.lines().count(), 1);
    assert_says(&cluster.ok("describe deployment web").await, &["DeploymentPaused"]);
    let said = cluster.fails("rollout undo deployment/web --to-revision=1").await;
    assert_says(&said, &["you cannot rollback a paused deployment"]);
    assert_eq!(cluster.ok("rollout resume deployment/web").await, "deployment.apps/web resumed\n");
    cluster.rolled_out("web").await;
    only_image(&cluster, "nginx:1.26").await;
    assert_says(&cluster.fails("rollout resume deployment/web").await, &["\"web\" is not paused"]);
}
