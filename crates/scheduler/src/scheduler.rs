//! The loop: take the next Pod, find a node, assume it is there, bind it while the next one is looked at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_runtime::{Attempt, Cause, Causes, Change, Context, Recorder, Trigger};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

use crate::cache::Cache;
use crate::cycle::{Cycle, Diagnosis};
use crate::evict::{self, Nomination};
use crate::extender::{Dial, Extender};
use crate::pod::PodInfo;
use crate::preemption::NOT_TRIED;
use crate::queue::{Depth, Queue};
use crate::setup::Setup;
use crate::storage::Choice;
use crate::watch::Watch;
use crate::{DEFAULT_NAME, bind, extended, plugins};

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
    /// Pods that name one of these are its own.
    pub(crate) names: Vec<String>,
    pub(crate) extenders: Vec<Arc<Extender>>,
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
    pub fn start(context: &Context, prepared: Prepared) -> Self {
        let (trigger, context) = context.named(AGENT);
        let (shared, cycle) = prepare(context, prepared);
        let task = tokio::spawn(run(shared.clone(), cycle));
        Scheduler { shared, trigger, task }
    }

    /// The same without a task of its own: it ends with the context's shutdown, and at once when it is dropped.
    pub async fn run(context: &Context, prepared: Prepared) {
        let (_trigger, context) = context.named(AGENT);
        let (shared, cycle) = prepare(context, prepared);
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

/// A setup whose extenders can be asked.
#[derive(Clone, Default)]
pub struct Prepared {
    setup: Setup,
    extenders: Vec<Arc<Extender>>,
}

impl Prepared {
    pub async fn of(setup: Setup, dial: Dial) -> Result<Self, String> {
        let mut extenders = Vec::new();
        for extender in &setup.extenders {
            extenders.push(Arc::new(Extender::connect(extender, dial).await?));
        }
        Ok(Prepared { setup, extenders })
    }
}

fn prepare(context: Context, Prepared { setup, extenders }: Prepared) -> (Arc<Shared>, Cycle) {
    let ignored = setup.extenders.iter().flat_map(|extender| extender.ignored.iter().cloned()).collect();
    let cycle = Cycle::new(plugins::all(ignored), context.random.clone());
    let of_plugins = cycle.plugins().iter().map(|plugin| (plugin.name(), plugin.helped_by()));
    let helped_by = of_plugins.chain([(plugins::EXTENDER, &plugins::Event::ALL[..])]).collect();
    let shared = Arc::new(Shared {
        cache: Mutex::default(),
        queue: Queue::new(helped_by),
        storage_changed: Notify::new(),
        recorder: context.recorder(setup.names.first().map_or(DEFAULT_NAME, String::as_str)),
        names: setup.names,
        extenders,
        context: Arc::new(context),
    });
    (shared, cycle)
}

/// What became of a try.
pub(crate) enum Verdict {
    /// The node, and the volumes that the Pod gets there.
    Placed(String, Choice),
    Unschedulable(Diagnosis, Nomination),
    /// Something else went wrong.
    Failed(String),
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
            // Before the Pod is taken: waiting here must not hold back one that is updated meanwhile.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            while under_way.try_join_next().is_some() {}
            let pod = shared.queue.next().await;
            let asked = shared.extenders.iter().filter(|extender| extender.is_for(&pod));
            let extenders: Vec<&Extender> = asked.map(AsRef::as_ref).collect();
            let verdict = match extenders[..] {
                [] => attempt(&shared, &mut cycle, &pod),
                _ if !is_wanted(&shared, &pod) => None,
                _ => extended::attempt(&shared, &mut cycle, &pod, &extenders).await,
            };
            let Some(verdict) = verdict else { continue };
            let shared = shared.clone();
            under_way.spawn(async move {
                let write = async {
                    match verdict {
                        Verdict::Placed(node, choice) if choice.is_empty() => bind::bind(&shared, &pod, &node).await,
                        Verdict::Placed(node, choice) => {
                            // Volumes may take minutes, and others must not wait for them.
                            drop(permit);
                            bind::bind_with_volumes(&shared, &pod, &node, &choice).await;
                        }
                        Verdict::Unschedulable(diagnosis, nomination) => {
                            bind::report(&shared, &pod, &diagnosis, &nomination).await;
                            if let Nomination::To(eviction) = nomination {
                                evict::evict(&shared, &pod, &eviction).await;
                            }
                        }
                        Verdict::Failed(why) => bind::report_failure(&shared, &pod, why).await,
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
fn attempt(shared: &Shared, cycle: &mut Cycle, pod: &Arc<PodInfo>) -> Option<Verdict> {
    if !is_wanted(shared, pod) {
        return None;
    }
    let mut cache = shared.cache();
    match cycle.schedule(pod, &cache) {
        Ok(node) => take(shared, &mut cache, pod, node),
        Err(mut diagnosis) => {
            let nomination = if diagnosis.is_final() {
                refused(&mut cache, pod, &mut diagnosis)
            } else {
                let found = evict::search(shared, cycle, pod, &cache, &diagnosis);
                let (nomination, message) = evict::decide(shared, &mut cache, pod, found);
                diagnosis.preemption = message;
                nomination
            };
            shared.queue.park(pod, &diagnosis.plugins);
            Some(Verdict::Unschedulable(*diagnosis, nomination))
        }
    }
}

/// What becomes of the nomination of a Pod for which no room can be made.
pub(crate) fn refused(cache: &mut Cache, pod: &PodInfo, diagnosis: &mut Diagnosis) -> Nomination {
    if diagnosis.nodes > 0 {
        diagnosis.preemption = NOT_TRIED.to_owned();
        return Nomination::Kept;
    }
    cache.nominated.remove(&pod.uid);
    Nomination::Cleared
}

/// Does the Pod need a node?
fn is_wanted(shared: &Shared, pod: &PodInfo) -> bool {
    let placed = shared.cache().is_placed(&pod.uid) || pod.is_going();
    if placed {
        shared.queue.remove(&pod.key, &pod.uid);
    }
    !placed
}

/// Notes that the Pod is on the node, before the API server knows; nothing if it got one meanwhile.
pub(crate) fn take(shared: &Shared, cache: &mut Cache, pod: &Arc<PodInfo>, node: String) -> Option<Verdict> {
    if cache.is_placed(&pod.uid) {
        shared.queue.remove(&pod.key, &pod.uid);
        return None;
    }
    let choice = cache.node(&node).map(|node| cache.storage.choice_for(pod, node)).unwrap_or_default();
    cache.storage.assume(&choice, &node);
    cache.place(pod.clone(), &node);
    Some(Verdict::Placed(node, choice))
}
