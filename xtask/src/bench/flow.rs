//! `bench flow`: one flow asks for ten times as much as it gets; what another one notices.

use super::client::Target;
use super::process::Server;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

const OBJECT: &str = "/api/v1/namespaces/default/configmaps/bench-flow";
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// Objects in the collection that the greedy flow lists.
const LISTED: usize = 500;
/// How long each phase lasts.
const PHASE: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;

pub(crate) async fn bench(program: &Path) -> Result<()> {
    let server = Server::start(program, 0, 16503).await?;
    let admin = &server.target;
    prepare(admin).await?;
    let greedy = account(admin, "greedy").await?;
    let modest = account(admin, "modest").await?;
    let seats = seats(admin).await?;
    println!("priority level workload-low: {seats} seats; the greedy flow keeps {} requests under way", 10 * seats);
    for (name, path) in [("gets", OBJECT), ("lists of 500", COLLECTION)] {
        for _ in 0..ROUNDS {
            round(admin, &greedy, &modest, name, path, 10 * seats).await?;
        }
    }
    Ok(())
}

async fn round(
    admin: &Target,
    greedy: &Target,
    modest: &Target,
    name: &str,
    path: &'static str,
    wide: usize,
) -> Result<()> {
    let alone = quick(modest).await?;
    let over = Arc::new(AtomicBool::new(false));
    let (served, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (mut load, threads) = (Vec::new(), patient_threads()?);
    for _ in 0..wide {
        let (greedy, over, served, refused) = (greedy.clone(), over.clone(), served.clone(), refused.clone());
        load.push(threads.spawn(async move {
            let mut connection = greedy.connect().await?;
            while !over.load(Ordering::Relaxed) {
                let (code, _) = connection.call(Method::GET, path, "", Bytes::new()).await?;
                let count = if code == 429 { &refused } else { &served };
                count.fetch_add(1, Ordering::Relaxed);
                ensure!(code == 200 || code == 429, "{code}");
            }
            anyhow::Ok(())
        }));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    let before = served.load(Ordering::Relaxed);
    let (beside, system) = tokio::join!(quick(modest), quick(admin));
    let rate = (served.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    for one in load {
        one.await??;
    }
    threads.shutdown_background();
    let (beside, system) = (beside?, system?);
    println!(
        "{name}: modest flow p50 {:.2} → {:.2} ms, p99 {:.2} → {:.2} ms ({:.1} ×); administrator p99 {:.2} ms; greedy {rate:.0} a second, {} refused",
        ms(alone[0]),
        ms(beside[0]),
        ms(alone[1]),
        ms(beside[1]),
        beside[1].as_secs_f64() / alone[1].as_secs_f64(),
        ms(system[1]),
        refused.load(Ordering::Relaxed),
    );
    Ok(())
}

/// Threads for the load, which let everything else on the machine go first: what is measured is what the server does to others
/// who ask, not what the load's own work does to them.
fn patient_threads() -> Result<tokio::runtime::Runtime> {
    let patient = || {
        // Where it is not allowed the figures are worse, not better.
        let _ = rustix::process::setpriority_process(None, 19);
    };
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().on_thread_start(patient).build()?)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// One request after the other, on a thread of its own, so that what the load waits for is not measured: p50 and p99.
async fn quick(target: &Target) -> Result<[Duration; 2]> {
    let target = target.clone();
    let thread = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut connection = target.connect().await?;
            let (began, mut times) = (Instant::now(), Vec::new());
            while began.elapsed() < PHASE {
                let start = Instant::now();
                let (code, body) = connection.call(Method::GET, OBJECT, "", Bytes::new()).await?;
                times.push(start.elapsed());
                ensure!(code == 200, "{code}: {}", String::from_utf8_lossy(&body));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            times.sort_unstable();
            let at = |share: usize| times[(times.len() - 1) * share / 100];
            Ok([at(50), at(99)])
        })
    });
    thread.await?
}

async fn prepare(admin: &Target) -> Result<()> {
    let mut connection = admin.connect().await?;
    let data = "x".repeat(1024);
    for i in 0..LISTED {
        let name = if i == 0 { "bench-flow".to_owned() } else { format!("bench-flow-{i}") };
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"filler": data}});
        send(&mut connection, COLLECTION, &object).await?;
    }
    Ok(())
}

async fn send(connection: &mut super::client::Connection, path: &str, object: &Value) -> Result<Value> {
    let (code, body) = connection.call(Method::POST, path, "application/json", object.to_string().into()).await?;
    ensure!(code == 201, "{path}: {code} {}", String::from_utf8_lossy(&body));
    Ok(serde_json::from_slice(&body)?)
}

/// A service account that may read, and its token.
pub(crate) async fn account(admin: &Target, name: &str) -> Result<Target> {
    let mut connection = admin.connect().await?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    send(&mut connection, accounts, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}))
        .await?;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("bench-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}]});
    send(&mut connection, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let answer = send(&mut connection, &format!("{accounts}/{name}/token"), &request).await?;
    let token = answer["status"]["token"].as_str().context("no token")?.to_owned();
    Target::new(&admin.address, None, Some(token))
}

/// The seats of the level in which service accounts are.
async fn seats(admin: &Target) -> Result<usize> {
    let (_, body) = admin.connect().await?.call(Method::GET, "/metrics", "", Bytes::new()).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let start = "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"workload-low\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(start)).context("no such metric")?;
    Ok(line.trim().parse()?)
}
