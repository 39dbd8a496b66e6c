//! What a node does when it runs out of memory, disk or processes: it says so, removes what nobody needs, and then sends Pods away,
//! one at a time. Pods that write more than they may go whatever the node has.
//!
//! - `settings`: at which thresholds, as the operator gives them
//! - `signals`: what is left, as the machine tells it
//! - `senses`: what Pods use, as runtime and disk tell it
//! - `plan`: which thresholds count now; no I/O
//! - `rank`: who goes first, and what the owner is told; no I/O
//! - `limits`: who has written too much; no I/O
//! - `admit`: which Pods a node under pressure admits; no I/O

mod admit;
mod limits;
mod plan;
mod rank;
mod senses;
mod settings;
mod signals;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pintle_container::{Runtime, Usage};
use pintle_meta::Clock;
use pintle_runtime::Recorder;
use tokio::sync::Notify;

pub(crate) use admit::refusal;
pub(crate) use senses::MachineSenses;
pub use settings::{Amount, Eviction, EvictionError, Threshold, duration};
pub use signals::Signal;
pub(crate) use signals::{Condition, Observations};
pub(crate) use usage::PodUse;

use crate::collect::Collector;
use crate::node::reference;
use crate::plan::Evicted;
use plan::History;
use rank::Candidate;
pub(crate) use rank::is_critical;
use signals::Resource;
use usage::Measured;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(10);

/// The grace of a Pod that must go at once.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The reason of Pods that go because the node lacks something.
const EVICTED: &str = "Evicted";

/// How long an evicted Pod may take before the next look, and how often it is asked whether it is gone.
const CLEANED: Duration = Duration::from_secs(30);
const ASK: Duration = Duration::from_secs(1);

/// What the node lacks now, for those who report it and those who take on Pods.
#[derive(Default)]
pub(crate) struct Pressure {
    conditions: Mutex<BTreeSet<Condition>>,
    changed: Notify,
}

impl Pressure {
    pub(crate) fn conditions(&self) -> BTreeSet<Condition> {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the node lacks something else than before.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What came and went; nothing if it is as before.
    fn set(&self, new: &BTreeSet<Condition>) -> Vec<(Condition, bool)> {
        let old = std::mem::replace(&mut *self.conditions.lock().unwrap_or_else(PoisonError::into_inner), new.clone());
        let changes: Vec<_> = old.symmetric_difference(new).map(|changed| (*changed, new.contains(changed))).collect();
        if !changes.is_empty() {
            self.changed.notify_one();
        }
        changes
    }
}

/// What can be felt of a machine. Both are called where waiting for a disk holds nobody up.
pub(crate) trait Senses: Send + Sync + 'static {
    fn signals(&self, images: Option<&Path>) -> Observations;

    /// Whether images and what containers write on top of them have a file system of their own.
    fn images_apart(&self, images: Option<&Path>) -> bool;

    /// What a Pod uses, of the disk only where that is asked for. Nothing if nothing is known of the Pod.
    fn measure(&self, pod: &Pod, running: &[Usage], disk: bool) -> Option<PodUse>;
}

/// The Pods of a node.
pub(crate) trait Tenants: Send + Sync + 'static {
    /// Those that have not ended and were not told to go.
    fn active(&self) -> Vec<Arc<Pod>>;

    /// The UIDs of those that have not ended.
    fn living(&self) -> BTreeSet<String>;

    fn evict(&self, pod: &Pod, evicted: Evicted);

    /// Whether nothing is left of an evicted Pod that takes room.
    fn is_finished(&self, pod: &Pod) -> bool;
}

/// Watches over one machine.
pub(crate) struct Watch<T> {
    pub(crate) node: String,
    pub(crate) settings: Eviction,
    pub(crate) senses: Arc<dyn Senses>,
    pub(crate) tenants: T,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) collector: Arc<Collector>,
    pub(crate) pressure: Arc<Pressure>,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
}

impl<T: Tenants> Watch<T> {
    /// Runs until dropped.
    pub(crate) async fn run(self) {
        let mut history = History::default();
        loop {
            let evicted = self.look(&mut history).await.unwrap_or_else(|message| {
                tracing::warn!(node = %self.node, %message, "what the node lacks cannot be told; trying again soon");
                Vec::new()
            });
            match evicted.is_empty() {
                true => tokio::time::sleep(PERIOD).await,
                false => self.cleaned(&evicted).await,
            }
        }
    }

    /// The next look sees what the evicted have given back.
    async fn cleaned(&self, evicted: &[Arc<Pod>]) {
        let gone = async {
            loop {
                tokio::time::sleep(ASK).await;
                if evicted.iter().all(|pod| self.tenants.is_finished(pod)) {
                    return;
                }
            }
        };
        if tokio::time::timeout(CLEANED, gone).await.is_err() {
            tracing::warn!(node = %self.node, "an evicted Pod takes long to end; what it holds is not free yet");
        }
    }

    /// Says which Pods were told to go.
    async fn look(&self, history: &mut History) -> Result<Vec<Arc<Pod>>, String> {
        let store = self.runtime.image_store().await.map_err(|error| error.to_string())?;
        let images = store.map(|store| PathBuf::from(store.path));
        let observations = self.observe(images.clone()).await?;
        let verdict = plan::plan(&self.settings, &observations, history, self.clock.now());
        self.tell(&verdict.conditions);
        let active = self.tenants.active();
        let apart = self.senses.images_apart(images.as_deref());
        let over = self.over_their_limits(&active, apart).await?;
        if !over.is_empty() {
            return Ok(over);
        }
        let Some(first) = verdict.reclaim.first() else { return Ok(Vec::new()) };
        let resource = first.signal.resource();
        let message = format!("Attempting to reclaim {}", resource.name());
        self.recorder.record(&reference(&self.node), "Warning", "EvictionThresholdMet", message);
        if self.frees_room(first, apart).await && plan::is_relieved(&self.settings, &self.observe(images).await?) {
            tracing::info!(node = %self.node, resource = resource.name(), "enough was freed without evicting a Pod");
            return Ok(Vec::new());
        }
        let disk = matches!(resource, Resource::Storage | Resource::Inodes);
        let uses = self.measure(active.clone(), disk).await?;
        Ok(self.evict_first(&active, &uses, &verdict.reclaim, &observations, apart))
    }

    async fn observe(&self, images: Option<PathBuf>) -> Result<Observations, String> {
        let senses = self.senses.clone();
        blocking(move || senses.signals(images.as_deref())).await
    }

    async fn measure(&self, pods: Vec<Arc<Pod>>, disk: bool) -> Result<BTreeMap<String, PodUse>, String> {
        let running = self.runtime.usage().await.map_err(|error| error.to_string())?;
        let senses = self.senses.clone();
        blocking(move || {
            let measured = pods.iter().filter_map(|pod| Some((uid(pod), senses.measure(pod, &running, disk)?)));
            measured.collect()
        })
        .await
    }

    async fn over_their_limits(&self, active: &[Arc<Pod>], apart: bool) -> Result<Vec<Arc<Pod>>, String> {
        let bounded: Vec<Arc<Pod>> = active.iter().filter(|pod| limits::is_bounded(pod)).cloned().collect();
        if bounded.is_empty() {
            return Ok(Vec::new());
        }
        let uses = self.measure(bounded.clone(), true).await?;
        let mut gone = Vec::new();
        for pod in bounded {
            let over = uses.get(&uid(&pod)).and_then(|used| limits::exceeded(&pod, used, apart));
            if let Some(message) = over
                && self.evict(&pod, Evicted { reason: EVICTED, message, grace: AT_ONCE, disrupts: None })
            {
                gone.push(pod);
            }
        }
        Ok(gone)
    }

    /// Removes what nobody needs from a full disk. False if there is nothing of that kind.
    async fn frees_room(&self, met: &Threshold, apart: bool) -> bool {
        let disk = met.signal.condition() == Condition::Disk;
        if !disk || (apart && !met.signal.is_of_images()) {
            return false;
        }
        if let Err(error) = self.collector.reclaim(&self.tenants.living()).await {
            tracing::warn!(node = %self.node, %error, "not all that nobody needs could be removed");
        }
        true
    }

    fn evict_first(
        &self,
        active: &[Arc<Pod>],
        uses: &BTreeMap<String, PodUse>,
        met: &[&Threshold],
        observations: &Observations,
        apart: bool,
    ) -> Vec<Arc<Pod>> {
        let Some(first) = met.first() else { return Vec::new() };
        let resource = first.signal.resource();
        let mut candidates: Vec<Candidate<'_>> = active.iter().map(|pod| (pod.as_ref(), uses.get(&uid(pod)))).collect();
        rank::rank(&mut candidates, resource, Measured::of(first.signal, apart));
        for candidate in candidates {
            let message = rank::message(candidate, resource, met, observations);
            let (grace, disrupts) = (self.grace(candidate.0, first), Some(message.clone()));
            if self.evict(candidate.0, Evicted { reason: EVICTED, message, grace, disrupts }) {
                return active.iter().filter(|pod| std::ptr::eq(pod.as_ref(), candidate.0)).cloned().collect();
            }
        }
        tracing::warn!(node = %self.node, resource = resource.name(), "the node is low and no Pod can be evicted");
        Vec::new()
    }

    fn grace(&self, pod: &Pod, met: &Threshold) -> Duration {
        if met.grace.is_zero() {
            return AT_ONCE;
        }
        let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let own = own.and_then(|own| u64::try_from(own).ok()).unwrap_or(self.settings.max_pod_grace);
        Duration::from_secs(own.min(self.settings.max_pod_grace))
    }

    /// False for a Pod that the node keeps in any case.
    fn evict(&self, pod: &Pod, evicted: Evicted) -> bool {
        if is_critical(pod) {
            return false;
        }
        tracing::info!(node = %self.node, pod = %crate::pods::described(pod), message = %evicted.message, "evicted");
        self.recorder.warning(pod, EVICTED, evicted.message.clone());
        self.tenants.evict(pod, evicted);
        true
    }

    fn tell(&self, conditions: &BTreeSet<Condition>) {
        for (condition, has) in self.pressure.set(conditions) {
            let word = match (condition, has) {
                (Condition::Memory, true) => "NodeHasInsufficientMemory",
                (Condition::Memory, false) => "NodeHasSufficientMemory",
                (Condition::Disk, true) => "NodeHasDiskPressure",
                (Condition::Disk, false) => "NodeHasNoDiskPressure",
                (Condition::Pid, true) => "NodeHasInsufficientPID",
                (Condition::Pid, false) => "NodeHasSufficientPID",
            };
            let message = format!("Node {} status is now: {word}", self.node);
            self.recorder.record(&reference(&self.node), "Normal", word, message);
        }
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// The disk may be slow; nothing else is held up by it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| format!("work on the disk did not come to its end: {error}"))
}
