//! Pods on the nodes of this process: who wakes a Pod's worker, and what is remembered between two looks.
//!
//! One informer and one queue serve all nodes. A Pod costs a task only while something is done for it.

mod act;
mod admit;
mod clean;
mod evict;
pub(crate) mod guards;
mod hooks;
mod image;
mod mirror;
mod observe;
mod prepare;
mod probe;
mod recall;
mod refuse;
mod resize;
mod room;
mod sync;
mod tally;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_container::{ContainerId, Runtime, SandboxId};
use pintle_meta::Clock;
use pintle_runtime::{Action, Attempt, Change, Context, Controller, Error, Informer, Key, Reconciler, Recorder, Waker};

use crate::collect::Collection;
use crate::config::NodeConfig;
use crate::machine::{Attachment, Machine};
use crate::plan::{Evicted, FailedPull, Pull, RestartBackoff, World};
use crate::pressure::Pressure;
use crate::probes::Probes;
use crate::resize::Resizing;
use crate::serve::usage::Meter;
use crate::statics::{Reader, Statics};
pub(crate) use evict::Tenancy;
use guards::Guards;
use hooks::Hooks;
use probe::Answer;
pub(crate) use room::Claims;
use tally::Probed;
pub(crate) use tally::{ProbeCount, Tallies};
use write::Written;

/// Workers for all nodes; one is busy only while the runtime or the API server is.
const WORKERS: usize = 32;

/// A Pod for which the runtime, the disk or a hook takes longer does not count among those: no Pod holds up another.
const OVERTAKEN_AFTER: Duration = Duration::from_millis(100);

/// A node of this process, as its Pods see it.
pub(crate) struct Home {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) config: Arc<NodeConfig>,
    pub(crate) tallies: Tallies,
    /// The Node as the API server has it, with the labels and taints that others gave it.
    pub(crate) nodes: Informer<Node>,
    /// What the Pods that it has taken on take of it.
    pub(crate) claims: Claims,
    /// What the node has for Pods.
    pub(crate) allocatable: BTreeMap<String, Quantity>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) recorder: Recorder,
    pub(crate) meter: Meter,
    /// How many dead runs a container keeps, and from which age on they go.
    pub(crate) dead: Collection,
    /// What the node lacks.
    pub(crate) pressure: Arc<Pressure>,
    /// What it has to isolate Pods with.
    pub(crate) guards: Guards,
    /// Nothing for a node that is not there.
    pub(crate) machine: Option<Machine>,
}

/// One life of a Pod on a node.
pub(crate) struct Seat {
    home: Arc<Home>,
    uid: String,
    memory: tokio::sync::Mutex<Memory>,
    // Written by what goes on while no worker looks: pulls, probes, hooks.
    pulls: Mutex<Pulls>,
    answers: Mutex<Vec<Answer>>,
    hooks: Mutex<Hooks>,
    /// Containers that somebody was attached to.
    attached: Mutex<BTreeSet<ContainerId>>,
    /// How often its probes succeeded and failed.
    probed: Mutex<Probed>,
    // Written by the one who watches what the node lacks.
    evicted: Mutex<Option<Evicted>>,
    /// Nothing of the Pod runs, nothing will, and its volumes are gone.
    finished: AtomicBool,
}

/// Every life of every name, by UID: a Pod's successor may come before it is cleaned away.
type Seats = BTreeMap<Key, BTreeMap<String, Arc<Seat>>>;

/// What a worker remembers of a Pod. Losing it costs a repeated event, nothing more.
#[derive(Default)]
struct Memory {
    /// A runtime that keeps nothing was told what ran before.
    has_recalled: bool,
    probes: Probes,
    backoffs: BTreeMap<String, RestartBackoff>,
    asked: BTreeMap<ContainerId, Duration>,
    /// All containers are being restarted; by container, the number of the last run that was removed for that.
    restarting_all: bool,
    forgotten: BTreeMap<String, u32>,
    /// When the Pod began to be brought to its end.
    ending_since: Option<Timestamp>,
    /// Runs that were stopped for others to take their place.
    replaced: BTreeSet<ContainerId>,
    /// The sandbox of which was told that another takes its place.
    changed_sandbox: Option<SandboxId>,
    attachment: Attachment,
    resizing: Resizing,
    /// The status as this agent last wrote it, until the cache has caught up.
    written: Option<Written>,
    deleted: bool,
    /// The node has taken the Pod on, with the devices that it asks for; or it was found running.
    admitted: bool,
}

#[derive(Default)]
struct Pulls {
    /// By container.
    states: BTreeMap<String, Pull>,
    /// By image: how often it failed in a row, and the last time.
    failures: BTreeMap<String, (u32, FailedPull)>,
}

impl Seat {
    fn new(home: Arc<Home>, uid: &str) -> Self {
        Seat {
            home,
            uid: uid.to_owned(),
            memory: tokio::sync::Mutex::default(),
            pulls: Mutex::default(),
            answers: Mutex::default(),
            hooks: Mutex::default(),
            attached: Mutex::default(),
            probed: Mutex::default(),
            evicted: Mutex::default(),
            finished: AtomicBool::new(false),
        }
    }

    fn pulls(&self) -> MutexGuard<'_, Pulls> {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hooks(&self) -> MutexGuard<'_, Hooks> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the Pod is reached: its own address, or the node's if it shares that.
    fn address(&self, world: &World) -> Option<IpAddr> {
        let sandbox = world.ready_sandbox()?;
        sandbox.addresses.first().copied().or(Some(self.home.address))
    }
}

/// All Pods of all nodes of this process. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(crate) struct Pods {
    context: Context,
    pods: Informer<Pod>,
    statics: Statics,
    waker: Waker,
    // Lock order: homes before seats.
    homes: Arc<RwLock<BTreeMap<String, Arc<Home>>>>,
    seats: Arc<Mutex<Seats>>,
}

impl Pods {
    /// Makes the loop and the handle through which nodes join it.
    pub(crate) fn new(context: &Context, pods: Informer<Pod>) -> (Controller, Pods) {
        pods.index(by_node);
        let homes: Arc<RwLock<BTreeMap<String, Arc<Home>>>> = Arc::default();
        let controller =
            Controller::new("kubelet", context).workers(WORKERS).overtaken_after(OVERTAKEN_AFTER).watch(&pods, {
                let homes = homes.clone();
                move |change| keys_of(change, &homes)
            });
        let waker = controller.waker();
        (
            controller,
            Pods { context: context.clone(), pods, statics: Statics::default(), waker, homes, seats: Arc::default() },
        )
    }

    /// Takes a node's Pods on: those that the API server knows and those that its runtime runs.
    pub(crate) async fn join(&self, home: Arc<Home>) {
        let found = home.runtime.list_sandboxes(None).await.unwrap_or_else(|error| {
            tracing::warn!(node = %home.name, %error, "the runtime does not say what it runs");
            Vec::new()
        });
        self.homes.write().unwrap_or_else(PoisonError::into_inner).insert(home.name.clone(), home.clone());
        for sandbox in found {
            let key = Key::new(sandbox.pod.namespace, sandbox.pod.name);
            self.seat(&key, &sandbox.pod.uid, &home);
            self.waker.add(key);
        }
        // Whoever was looked at before the node was here was nobody's.
        let known = self.pods.by(by_node, &home.name);
        let known = known.iter().map(|pod| Key::of(pod.as_ref()));
        for key in self.statics.keys().into_iter().chain(known) {
            self.waker.add(key);
        }
    }

    /// Lets a node's Pods be; what runs goes on running.
    pub(crate) fn leave(&self, name: &str) {
        self.homes.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        let mut seats = self.seats();
        for lives in seats.values_mut() {
            lives.retain(|_, seat| seat.home.name != name);
        }
        seats.retain(|_, lives| !lives.is_empty());
    }

    /// Wakes Pods when their containers change by themselves. Runs until dropped.
    pub(crate) async fn follow(&self, home: &Home) {
        loop {
            for pod in home.runtime.changes().await {
                self.waker.add(Key::new(pod.namespace, pod.name));
            }
        }
    }

    /// One look at the files of a node's static Pods.
    pub(crate) async fn read_files(&self, reader: &mut Reader) {
        reader.look(&self.statics, &self.context.clock, &self.waker).await;
    }

    pub(crate) fn home(&self, name: &str) -> Option<Arc<Home>> {
        self.homes.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn informer(&self) -> &Informer<Pod> {
        &self.pods
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.context.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The seat of one life of a Pod, made if there is none.
    fn seat(&self, key: &Key, uid: &str, home: &Arc<Home>) -> Arc<Seat> {
        let mut seats = self.seats();
        let lives = seats.entry(key.clone()).or_default();
        let seat = lives.entry(uid.to_owned()).or_insert_with(|| Arc::new(Seat::new(home.clone(), uid)));
        seat.clone()
    }

    /// The seat of one life of a Pod, if it has not been cleaned away.
    fn seat_of(&self, key: &Key, uid: &str) -> Option<Arc<Seat>> {
        self.seats().get(key).and_then(|lives| lives.get(uid)).cloned()
    }

    /// Whether nobody was attached to this container before; from now on somebody was.
    pub(crate) fn attaches_first(&self, key: &Key, uid: &str, id: &ContainerId) -> bool {
        let seat = self.seat_of(key, uid);
        seat.is_some_and(|seat| seat.attached.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()))
    }

    fn forget(&self, key: &Key, uid: &str) {
        let mut seats = self.seats();
        if let Some(lives) = seats.get_mut(key) {
            if let Some(seat) = lives.remove(uid) {
                seat.home.claims.release(uid);
            }
            if lives.is_empty() {
                seats.remove(key);
            }
        }
    }
}

impl Reconciler for Pods {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let (of_file, known) = (self.statics.get(key), self.pods.get(key));
        let shown = self.mirror(key, of_file.as_deref(), known.as_deref()).await;
        let pod = match of_file {
            Some(of_file) => Some(Arc::new(mirror::faced(&of_file, known.as_deref()))),
            None => known.filter(|known| mirror::shown_by(known).is_none()),
        };
        let home = pod.as_deref().and_then(node_of).and_then(|node| self.home(node));
        let present = pod.zip(home).and_then(|(pod, home)| {
            let uid = pod.metadata.uid.clone()?;
            Some((pod, self.seat(key, &uid, &home)))
        });
        // Lives that the API server knows no more, under this name.
        let present_uid = present.as_ref().map(|(_, seat)| seat.uid.clone());
        let lives: Vec<Arc<Seat>> = self.seats().get(key).into_iter().flat_map(BTreeMap::values).cloned().collect();
        let mut wake = None;
        for seat in lives.into_iter().filter(|seat| Some(&seat.uid) != present_uid.as_ref()) {
            wake = earlier(wake, self.clean(key, &seat).await?);
        }
        if let Some((pod, seat)) = present {
            wake = earlier(wake, self.sync(key, &pod, &seat).await?);
        }
        // A static Pod runs whether or not it can be shown.
        shown?;
        Ok(wake.map_or_else(Action::done, Action::requeue_after))
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

fn keys_of(change: &Change<Pod>, homes: &RwLock<BTreeMap<String, Arc<Home>>>) -> Vec<Key> {
    let homes = homes.read().unwrap_or_else(PoisonError::into_inner);
    let ours = node_of(change.object()).is_some_and(|node| homes.contains_key(node));
    if ours { vec![change.key()] } else { Vec::new() }
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Index of Pods: the node.
pub(crate) fn by_node(pod: &Pod) -> Vec<String> {
    node_of(pod).map(str::to_owned).into_iter().collect()
}

/// `web_shop(7f0c…)`, as upstream names Pods in messages.
pub(crate) fn described(pod: &Pod) -> String {
    let meta = &pod.metadata;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}_{}({})", part(&meta.name), part(&meta.namespace), part(&meta.uid))
}
