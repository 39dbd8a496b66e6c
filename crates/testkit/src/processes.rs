//! The loops of a cluster as if each were a process: started from a factory that is kept, crashed, started again.
//!
//! A loop that is isolated has informers, an event sink and a client of its own, as a process would. The others share one
//! set of informers, which is faster; they can be crashed too, but their watches are everyone's.

use crate::faults::{Crash, Faults, Life};
use futures::future::BoxFuture;
use kube::Client;
use pintle_runtime::{Context, Trigger};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;

/// Makes a loop anew: once at the start, and once after every crash.
pub(crate) type Factory = Arc<dyn Fn(Context) -> BoxFuture<'static, ()> + Send + Sync>;

/// A loop that can be started.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) name: String,
    /// The name with which it signs its requests.
    pub(crate) agent: String,
    pub(crate) isolated: bool,
    pub(crate) factory: Factory,
    /// How many nodes it is the agent of: their machines belong to one cluster, so a fork makes it anew.
    pub(crate) nodes: Option<u16>,
}

/// Every loop of a cluster. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Processes(Arc<Inner>);

struct Inner {
    /// What loops that are not isolated share.
    shared: Context,
    /// The client under the faults.
    client: Client,
    faults: Faults,
    known: Mutex<BTreeMap<String, (Process, Option<Alive>)>>,
    restarting: AtomicUsize,
}

struct Alive {
    life: Life,
    task: JoinHandle<()>,
    trigger: Trigger,
}

impl Processes {
    pub(crate) fn new(shared: Context, client: Client, faults: Faults) -> Self {
        let restarting = AtomicUsize::new(0);
        let processes = Processes(Arc::new(Inner { shared, client, faults, known: Mutex::default(), restarting }));
        processes.carry_out_crashes();
        processes
    }

    /// Starts a process; one of that name that runs is ended first, as by a crash.
    pub(crate) fn start(&self, process: Process) {
        let alive = self.live(&process);
        let before = self.known().insert(process.name.clone(), (process, Some(alive)));
        if let Some((_, Some(alive))) = before {
            alive.end();
        }
    }

    /// Ends a process at its next await; nothing it has asked for is answered any more.
    pub(crate) async fn crash(&self, name: &str) {
        let alive = self.known().get_mut(name).and_then(|(_, alive)| alive.take());
        if let Some(alive) = alive {
            // One that panicked has ended too.
            let _ = alive.end().await;
        }
    }

    /// Starts again whatever is down.
    pub(crate) fn revive(&self) {
        let down: Vec<Process> = {
            let known = self.known();
            known.values().filter(|(_, alive)| alive.is_none()).map(|(process, _)| process.clone()).collect()
        };
        down.into_iter().for_each(|process| self.start(process));
    }

    /// Whether a crashed process waits to be started again.
    pub(crate) fn are_restarting(&self) -> bool {
        self.0.restarting.load(Ordering::SeqCst) > 0
    }

    /// Everything that was ever started, running or not.
    pub(crate) fn all(&self) -> Vec<Process> {
        self.known().values().map(|(process, _)| process.clone()).collect()
    }

    fn live(&self, process: &Process) -> Alive {
        let Inner { shared, client, faults, .. } = &*self.0;
        let life = Life::default();
        let client = faults.over_life(client.clone(), &process.agent, &life);
        let (trigger, shutdown) = shared.shutdown.child();
        let context = match process.isolated {
            true => {
                let mut own = Context::new(client, shared.clock.clone(), shared.random.clone(), shutdown);
                own.board = shared.board.clone();
                own.informers = own.informers.in_process();
                own
            }
            false => {
                let mut own = shared.clone();
                (own.client, own.shutdown) = (client, shutdown);
                own
            }
        };
        Alive { life, task: tokio::spawn((process.factory)(context)), trigger }
    }

    fn carry_out_crashes(&self) {
        let Some(mut orders) = self.0.faults.take_orders() else { return };
        // Weak, or the task and what it crashes would keep each other alive.
        let (inner, shutdown) = (Arc::downgrade(&self.0), self.0.shared.shutdown.clone());
        tokio::spawn(async move {
            let work = async {
                while let Some(Crash { agent, restart_after }) = orders.recv().await {
                    let Some(processes) = inner.upgrade().map(Processes) else { return };
                    let Some(name) = processes.called(&agent) else { continue };
                    processes.0.restarting.fetch_add(1, Ordering::SeqCst);
                    processes.crash(&name).await;
                    match restart_after {
                        None => processes.has_restarted(),
                        Some(pause) => {
                            tokio::spawn(async move {
                                tokio::time::sleep(pause).await;
                                let down = processes.is_down(&name);
                                if let Some(process) = down {
                                    processes.start(process);
                                }
                                processes.has_restarted();
                            });
                        }
                    }
                }
            };
            tokio::select! {
                biased;
                () = shutdown.fired() => {}
                () = work => {}
            }
        });
    }

    fn is_down(&self, name: &str) -> Option<Process> {
        self.known().get(name).filter(|(_, alive)| alive.is_none()).map(|(process, _)| process.clone())
    }

    fn called(&self, agent: &str) -> Option<String> {
        self.known().values().find(|(process, _)| process.agent == agent).map(|(process, _)| process.name.clone())
    }

    fn has_restarted(&self) {
        self.0.restarting.fetch_sub(1, Ordering::SeqCst);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (Process, Option<Alive>)>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alive {
    fn end(self) -> JoinHandle<()> {
        // In this order: what the shutdown lets finish in good order gets no answers any more.
        self.life.end();
        self.task.abort();
        self.trigger.fire();
        self.task
    }
}
