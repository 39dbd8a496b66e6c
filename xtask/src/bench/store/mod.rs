//! `cargo xtask bench store`: durable puts, range reads and watch fan-out of the store's engines, beside a plain loop
//! that appends and syncs, in one run on one disk.
//!
//! An engine is a row of `ENGINES`; each is measured in the same way as the others. The disk of a shared machine has moods:
//! every measurement of puts is made several times, engines and loop in turn, and the median is shown.

mod append;
mod measure;

use anyhow::{Context, Result, ensure};
use append::AppendLoop;
use measure::Measured;
use pintle_store::etcd::testing::Etcd;
use pintle_store::{FileStore, Options, Range, Splice, Store, Txn};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What is measured beside the loop that appends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    File,
    Etcd,
}

const ENGINES: [Engine; 2] = [Engine::File, Engine::Etcd];

/// A store, and the etcd it may be in, which ends with it.
struct Opened {
    store: Arc<dyn Store>,
    _etcd: Option<Etcd>,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Etcd => "etcd",
        }
    }

    /// Opens a store in a directory that is empty before and removed after.
    async fn open(self, directory: &Path) -> Result<Opened> {
        Ok(match self {
            Self::File => Opened { store: Arc::new(FileStore::open(directory, Options::default())?), _etcd: None },
            Self::Etcd => {
                let etcd = Etcd::start_in(directory);
                Opened { store: etcd.connect().await, _etcd: Some(etcd) }
            }
        })
    }
}

const WRITERS: [usize; 3] = [1, 32, 256];
const ROUNDS: usize = 3;
const FOR: Duration = Duration::from_secs(2);
/// Bytes of a value.
const VALUE: usize = 2048;
/// Keys of one writer, so that puts replace as often as they add.
const KEYS: usize = 64;

const STORED: usize = 100_000;
const PAGE: usize = 1000;
const PAGES: usize = 2000;

pub(crate) async fn bench() -> Result<()> {
    let directory = crate::root().join("target/bench-store");
    println!("puts of {VALUE} bytes, median of {ROUNDS} rounds of {} s:\n", FOR.as_secs());
    println!("| engine | writers | puts a second | of the append loop | p50 ms | p99 ms | max ms |");
    println!("|---|---|---|---|---|---|---|");
    for writers in WRITERS {
        puts(&directory, writers).await.with_context(|| format!("{writers} writers"))?;
    }
    for engine in ENGINES {
        fresh(&directory)?;
        let opened = engine.open(&directory).await?;
        reads(engine, &opened.store).await?;
        for (watchers, writes) in [(1, 2000), (100, 2000), (1000, 500)] {
            fan_out(engine.name(), &opened.store, watchers, writes).await?;
        }
        opened.store.close().await;
        drop(opened);
        if engine == Engine::File {
            recovery(&directory).await?;
            checkpoints(&directory).await?;
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}

fn fresh(directory: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())
}

/// One table row an engine, one for the loop that all writers hand their bytes to, and one for writers that append and
/// sync on their own.
async fn puts(directory: &Path, writers: usize) -> Result<()> {
    let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); ENGINES.len() + 2];
    for _ in 0..ROUNDS {
        fresh(directory)?;
        let appending = Arc::new(AppendLoop::start(&directory.join("appended"))?);
        let measured = measure::writers(writers, FOR, move |_, _| {
            let appending = appending.clone();
            async move { appending.append(vec![b'x'; VALUE]).await }
        });
        rounds[0].push(measured.await?);
        fresh(directory)?;
        rounds[1].push(append::each_alone(&directory.join("appended"), writers, FOR).await?);
        for (row, engine) in ENGINES.iter().enumerate() {
            fresh(directory)?;
            let opened = engine.open(directory).await?;
            let shared = opened.store.clone();
            let measured = measure::writers(writers, FOR, move |writer, number| put(shared.clone(), writer, number));
            rounds[row + 2].push(measured.await?);
            opened.store.close().await;
        }
    }
    let medians: Vec<Measured> = rounds.into_iter().filter_map(measure::median).collect();
    let names = ["append loop", "append, each alone"].into_iter().chain(ENGINES.map(Engine::name));
    let baseline = medians.first().map_or(1.0, |loop_| loop_.per_second);
    let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1000.0);
    for (name, it) in names.zip(&medians) {
        let share = 100.0 * it.per_second / baseline;
        let (p50, p99, max) = (ms(it.p50), ms(it.p99), ms(it.max));
        println!("| {name} | {writers} | {:.0} | {share:.0} % | {p50} | {p99} | {max} |", it.per_second);
    }
    Ok(())
}

/// Pages of a thousand keys out of a hundred thousand.
async fn reads(engine: Engine, store: &Arc<dyn Store>) -> Result<()> {
    let name = engine.name();
    let key = |number: usize| format!("/registry/read/{number:06}");
    // As many at once as etcd takes.
    for first in (0..STORED).step_by(100) {
        let put = |txn: Txn, number| txn.put(key(number), Splice::plain(vec![b'x'; VALUE]));
        store.commit((first..first + 100).fold(Txn::new(), put)).await?;
    }
    let mut times = Vec::with_capacity(PAGES);
    let started = Instant::now();
    for page in 0..PAGES {
        let began = Instant::now();
        // A prime, so that pages begin all over the range.
        let range = Range { start: key(page * 7919 % (STORED - PAGE)), ..Range::prefix("/registry/read/") };
        // As for the pages of one list, whose keys were counted for the first.
        let found = store.range(Range { total: Some(STORED), ..range.limit(PAGE) }).await?;
        ensure!(found.entries.len() == PAGE, "a page of {}", found.entries.len());
        times.push(began.elapsed());
    }
    let it = Measured::of(started.elapsed(), times);
    println!(
        "\n{name}: {:.0} ranges of {PAGE} keys from {STORED} a second, p50 {:.0} µs, p99 {:.0} µs, max {:.0} µs",
        it.per_second,
        it.p50.as_secs_f64() * 1e6,
        it.p99.as_secs_f64() * 1e6,
        it.max.as_secs_f64() * 1e6
    );
    Ok(())
}

/// How long it takes to read a hundred thousand objects back from disk: from a log, and from a state.
async fn recovery(directory: &Path) -> Result<()> {
    let open = || -> Result<(FileStore, Duration)> {
        let began = Instant::now();
        let store = FileStore::open(directory, Options::default())?;
        Ok((store, began.elapsed()))
    };
    let (store, from_log) = open()?;
    store.compact(store.revision());
    // The state is written by a thread of its own, which says nothing; its file appears when it is complete.
    let state = || std::fs::read_dir(directory).is_ok_and(|mut files| files.any(|file| is_state(&file)));
    while !state() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    store.close().await;
    drop(store);
    let (store, from_state) = open()?;
    let began = Instant::now();
    for _ in 0..1000 {
        drop(store.fork());
    }
    println!("file: a fork of {STORED} objects takes {:.1} µs", began.elapsed().as_secs_f64() * 1e3);
    println!(
        "file: {STORED} objects of {VALUE} bytes are read back in {} ms from logs, in {} ms from a state",
        from_log.as_millis(),
        from_state.as_millis()
    );
    Ok(())
}

/// What puts wait for when the state is written all the time, and when it never is.
async fn checkpoints(directory: &Path) -> Result<()> {
    for (what, log_bytes) in [("never", u64::MAX), ("after every 16 MiB of changes", 16 << 20)] {
        fresh(directory)?;
        let store = Arc::new(FileStore::open(directory, Options { log_bytes, ..Options::default() })?);
        let shared = store.clone();
        let it = measure::writers(32, 2 * FOR, move |writer, number| put(shared.clone(), writer, number)).await?;
        println!(
            "file: 32 writers, state written {what}: {:.0} puts a second, p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            it.per_second,
            it.p50.as_secs_f64() * 1e3,
            it.p99.as_secs_f64() * 1e3,
            it.max.as_secs_f64() * 1e3
        );
        store.close().await;
    }
    Ok(())
}

async fn put(store: Arc<dyn Store>, writer: usize, number: usize) -> Result<()> {
    let key = format!("/registry/bench/{writer}-{}", number % KEYS);
    store.commit(Txn::new().put(key, Splice::plain(vec![b'x'; VALUE]))).await?;
    Ok(())
}

fn is_state(file: &std::io::Result<std::fs::DirEntry>) -> bool {
    file.as_ref().is_ok_and(|file| {
        let name = file.file_name();
        name.to_string_lossy().starts_with("state-") && !name.to_string_lossy().ends_with(".new")
    })
}

/// Thirty-two writers until every watcher was told of every write.
async fn fan_out(name: &str, store: &Arc<dyn Store>, watchers: usize, writes: usize) -> Result<()> {
    let prefix = format!("/registry/watched-{watchers}/");
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let mut watch = store.watch(&prefix, store.revision())?;
        tasks.push(tokio::spawn(async move {
            let mut seen = 0;
            while seen < writes {
                seen += watch.next().await?.len();
            }
            anyhow::Ok(Instant::now())
        }));
    }
    let started = Instant::now();
    let mut writing = Vec::new();
    for writer in 0..32 {
        let (store, prefix) = (store.clone(), prefix.clone());
        writing.push(tokio::spawn(async move {
            for number in (writer..writes).step_by(32) {
                let value = Splice::plain(vec![b'x'; VALUE]);
                store.commit(Txn::new().put(format!("{prefix}{number}"), value)).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in writing {
        task.await??;
    }
    let mut last = started;
    for task in tasks {
        last = last.max(task.await??);
    }
    let took = last - started;
    println!(
        "{name}: {writes} writes told to {watchers} watchers in {} ms, {:.0} deliveries a second",
        took.as_millis(),
        (watchers * writes) as f64 / took.as_secs_f64()
    );
    Ok(())
}
