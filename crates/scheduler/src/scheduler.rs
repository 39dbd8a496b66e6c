//! The loop: take the next Pod, find a node, assume it is there, bind it while the next one is looked at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_runtime::{Attempt, Cause, Causes, Change, Context, Recorder, Trigger};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

use crate::cache::Cache;
use crate::cycle::{Cycle, Diagnosis};
use crate::pod::PodInfo;
use crate::queue::{Depth, Queue};
use crate::storage::Choice;
use crate::watch::Watch;
use crate::{DEFAULT_NAME, bind, plugins};

/// Bindings and failure reports that may be under way at once.
const IN_FLIGHT: usize = 128;

/// The name under which the scheduler writes.
pub const AGENT: &str = "kube-scheduler";

/// What handlers and the loop share.
pub(crate) struct Shared {
    // Lock order: cache before queue.
    cache: Mutex<Cache>,
    pub(crate) queue: Queue,
    /// For Pods that wait for their volumes.
    pub(crate) storage_changed: Notify,
    pub(crate) context: Arc<Context>,
    pub(crate) recorder: Recorder,
}

impl Shared {
    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A scheduler at work. Dropping it stops it.
pub struct Scheduler {
    shared: Arc<Shared>,
    trigger: Trigger,
    task: JoinHandle<()>,
}

impl Scheduler {
    /// Starts with an empty mind: all it knows comes from the API server.
    pub fn start(context: &Context) -> Self {
        let (trigger, context) = context.named(AGENT);
        let (shared, cycle) = prepare(context);
        let task = tokio::spawn(run(shared.clone(), cycle));
        Scheduler { shared, trigger, task }
    }

    /// The same without a task of its own: it ends with the context's shutdown, and at once when it is dropped.
    pub async fn run(context: &Context) {
        let (_trigger, context) = context.named(AGENT);
        let (shared, cycle) = prepare(context);
        run(shared, cycle).await;
    }

    pub fn depth(&self) -> Depth {
        self.shared.queue.depth()
    }

    /// Lets bindings under way finish.
    pub async fn stop(self) {
        self.trigger.fire();
        // One that panicked has ended too.
        let _ = self.task.await;
    }

    /// Ends at the next await, as losing the process would.
    pub async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

fn prepare(context: Context) -> (Arc<Shared>, Cycle) {
    let cycle = Cycle::new(plugins::all(), context.random.clone());
    let helped_by = cycle.plugins().iter().map(|plugin| (plugin.name(), plugin.helped_by())).collect();
    let shared = Arc::new(Shared {
        cache: Mutex::default(),
        queue: Queue::new(helped_by),
        storage_changed: Notify::new(),
        recorder: context.recorder(DEFAULT_NAME),
        context: Arc::new(context),
    });
    (shared, cycle)
}

async fn run(shared: Arc<Shared>, mut cycle: Cycle) {
    let shutdown = shared.context.shutdown.clone();
    let watch = Watch::start(&shared.context, &shared);
    tokio::select! {
        biased;
        () = watch.synced() => {}
        () = shutdown.fired() => return,
    }
    let permits = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut under_way = JoinSet::new();
    let work = async {
        loop {
            // Before the Pod is taken: whoever waits here must not hold one back that is updated meanwhile.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            while under_way.try_join_next().is_some() {}
            let pod = shared.queue.next().await;
            let Some(outcome) = attempt(&shared, &mut cycle, &pod) else { continue };
            let shared = shared.clone();
            under_way.spawn(async move {
                let write = async {
                    match outcome {
                        Ok((node, choice)) if choice.is_empty() => bind::bind(&shared, &pod, &node).await,
                        Ok((node, choice)) => {
                            // Volumes may take minutes, and others must not wait for them.
                            drop(permit);
                            bind::bind_with_volumes(&shared, &pod, &node, &choice).await;
                        }
                        Err(diagnosis) => bind::report(&shared, &pod, &diagnosis).await,
                    }
                };
                because_of(&pod, &shared.context).scope(write).await;
            });
        }
    };
    tokio::select! {
        biased;
        () = work => {}
        () = shutdown.fired() => {}
    }
    while under_way.join_next().await.is_some() {}
}

/// What the writes about a Pod tell the server: that the Pod is there and waits for a node.
fn because_of(pod: &PodInfo, context: &Arc<Context>) -> Arc<Attempt> {
    let mut causes = Causes::default();
    causes.add(Cause::of(&Change::Added(pod.pod.clone()), None));
    Attempt::new(AGENT.into(), pod.key.clone(), 1, causes, context.clone())
}

/// Finds a node and takes it, or sets the Pod aside; nothing if the Pod needs no node.
fn attempt(shared: &Shared, cycle: &mut Cycle, pod: &Arc<PodInfo>) -> Option<Result<(String, Choice), Diagnosis>> {
    let mut cache = shared.cache();
    if cache.is_placed(&pod.uid) || pod.is_going() {
        shared.queue.remove(&pod.key, &pod.uid);
        return None;
    }
    Some(match cycle.schedule(pod, &cache) {
        Ok(node) => {
            let choice = cache.node(&node).map(|node| cache.storage.choice_for(pod, node)).unwrap_or_default();
            cache.storage.assume(&choice, &node);
            cache.place(pod.clone(), &node);
            Ok((node, choice))
        }
        Err(diagnosis) => {
            shared.queue.park(pod, &diagnosis.plugins);
            Err(diagnosis)
        }
    })
}
