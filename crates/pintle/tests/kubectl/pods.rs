//! run, and what becomes of Pods that end, crash or cannot start; logs and exec.

use super::table::Table;
use super::{Cluster, assert_says, squeezed};

async fn pods_until(cluster: &Cluster, fits: impl Fn(&Table) -> bool) -> Table {
    Table::parse(&cluster.until("get pods", |printed| fits(&Table::parse(printed))).await)
}

/// `RESTARTS` is `2` or `2 (3s ago)`.
fn restarts(table: &Table, name: &str) -> u32 {
    table.cell(name, "RESTARTS").split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn run_starts_a_pod() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.ok("run web --image=nginx --port=80 --env=A=1 --labels=tier=front").await, "pod/web created\n");
    assert_eq!(cluster.ok("wait --for=condition=Ready pod/web --timeout=60s").await, "pod/web condition met\n");
    let pods = Table::parse(&cluster.ok("get pods -L tier").await);
    assert_eq!(pods.rows[0][..4], ["web", "1/1", "Running", "0"]);
    assert_eq!(pods.cell("web", "TIER"), "front");
    let host = cluster.ok("get pod web -o jsonpath='{.spec.nodeName} {.status.qosClass} {.spec.restartPolicy}'").await;
    assert_eq!(host, "node-0 BestEffort Always");
}

#[tokio::test]
async fn a_pod_that_ends_is_completed() {
    let cluster = Cluster::start().await;
    cluster.ok("run task --image=busybox --restart=Never --annotations=simulated.pintle.dev/run-for=100ms").await;
    let said = cluster.ok("wait --for=jsonpath={.status.phase}=Succeeded pod/task --timeout=60s").await;
    assert_eq!(said, "pod/task condition met\n");
    let pods = Table::parse(&cluster.ok("get pods").await);
    assert_eq!(pods.rows[0][..4], ["task", "0/1", "Completed", "0"]);
    assert_says(
        &squeezed(&cluster.ok("describe pod task").await),
        &["Status: Succeeded\n", "State: Terminated\nReason: Completed\nExit Code: 0\n", "Ready False\n"],
    );
}

#[tokio::test]
async fn a_pod_that_fails_is_in_error() {
    let cluster = Cluster::start().await;
    cluster.ok("run task --image=busybox --restart=Never --annotations=simulated.pintle.dev/exit-code=3").await;
    let pods = pods_until(&cluster, |pods| pods.cell("task", "STATUS") == "Error").await;
    assert_eq!(pods.rows[0][..4], ["task", "0/1", "Error", "0"]);
    let code = "get pod task -o jsonpath='{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}'";
    assert_eq!(cluster.ok(code).await, "Failed 3");
}

#[tokio::test]
async fn a_pod_that_crashes_backs_off_and_counts_restarts() {
    let cluster = Cluster::start().await;
    cluster.ok("run broken --image=busybox --annotations=simulated.pintle.dev/exit-code=1").await;
    let pods = pods_until(&cluster, |pods| {
        pods.cell("broken", "STATUS") == "CrashLoopBackOff" && restarts(pods, "broken") >= 1
    })
    .await;
    assert_eq!(pods.cell("broken", "READY"), "0/1");
    assert!(pods.cell("broken", "RESTARTS").ends_with(" ago)"), "{:?}", pods.rows);
    assert_eq!(cluster.ok("get pod broken -o jsonpath={.status.phase}").await, "Running");
    let said = squeezed(&cluster.ok("describe pod broken").await);
    assert_says(
        &said,
        &["State: Waiting\nReason: CrashLoopBackOff\n", "Last State: Terminated\nReason: Error\nExit Code: 1\n"],
    );
    let events = cluster.until("events --for=pod/broken --types=Warning", |events| events.contains("BackOff")).await;
    assert_says(
        &squeezed(&events),
        &["Warning BackOff Pod/broken Back-off restarting failed container broken in pod broken"],
    );
}

#[tokio::test]
async fn a_pod_whose_image_cannot_be_pulled_says_so() {
    let cluster = Cluster::start().await;
    cluster.ok("run stuck --image=ghost --annotations=simulated.pintle.dev/pull-fails=true").await;
    let pods =
        pods_until(&cluster, |pods| ["ErrImagePull", "ImagePullBackOff"].contains(&pods.cell("stuck", "STATUS"))).await;
    assert_eq!(pods.cell("stuck", "READY"), "0/1");
    cluster
        .until("events --for=pod/stuck --types=Warning", |events| events.contains("Failed to pull image \"ghost\""))
        .await;
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_says_why() {
    let cluster = Cluster::start().await;
    cluster.ok(r#"run huge --image=nginx --overrides={"spec":{"containers":[{"name":"huge","image":"nginx","resources":{"requests":{"cpu":"64"}}}]}}"#).await;
    let events = cluster.until("events --for=pod/huge", |events| events.contains("FailedScheduling")).await;
    assert_says(
        &squeezed(&events),
        &["Warning FailedScheduling Pod/huge 0/1 nodes are available: 1 Insufficient cpu."],
    );
    let pods = Table::parse(&cluster.ok("get pods").await);
    assert_eq!(pods.rows[0][..4], ["huge", "0/1", "Pending", "0"]);
}

#[tokio::test]
async fn a_deleted_pod_is_replaced() {
    let cluster = Cluster::with_web().await;
    let before = cluster.ok("get pods -o name").await;
    let victim = before.lines().next().unwrap();
    let name = victim.strip_prefix("pod/").unwrap();
    assert_says(&cluster.ok(&format!("delete {victim}")).await, &[&format!("pod \"{name}\" deleted")]);
    cluster.until("get pods", |printed| printed.matches(" Running ").count() == 2 && !printed.contains(name)).await;
}

#[tokio::test]
async fn logs_of_a_simulated_pod_are_its_script_and_a_command_in_it_says_why_it_cannot_run() {
    let cluster = Cluster::start().await;
    cluster.ok("run web --image=nginx --annotations=simulated.pintle.dev/log=hello").await;
    cluster.ok("run quiet --image=nginx").await;
    cluster.ok("wait --for=condition=Ready pod/web pod/quiet --timeout=60s").await;
    assert_eq!(cluster.ok("logs web").await, "hello\n");
    assert_eq!(cluster.ok("logs quiet").await, "");
    let said = cluster.fails("logs web -c nosuch").await;
    assert_says(&said, &["container nosuch is not valid for pod web"]);
    let said = cluster.fails("logs web --previous").await;
    assert_says(&said, &["(BadRequest): previous terminated container \"web\" in pod \"web\" not found"]);
    let said = cluster.fails("exec web -- ls").await;
    assert_says(&said, &["this container runtime cannot run commands for others"]);
    let said = cluster.fails("logs ghost").await;
    assert_says(&said, &["(NotFound): pods \"ghost\" not found"]);
}
