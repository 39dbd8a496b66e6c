//! The loads: the same requests, in the same order, to whichever server.

use super::client::Target;
use super::process::processor;
use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) const OBJECTS: usize = 3000;
const CLIENTS: usize = 32;
/// Objects that are made for watchers have numbers of their own.
const WATCHED: usize = 100_000;
const BASE: &str = "/api/v1/namespaces/default/configmaps";

/// What one load showed.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Processor time of the server a request.
    pub(crate) cost: Duration,
}

/// One request of a load, by its number.
type Make = fn(usize) -> (Method, String, &'static str, Bytes);

/// Every load in order. They build on each other: what is created first is deleted last.
pub(crate) fn loads() -> Vec<(&'static str, usize, Make)> {
    vec![
        ("create", OBJECTS, |i| (Method::POST, BASE.into(), "application/json", object(i, "created"))),
        ("get", 5 * OBJECTS, |i| (Method::GET, format!("{BASE}/bench-{}", i % OBJECTS), "", Bytes::new())),
        ("list all", 200, |_| (Method::GET, BASE.into(), "", Bytes::new())),
        ("list by selector (30 of 3,000)", 2000, |i| {
            (Method::GET, format!("{BASE}?labelSelector=shard%3D{}", i % 100), "", Bytes::new())
        }),
        ("list limit 500", 600, |_| (Method::GET, format!("{BASE}?limit=500"), "", Bytes::new())),
        ("update", OBJECTS, |i| (Method::PUT, format!("{BASE}/bench-{i}"), "application/json", object(i, "updated"))),
        ("merge patch", OBJECTS, |i| {
            let patch = json!({"metadata": {"annotations": {"step": "patched"}}}).to_string();
            (Method::PATCH, format!("{BASE}/bench-{i}"), "application/merge-patch+json", patch.into())
        }),
        ("server-side apply", OBJECTS, |i| {
            let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("bench-{i}")}, "data": {"applied": "yes"}});
            (
                Method::PATCH,
                format!("{BASE}/bench-{i}?fieldManager=bench&force=true"),
                "application/apply-patch+yaml",
                applied.to_string().into(),
            )
        }),
        ("delete", OBJECTS, |i| (Method::DELETE, format!("{BASE}/bench-{i}"), "", Bytes::new())),
    ]
}

fn object(i: usize, step: &str) -> Bytes {
    let filler = "x".repeat(1024);
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("bench-{i}"), "labels": {"shard": (i % 100).to_string()}},
        "data": {"filler": filler, "step": step},
    })
    .to_string()
    .into()
}

/// Runs `count` requests over a fixed number of connections.
pub(crate) async fn run(
    target: &Target,
    pids: &[u32],
    name: &'static str,
    count: usize,
    make: Make,
) -> Result<Outcome> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(target.connect().await?);
    }
    let (started, spent) = (Instant::now(), processor(pids));
    let mut tasks = Vec::new();
    for mut connection in connections {
        let next = next.clone();
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= count {
                    return anyhow::Ok(times);
                }
                let (method, path, media, body) = make(i);
                let began = Instant::now();
                let (code, answer) = connection.call(method, &path, media, body).await?;
                times.push(began.elapsed());
                ensure!(code < 300, "{path}: {code} {}", String::from_utf8_lossy(&answer));
            }
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok(outcome(name, started.elapsed(), times, processor(pids) - spent))
}

fn outcome(name: &'static str, took: Duration, mut times: Vec<Duration>, spent: Duration) -> Outcome {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
    let count = times.len().max(1);
    Outcome {
        name,
        per_second: count as f64 / took.as_secs_f64(),
        p50: at(50),
        p99: at(99),
        cost: spent / count as u32,
    }
}

/// Thirty-two clients write while many watch, until every watcher has seen every write.
pub(crate) async fn fan_out(
    target: &Target,
    pids: &[u32],
    name: &'static str,
    watchers: usize,
    writes: usize,
) -> Result<Outcome> {
    let mut tasks = Vec::new();
    let ready = Arc::new(AtomicUsize::new(0));
    let (_, list) = target.connect().await?.call(Method::GET, &format!("{BASE}?limit=1"), "", Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
    for _ in 0..watchers {
        let (target, ready, version) = (target.clone(), ready.clone(), version.clone());
        tasks.push(tokio::spawn(async move {
            let mut connection = target.connect().await?;
            let path = format!("{BASE}?watch=1&resourceVersion={version}&timeoutSeconds=120");
            let mut body = connection.open(Method::GET, &path, "", Bytes::new()).await?.into_body();
            ready.fetch_add(1, Ordering::SeqCst);
            let (mut seen, mut times) = (0, Vec::new());
            while seen < writes {
                let Some(frame) = body.frame().await else { anyhow::bail!("the watch ended early") };
                let frame = frame?;
                let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|b| **b == b'\n').count());
                seen += lines;
                times.push(Instant::now());
            }
            anyhow::Ok(times.last().copied())
        }));
    }
    while ready.load(Ordering::SeqCst) < watchers {
        ensure!(!tasks.iter().any(tokio::task::JoinHandle::is_finished), "a watch failed to start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (started, spent) = (Instant::now(), processor(pids));
    run(target, &[], name, writes, |i| (Method::POST, BASE.into(), "application/json", object(WATCHED + i, "watched")))
        .await?;
    let mut latest = started;
    for task in tasks {
        latest = latest.max(task.await??.unwrap_or(started));
    }
    let (took, spent) = (latest - started, processor(pids) - spent);
    run(target, &[], name, writes, |i| (Method::DELETE, format!("{BASE}/bench-{}", WATCHED + i), "", Bytes::new()))
        .await?;
    let deliveries = watchers * writes;
    Ok(Outcome {
        name,
        per_second: deliveries as f64 / took.as_secs_f64(),
        p50: took / writes as u32,
        p99: took,
        cost: spent / deliveries as u32,
    })
}

/// How long a Deployment takes until all its Pods are bound, and until all run.
pub(crate) async fn deployment(target: &Target, replicas: usize) -> Result<(Duration, Duration)> {
    let mut watcher = target.connect().await?;
    let mut body = watcher
        .open(Method::GET, "/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=120", "", Bytes::new())
        .await?
        .into_body();
    let labels = json!({"app": "bench"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bench"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}]}}},
    });
    let started = Instant::now();
    let mut connection = target.connect().await?;
    let (code, answer) = connection
        .call(
            Method::POST,
            "/apis/apps/v1/namespaces/default/deployments",
            "application/json",
            deployment.to_string().into(),
        )
        .await?;
    ensure!(code == 201, "{code} {}", String::from_utf8_lossy(&answer));
    let (mut bound, mut running) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let (mut all_bound, mut pending) = (None, Vec::new());
    while running.len() < replicas {
        ensure!(
            started.elapsed() < Duration::from_secs(60),
            "after a minute {} of {replicas} Pods are bound, {} run",
            bound.len(),
            running.len()
        );
        let frame = tokio::time::timeout(Duration::from_secs(60), body.frame()).await?;
        let Some(frame) = frame else { anyhow::bail!("the watch ended early") };
        pending.extend_from_slice(frame?.data_ref().map(Bytes::as_ref).unwrap_or_default());
        while let Some(end) = pending.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let event: serde_json::Value = serde_json::from_slice(&line)?;
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if event["object"]["spec"]["nodeName"].is_string() {
                bound.insert(name.clone());
            }
            if event["object"]["status"]["phase"] == "Running" {
                running.insert(name);
            }
        }
        if all_bound.is_none() && bound.len() == replicas {
            all_bound = Some(started.elapsed());
        }
    }
    let all_running = started.elapsed();
    Ok((all_bound.unwrap_or(all_running), all_running))
}
