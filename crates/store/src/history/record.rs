//! The run of a history: clients that work at once, and a store that dies under them and comes back.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;

use super::client::Client;
use super::log::{Answer, Asked, History, Log, SeenEvent, Step};
use crate::chance::Chance;
use crate::{Range, Revision, Store, Watch};

/// A store that can be killed and opened again.
#[async_trait]
pub trait Subject: Send {
    /// Opens the store with what it has kept. Nobody holds the one opened before any more.
    async fn open(&mut self) -> Arc<dyn Store>;

    /// Power cut or kill: everything not durable may be gone. Clients are still at work on the store
    /// when this is called; they are cut off when it returns.
    async fn crash(&mut self);
}

/// How large a history is, and what decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub clients: usize,
    pub operations: usize,
    pub crashes: usize,
}

impl Plan {
    /// Two thousand operations of six clients, with five crashes.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, clients: 6, operations: 2000, crashes: 5 }
    }
}

/// What the clients of a run share.
pub(super) struct Run {
    pub(super) log: Log,
    /// Everything up to here has reached the auditor. Nobody compacts beyond, so that there is always
    /// one witness of every change.
    pub(super) audited: AtomicU64,
    /// The number of operations at which the life ends.
    pub(super) until: usize,
    pub(super) reached: Notify,
}

/// The client number of readers that are not clients: the first read of a life, and its auditor.
pub(super) const AUDITOR: usize = usize::MAX;

/// Runs a history on the runtime of the caller; on one thread, and over a store that answers without
/// waiting for others, the same plan gives the same history.
///
/// # Panics
///
/// If the auditor does, and only then: clients that panic are cut off.
pub async fn record(subject: &mut dyn Subject, plan: &Plan) -> History {
    let mut chance = Chance::seeded(plan.seed);
    let clients: Vec<_> = (0..plan.clients)
        .map(|number| Arc::new(Mutex::new(Client::new(number, Chance::seeded(chance.number())))))
        .collect();
    let mut log = Log::default();
    let lives = plan.crashes + 1;
    for life in 1..=lives {
        // Lives differ in length, so that crashes meet different states of compaction and recovery.
        let share = plan.operations / lives;
        let jitter = chance.below(share as u64 / 2 + 1) as usize;
        let until = if life == lives { plan.operations } else { (life * share).saturating_sub(jitter) };
        let store = subject.open().await;
        let run = Arc::new(Run { log, audited: AtomicU64::new(0), until, reached: Notify::new() });
        run.log.begin_life();
        let base = first_read(&run, &*store).await;
        let end = Arc::new(Notify::new());
        let auditor = tokio::spawn(audit(Arc::clone(&run), Arc::clone(&store), base, Arc::clone(&end)));
        let mut working = JoinSet::new();
        for client in &clients {
            let (client, run, store) = (Arc::clone(client), Arc::clone(&run), Arc::clone(&store));
            working.spawn(async move { client.lock().await.live(&run, &*store, life == lives).await });
        }
        if life < lives {
            tokio::select! {
                biased;
                () = run.reached.notified() => {}
                // All of them gave up: the store has stopped by itself.
                () = async { while working.join_next().await.is_some() {} } => {}
            }
            subject.crash().await;
            working.shutdown().await;
        } else {
            while working.join_next().await.is_some() {}
        }
        // After the clients: what any of them saw was published before, so the auditor sees it too.
        end.notify_one();
        auditor.await.expect("the auditor does not panic");
        drop(store);
        log = Arc::into_inner(run).expect("every task of this life has ended").log;
    }
    log.finish(plan.seed)
}

async fn first_read(run: &Run, store: &dyn Store) -> Revision {
    let range = Range::prefix("");
    let operation = run.log.invoke(AUDITOR, Asked::Range(range.clone()));
    let answer = Answer::from(store.range(range).await);
    let base = if let Answer::Page { revision, .. } = &answer { *revision } else { store.revision() };
    run.log.answer(operation, answer);
    run.audited.store(base, Ordering::SeqCst);
    base
}

/// Watches every key from the first moment of a life to its last.
async fn audit(run: Arc<Run>, store: Arc<dyn Store>, base: Revision, end: Arc<Notify>) {
    let Some((number, mut watch)) = open_watch(&run.log, AUDITOR, &*store, "", base) else { return };
    loop {
        tokio::select! {
            biased;
            () = end.notified() => break,
            batch = watch.next() => match batch {
                Ok(events) => {
                    let events: Vec<_> = events.iter().map(|event| SeenEvent::from(&**event)).collect();
                    let last = events.last().map_or(0, |event| event.revision);
                    run.log.step(number, Step::Batch(events));
                    run.audited.fetch_max(last, Ordering::SeqCst);
                    progress(&run.log, number, &watch);
                }
                Err(error) => {
                    run.log.step(number, Step::Ended(error));
                    return;
                }
            }
        }
    }
    drain(&run.log, number, &mut watch, &*store);
}

/// Opens a watch and writes it down, also if it is refused.
pub(super) fn open_watch(
    log: &Log,
    client: usize,
    store: &dyn Store,
    prefix: &str,
    after: Revision,
) -> Option<(usize, Watch)> {
    let invoked = log.tick();
    match store.watch(prefix, after) {
        Ok(watch) => Some((log.watch(client, (prefix, after), invoked, None), watch)),
        Err(error) => {
            log.watch(client, (prefix, after), invoked, Some(error));
            None
        }
    }
}

/// Takes what is ready, if anything is; false if nothing more will come.
pub(super) fn take_ready(log: &Log, number: usize, watch: &mut Watch) -> Option<usize> {
    let ready = pin!(watch.next()).poll(&mut Context::from_waker(Waker::noop()));
    match ready {
        Poll::Pending => Some(0),
        Poll::Ready(Ok(events)) => {
            log.step(number, Step::Batch(events.iter().map(|event| SeenEvent::from(&**event)).collect()));
            Some(events.len())
        }
        Poll::Ready(Err(error)) => {
            log.step(number, Step::Ended(error));
            None
        }
    }
}

pub(super) fn progress(log: &Log, number: usize, watch: &Watch) -> Revision {
    let progress = watch.progress();
    log.step(number, Step::Progress(progress));
    progress
}

/// Takes all that is ready, after which nothing up to the store's revision may be missing.
pub(super) fn drain(log: &Log, number: usize, watch: &mut Watch, store: &dyn Store) {
    let revision = store.revision();
    loop {
        match take_ready(log, number, watch) {
            Some(0) => break,
            Some(_) => {}
            None => return,
        }
    }
    progress(log, number, watch);
    log.step(number, Step::Drained(revision));
}
