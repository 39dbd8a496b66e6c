//! A node's presence: its Node object, the heartbeat in it, and its Lease.
//!
//! One task a node, asleep but for one Lease write, by default every ten seconds. The Node object itself is written when it
//! changes, and every five minutes so that its heartbeat is not forgotten.

mod lease;
mod object;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use kube::Resource;
use kube::api::{Patch, PatchParams, PostParams};
use pintle_container::Runtime;
use pintle_runtime::{ApiError, Context, Error, Informer, Key, Objects, Recorder};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::config::NodeConfig;
use crate::devices::{Amounts, Devices};
use crate::pressure::Pressure;
use lease::Heartbeat;
use object::Told;
pub(crate) use object::reference;

/// Changes of devices that come together are written together.
const GATHER: Duration = Duration::from_millis(100);

/// How soon a runtime that cannot run Pods is asked again.
const UNWELL: Duration = Duration::from_secs(1);

/// The Node's heartbeat is at least this young.
const REPORT: SignedDuration = SignedDuration::from_mins(5);

pub(crate) struct Presence {
    context: Context,
    config: NodeConfig,
    runtime: Arc<dyn Runtime>,
    runtime_version: String,
    nodes: Informer<Node>,
    recorder: Recorder,
    devices: Option<Arc<Devices>>,
    heartbeat: Heartbeat,
    reported_at: Option<Timestamp>,
    /// A Node that says what it should, and what was told when it was looked at.
    in_order: Option<(Arc<Node>, Told)>,
    /// When it was last asked, the runtime could not run Pods.
    is_unwell: bool,
    pressure: Arc<Pressure>,
}

impl Presence {
    pub(crate) fn new(
        context: &Context,
        nodes: Informer<Node>,
        config: NodeConfig,
        runtime: Arc<dyn Runtime>,
        recorder: Recorder,
        pressure: Arc<Pressure>,
        devices: Option<Arc<Devices>>,
    ) -> Self {
        Presence {
            nodes,
            heartbeat: Heartbeat::new(context, &config),
            context: context.clone(),
            config,
            runtime_version: runtime.version().to_string(),
            runtime,
            recorder,
            devices,
            reported_at: None,
            in_order: None,
            is_unwell: false,
            pressure,
        }
    }

    /// Registers and keeps the node present. Runs until dropped.
    pub(crate) async fn keep(mut self) {
        self.recorder.record(
            &object::reference(&self.config.name),
            "Normal",
            "Starting",
            "Starting kubelet.".to_owned(),
        );
        let mut changes = self.devices.as_ref().map(|devices| devices.changes());
        let mut failures = 0;
        while let Err(error) = self.beat().await {
            tracing::warn!(node = %self.config.name, %error, "the node cannot register yet");
            tokio::time::sleep(pintle_runtime::Backoff::WATCH.after_with_jitter(failures, &self.context.random)).await;
            failures = failures.saturating_add(1).min(8);
        }
        // Nodes that started together must not beat together.
        let period = self.config.lease / 4;
        let first = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
        let wait = Duration::from_millis(self.context.random.below(first));
        wait_for_change(&mut changes, if self.is_unwell { wait.min(UNWELL) } else { wait }).await;
        loop {
            if let Err(error) = self.beat().await {
                tracing::warn!(node = %self.config.name, %error, "the heartbeat failed; trying again");
            }
            let jitter = self.context.random.below((first / 25).max(1));
            // What is about to become well is waited for.
            let period = if self.is_unwell { period.min(UNWELL) } else { period };
            let waited = wait_for_change(&mut changes, period + Duration::from_millis(jitter));
            tokio::select! {
                biased;
                // Nothing more should be sent to a node that lacks something.
                () = self.pressure.changed() => {}
                () = waited => {}
            }
        }
    }

    async fn beat(&mut self) -> Result<(), Error> {
        let node = match self.nodes.get(&Key::cluster(&self.config.name)) {
            Some(node) => node,
            None => self.register().await?.into(),
        };
        self.heartbeat.renew(node.meta().uid.as_deref().unwrap_or_default()).await?;
        self.report(&node).await
    }

    /// What the runtime says; that of a node without a machine keeps its images to itself.
    async fn ask(&self) -> Told {
        let health = self.runtime.health().await;
        if self.config.directory.is_none() {
            return Told::new(health, Vec::new());
        }
        let images = match self.runtime.list_images().await {
            Ok(images) => images,
            Err(error) => {
                tracing::warn!(node = %self.config.name, %error, "the runtime does not say which images it has");
                Vec::new()
            }
        };
        let devices = match &self.devices {
            Some(devices) => devices.amounts().await,
            None => Amounts::default(),
        };
        Told { pressure: self.pressure.conditions(), devices, ..Told::new(health, images) }
    }

    /// Makes the Node, or takes over the one that is there.
    async fn register(&mut self) -> Result<Node, Error> {
        let nodes: Objects<Node> = Objects::all(self.context.client.clone());
        let told = self.ask().await;
        let node = object::node(&self.config, &self.runtime_version, &told, self.context.clock.now());
        match nodes.create(&PostParams::default(), &node).await {
            Ok(node) => {
                tracing::info!(node = %self.config.name, "registered");
                self.reported_at = None;
                Ok(node)
            }
            Err(error) if error.is_already_exists() => Ok(nodes.get(&self.config.name).await?),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes labels and status where they differ from what they should be.
    async fn report(&mut self, node: &Arc<Node>) -> Result<(), Error> {
        let now = self.context.clock.now();
        let unsaid = NodeStatus::default();
        let old = node.status.as_ref().unwrap_or(&unsaid);
        if let Some(devices) = &self.devices {
            devices.hear(old.capacity.iter().flat_map(BTreeMap::keys));
        }
        let told = self.ask().await;
        self.is_unwell = told.unready.is_some();
        // The cache may be behind what this agent wrote.
        let last = self.reported_at.max(heartbeat_of(old));
        let is_due = last.is_none_or(|last| now.duration_since(last) >= REPORT);
        let is_known = |(known, before): &(Arc<Node>, Told)| Arc::ptr_eq(known, node) && *before == told;
        if !is_due && self.in_order.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        let nodes: Objects<Node> = Objects::all(self.context.client.clone());
        let missing = object::missing_labels(&self.config, node);
        if !missing.is_empty() {
            let patch = json!({"metadata": {"labels": &missing}});
            nodes.patch(&self.config.name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
        }
        let status = object::status(&self.config, &self.runtime_version, &told, old, now);
        if !is_due && !object::differs(old, &status) {
            self.in_order = missing.is_empty().then(|| (node.clone(), told));
            return Ok(());
        }
        let mut patch = json!({"metadata": {"uid": node.metadata.uid}, "status": status});
        own_amounts(&mut patch["status"], &self.config, &told.devices);
        match nodes.patch_status(&self.config.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => {
                self.reported_at = Some(now);
                Ok(())
            }
            // Deleted since: the next beat registers again.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Leaves in a patch only the amounts that this agent knows of: others' may have changed since it looked.
fn own_amounts(status: &mut Value, config: &NodeConfig, devices: &Amounts) {
    for list in ["capacity", "allocatable"] {
        let Some(amounts) = status.get_mut(list).and_then(Value::as_object_mut) else { continue };
        amounts.retain(|name, _| config.capacity.contains_key(name) || devices.capacity.contains_key(name));
        // What a patch does not name would stay.
        amounts.extend(devices.gone.iter().map(|name| (name.clone(), Value::Null)));
    }
}

/// Until devices have changed, but no longer than this.
async fn wait_for_change(changes: &mut Option<watch::Receiver<u64>>, longest: Duration) {
    let Some(changes) = changes else { return tokio::time::sleep(longest).await };
    if let Ok(Ok(())) = tokio::time::timeout(longest, changes.changed()).await {
        tokio::time::sleep(GATHER).await;
        changes.mark_unchanged();
    }
}

fn heartbeat_of(status: &NodeStatus) -> Option<Timestamp> {
    let beats = status.conditions.iter().flatten().filter_map(|condition| condition.last_heartbeat_time.as_ref());
    beats.map(|time| time.0).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_is_gone_is_taken_off_the_node_and_those_of_others_are_left_alone() {
        let config = NodeConfig::simulated("n", 0);
        let devices = Amounts {
            capacity: [("example.com/lamp".to_owned(), 2)].into(),
            allocatable: [("example.com/lamp".to_owned(), 1)].into(),
            gone: ["example.com/fan".to_owned()].into(),
        };
        let amounts = json!({"cpu": "32", "example.com/lamp": "2", "example.com/by-hand": "1"});
        let mut status = json!({"capacity": amounts, "phase": "x"});
        own_amounts(&mut status, &config, &devices);
        let left = json!({"cpu": "32", "example.com/lamp": "2", "example.com/fan": null});
        assert_eq!(status, json!({"capacity": left, "phase": "x"}));
    }
}
