//! `cargo xtask bench informer`: what 100,000 Pods take in an informer, how long they take to come, and what reading costs.
//!
//! Each retention is measured in a process of its own, by its resident memory before and after. There the server is a
//! function that writes pages as they are asked for, so that nothing but the informer keeps anything, and the allocator
//! gives back at once what it does not use (`MIMALLOC_PURGE_DELAY=0`): it would keep pages of the list for later.

mod pods;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::client::Body;
use kube::core::PartialObjectMeta;
use pintle_meta::Random;
use pintle_runtime::{Informer, Informers, Key, Retention, Selection, Shutdown};
use pods::Template;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

const PODS: usize = 100_000;

/// Few enough to be kept decoded by default.
const FEW: usize = 5_000;

pub(crate) async fn bench() -> Result<()> {
    println!(
        "| Pods | kept | JSON, MB | resident, MB | ratio | bytes each | counted, MB | sync, s | get, µs | all, ms | by index (200), µs |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for mode in ["default-few", "decoded-few", "default", "decoded", "everything", "metadata"] {
        let mut row = Command::new(std::env::current_exe()?);
        row.args(["bench", &format!("informer:{mode}")]).env("MIMALLOC_PURGE_DELAY", "0");
        let status = row.status()?;
        anyhow::ensure!(status.success(), "measuring {mode} failed");
    }
    println!();
    sync().await
}

/// How long 100,000 Pods take to come from a server in this process, with a handler that is told of each.
async fn sync() -> Result<()> {
    let (_server, client) = pods::server().await?;
    println!("making {PODS} Pods on a server in this process …");
    let started = Instant::now();
    pods::populate(&client, PODS).await?;
    println!("made in {:.1} s", started.elapsed().as_secs_f64());
    println!("| kept | sync of {PODS} Pods from a server in this process, s (processor time), three rounds |");
    println!("|---|---|");
    let decoded = || Retention::<Pod>::default().decoded_up_to(usize::MAX);
    sync_rows(&client, "default", |informers| informers.of::<Pod>()).await?;
    sync_rows(&client, "decoded", |informers| informers.retain(Selection::everything(), decoded())).await?;
    sync_rows(&client, "metadata", |informers| informers.metadata(&ApiResource::erase::<Pod>(&()))).await
}

async fn sync_rows<K>(client: &Client, name: &str, start: impl Fn(&Informers) -> Informer<K>) -> Result<()>
where
    K: pintle_runtime::Kind,
{
    print!("| {name} |");
    for _ in 0..3 {
        let (_trigger, shutdown) = Shutdown::new();
        let told = Arc::new(AtomicU64::new(0));
        let (started, before) = (Instant::now(), processor()?);
        let informer = start(&Informers::new(client.clone(), Random::seeded(1), shutdown));
        let _registration = informer.on_change({
            let told = told.clone();
            move |_| _ = told.fetch_add(1, Ordering::Relaxed)
        });
        informer.synced().await;
        let took = started.elapsed();
        assert_eq!((informer.len(), told.load(Ordering::Relaxed)), (PODS, PODS as u64));
        print!(" {:.2} ({:.2})", took.as_secs_f64(), processor()? - before);
    }
    println!(" |");
    Ok(())
}

/// Seconds of processor time that this process has taken.
fn processor() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().context("Linux tells times")?.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}

/// One row of the table, in this process.
pub(crate) async fn row(mode: &str) -> Result<()> {
    if mode == "sync" {
        return sync().await;
    }
    let template = Template::make().await?;
    // What is there once, whatever the number of objects, shows when the number is changed.
    let pods = std::env::var("PINTLE_BENCH_PODS").ok().and_then(|pods| pods.parse().ok()).unwrap_or(PODS);
    match mode {
        "default" => pods_row(mode, template, pods, Retention::default()).await,
        "default-few" => pods_row(mode, template, FEW, Retention::default()).await,
        "decoded" => pods_row(mode, template, pods, Retention::default().decoded_up_to(usize::MAX)).await,
        "decoded-few" => pods_row(mode, template, FEW, Retention::default().decoded_up_to(usize::MAX)).await,
        "everything" => pods_row(mode, template, pods, Retention::everything()).await,
        "metadata" => {
            let (client, json) = serving(template, pods, true);
            let (_trigger, shutdown) = Shutdown::new();
            let informers = Informers::new(client, Random::seeded(1), shutdown);
            let measured = synced(|| informers.metadata(&ApiResource::erase::<Pod>(&()))).await?;
            let informer: &Informer<PartialObjectMeta<DynamicObject>> = &measured.informer;
            let keys: Vec<Key> = informer.all().iter().map(|object| Key::of(object.as_ref())).collect();
            print_row(mode, &measured, informer.len(), json.load(Ordering::Relaxed), informer.bytes(), &keys);
            report(|key| drop(informer.get(key)), || informer.all().len(), || 0, &keys);
            Ok(())
        }
        other => bail!("no retention is called {other}"),
    }
}

/// Index of Pods: who owns them.
fn owners(pod: &Pod) -> Vec<String> {
    pod.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
}

async fn pods_row(mode: &str, template: Template, count: usize, retention: Retention<Pod>) -> Result<()> {
    let (client, json) = serving(template, count, false);
    let (_trigger, shutdown) = Shutdown::new();
    let informers = Informers::new(client, Random::seeded(1), shutdown);
    let measured = synced(|| {
        let informer = informers.retain(Selection::everything(), retention);
        informer.index(owners);
        informer
    })
    .await?;
    let informer = &measured.informer;
    let all = informer.all();
    let middle = all.get(count / 2).and_then(|pod| pod.metadata.owner_references.as_ref()?.first());
    let owner = middle.map(|owner| owner.uid.clone()).context("Pods have owners")?;
    let keys: Vec<Key> = all.iter().map(|pod| Key::of(pod.as_ref())).collect();
    drop(all);
    print_row(mode, &measured, informer.len(), json.load(Ordering::Relaxed), informer.bytes(), &keys);
    report(|key| drop(informer.get(key)), || informer.all().len(), || informer.by(owners, &owner).len(), &keys);
    Ok(())
}

struct Measured<K> {
    informer: Informer<K>,
    resident: f64,
    took: Duration,
}

async fn synced<K>(start: impl FnOnce() -> Informer<K>) -> Result<Measured<K>>
where
    K: pintle_runtime::Kind,
{
    let before = resident()?;
    let started = Instant::now();
    let informer = start();
    informer.synced().await;
    let took = started.elapsed();
    // The allocator gives back what the pages took only after a while.
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(Measured { resident: resident()? - before, informer, took })
}

fn print_row<K>(mode: &str, measured: &Measured<K>, count: usize, json: u64, counted: usize, keys: &[Key]) {
    let json = json as f64 / 1e6;
    let each = measured.resident * 1e6 / keys.len() as f64;
    print!(
        "| {count} | {mode} | {json:.0} | {:.0} | {:.2} | {each:.0} | {:.0} | {:.2} |",
        measured.resident,
        measured.resident / json,
        counted as f64 / 1e6,
        measured.took.as_secs_f64()
    );
}

/// What reading costs: a get of a key not read lately, all, and one index value.
fn report(get: impl Fn(&Key), all: impl Fn() -> usize, by_index: impl Fn() -> usize, keys: &[Key]) {
    let gets = 5_000.min(keys.len());
    let started = Instant::now();
    (0..gets).for_each(|number| get(&keys[number * 7919 % keys.len()]));
    let get = started.elapsed().as_secs_f64() * 1e6 / gets as f64;
    let started = Instant::now();
    let count = all();
    let all = started.elapsed().as_secs_f64() * 1e3;
    let started = Instant::now();
    let found = by_index();
    let index = started.elapsed().as_secs_f64() * 1e6;
    assert_eq!(count, keys.len());
    println!(" {get:.2} | {all:.1} | {} |", if found == 0 { String::new() } else { format!("{index:.0}") });
}

/// A client whose server writes each page when it is asked for, and counts the bytes of the objects.
fn serving(template: Template, count: usize, metadata: bool) -> (Client, Arc<AtomicU64>) {
    let (template, json) = (Arc::new(template), Arc::new(AtomicU64::new(0)));
    let bytes = json.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (template, json) = (template.clone(), json.clone());
        async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            if query.contains("watch=true") {
                // Nothing ever happens.
                std::future::pending::<()>().await;
            }
            let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
            let (from, limit) = (value("continue=").unwrap_or(0), value("limit=").unwrap_or(count));
            let to = (from + limit).min(count);
            let mut items = Vec::with_capacity(limit);
            for number in from..to {
                items.push(if metadata { template.metadata(number, count)? } else { template.pod(number, count) });
            }
            json.fetch_add(items.iter().map(|item| item.len() as u64).sum(), Ordering::Relaxed);
            let next = if to < count { to.to_string() } else { String::new() };
            // As servers tell it.
            let left = if to < count { format!(r#","remainingItemCount":{}"#, count - to) } else { String::new() };
            let text = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9999999","continue":"{next}"{left}}},"items":[{}]}}"#,
                items.join(",")
            );
            Ok::<_, anyhow::Error>(http::Response::new(Body::from(text.into_bytes())))
        }
    });
    (Client::new(service, "default"), bytes)
}

/// This process's resident memory in MB.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("Linux tells VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024.0 / 1e6)
}
