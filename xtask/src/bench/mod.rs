//! `cargo xtask bench`: a release build under load, and a table of what it showed, beside a peer in one run.
//!
//! `PINTLE_BENCH_PEER=https://127.0.0.1:PORT` names a kube-apiserver on this machine, `PINTLE_BENCH_PEER_TOKEN` or
//! `PINTLE_BENCH_PEER_CERT` (a PEM file with certificate and key) how to get in, and `PINTLE_BENCH_PEER_PIDS` its
//! processes, for their memory and processor time. `bench watch` runs the rows of watches alone, several times, and `bench
//! flow` what one flow notices of another; `PINTLE_BENCH_PROGRAM` names another build to run all of these on.

mod client;
mod flow;
#[cfg(feature = "in-process")]
mod informer;
mod load;
mod process;
#[cfg(feature = "in-process")]
mod queue;
mod store;

use anyhow::{Context, Result, ensure};
use client::Target;
use load::Outcome;
use process::{Server, memory};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) fn run(what: Option<&str>) -> Result<()> {
    let in_process = what.is_some_and(|what| what == "queue" || what.starts_with("informer"));
    ensure!(
        in_process
            || matches!(
                what,
                None | Some("store" | "watch" | "flow" | "kit" | "admission" | "node" | "node:simulated")
            ),
        "`bench`, `bench store`, `bench watch`, `bench flow`, `bench queue`, `bench informer`, `bench kit`, `bench admission` and `bench node` are all there is"
    );
    if what == Some("admission") {
        return cargo(&["bench", "--package", "pintle-testkit", "--bench", "admission"]);
    }
    if what == Some("kit") {
        return cargo(&["bench", "--package", "at-operator", "--bench", "kit"]);
    }
    if let Some(what) = what.filter(|what| what.starts_with("node")) {
        let part = what.strip_prefix("node:");
        let arguments = ["bench", "--package", "pintle", "--bench", "node", "--"];
        return cargo(&arguments.into_iter().chain(part).collect::<Vec<_>>());
    }
    // The load generator shares the machine with the server: it must be fast too.
    if cfg!(debug_assertions) {
        println!("building a release …");
        let features: &[&str] = if in_process { &["--features", "in-process"] } else { &[] };
        let again = [&["run", "--release", "--quiet", "--package", "xtask"], features, &["--", "bench"]].concat();
        return cargo(&again.into_iter().chain(what).collect::<Vec<_>>());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if what == Some("store") {
        crate::etcd::ensure()?;
        return runtime.block_on(store::bench());
    }
    if what == Some("watch") {
        return runtime.block_on(watches());
    }
    if what == Some("flow") {
        return runtime.block_on(flow::bench(&program()?));
    }
    if let Some(what) = what {
        return runtime.block_on(bench_in_process(what));
    }
    runtime.block_on(bench(&program()?))
}

#[cfg(feature = "in-process")]
async fn bench_in_process(what: &str) -> Result<()> {
    match (what, what.strip_prefix("informer:")) {
        ("queue", _) => queue::bench().await,
        (_, Some(row)) => informer::row(row).await,
        _ => informer::bench().await,
    }
}

#[cfg(not(feature = "in-process"))]
async fn bench_in_process(what: &str) -> Result<()> {
    anyhow::bail!("`bench {what}` needs a build with `--features in-process`, as `cargo xtask bench {what}` makes it")
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status = Command::new("cargo").args(arguments).current_dir(crate::root()).status()?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

async fn bench(program: &Path) -> Result<()> {
    let server = Server::start(program, 1, 16501).await.context("starting pintle")?;
    let restarts = starts(program).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = memory(&server.pids());
    let ours = loads(&server.target, &server.pids(), false).await?;
    let loaded = memory(&server.pids());
    println!("the same requests with the token of a service account …");
    let account = flow::account(&server.target, "bench").await?;
    let by_token = requests(&account, &server.pids()).await?;
    drop(server);

    let peer = match std::env::var("PINTLE_BENCH_PEER") {
        Ok(address) => Some(self::peer(&address).await?),
        Err(_) => None,
    };
    report(&ours, &by_token, peer.as_deref());

    let server = Server::start(program, 100, 16502).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (bound, running) = load::deployment(&server.target, 1000).await?;
    println!();
    println!("start to ready: {} ms (median of 5, new data directory)", restarts.as_millis());
    println!("resident memory: {idle:.0} MB idle, {loaded:.0} MB after the loads");
    println!(
        "Deployment of 1,000 on 100 simulated nodes: all bound after {} ms, all running after {} ms",
        bound.as_millis(),
        running.as_millis()
    );
    Ok(())
}

/// Watchers and writes of each row about watches.
const FAN_OUT: [(&str, usize, usize); 2] =
    [("watch deliveries, 100 watchers", 100, 1000), ("watch deliveries, 1,000 watchers", 1000, 200)];

/// What a delivery costs the server, in microseconds: with the writes that cause it, as the table has it.
async fn watches() -> Result<()> {
    let program = program()?;
    let server = Server::start(&program, 1, 16501).await.context("starting pintle")?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (name, watchers, writes) in FAN_OUT {
        for _ in 0..3 {
            let outcome = load::fan_out(&server.target, &server.pids(), name, watchers, writes).await?;
            let (rate, cost) = (outcome.per_second, outcome.cost.as_secs_f64() * 1e6);
            println!("{name}: {rate:.0} a second, {cost:.2} µs each, all after {} ms", outcome.p99.as_millis());
        }
    }
    Ok(())
}

/// A release build, or the program that the caller names.
fn program() -> Result<PathBuf> {
    match std::env::var_os("PINTLE_BENCH_PROGRAM") {
        Some(program) => Ok(program.into()),
        None => {
            cargo(&["build", "--release", "--package", "pintle"])?;
            Ok(crate::root().join("target/release/pintle"))
        }
    }
}

/// The median of several starts.
async fn starts(program: &Path) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(Server::start(program, 1, 16503).await?.ready_after);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

async fn loads(target: &Target, pids: &[u32], is_peer: bool) -> Result<Vec<Outcome>> {
    let mut outcomes = requests(target, pids).await?;
    for (name, watchers, writes) in FAN_OUT {
        println!("{name} …");
        match load::fan_out(target, pids, name, watchers, writes).await {
            Ok(outcome) => outcomes.push(outcome),
            // A peer may hang up on watchers that cannot follow; its other rows still count.
            Err(error) if is_peer => println!("{name}: left out, {error:#}"),
            Err(error) => return Err(error),
        }
    }
    Ok(outcomes)
}

async fn requests(target: &Target, pids: &[u32]) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for (name, count, make) in load::loads() {
        println!("{name}: {count} requests …");
        outcomes.push(load::run(target, pids, name, count, make).await?);
    }
    Ok(outcomes)
}

async fn peer(address: &str) -> Result<Vec<Outcome>> {
    println!("the same at {address} …");
    let identity = std::env::var("PINTLE_BENCH_PEER_CERT").ok().map(std::fs::read_to_string).transpose()?;
    let target = Target::new(address, identity.as_deref(), std::env::var("PINTLE_BENCH_PEER_TOKEN").ok())?;
    let pids = std::env::var("PINTLE_BENCH_PEER_PIDS").unwrap_or_default();
    let pids: Vec<u32> = pids.split(',').filter_map(|p| p.parse().ok()).collect();
    loads(&target, &pids, true).await
}

fn report(ours: &[Outcome], by_token: &[Outcome], peer: Option<&[Outcome]>) {
    println!();
    println!(
        "| what | a second | p50 ms | p99 ms | server's processor time, ms | with a token, ms | peer, a second | ratio | peer's processor time, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let ms = |d: Duration| format!("{:.3}", d.as_secs_f64() * 1000.0);
    for outcome in ours {
        let theirs = peer.and_then(|p| p.iter().find(|o| o.name == outcome.name));
        let (rate, ratio, cost) = theirs.map_or(("".into(), "".into(), "".into()), |p| {
            (format!("{:.0}", p.per_second), format!("{:.1} ×", outcome.per_second / p.per_second), ms(p.cost))
        });
        let token = by_token.iter().find(|o| o.name == outcome.name).map(|o| ms(o.cost)).unwrap_or_default();
        println!(
            "| {} | {:.0} | {} | {} | {} | {token} | {rate} | {ratio} | {cost} |",
            outcome.name,
            outcome.per_second,
            ms(outcome.p50),
            ms(outcome.p99),
            ms(outcome.cost)
        );
    }
}
