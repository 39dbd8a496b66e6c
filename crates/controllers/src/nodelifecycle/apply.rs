//! Listens to nodes, and writes their conditions and taints.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use pintle_runtime::{Action, Attempt, Clock, Context, Error, Informer, Key, Reconciler, Recorder, error};
use serde_json::json;

use super::BY_NODE;
use super::plan::{self, Heard, Verdict};

pub(super) struct Health {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    nodes: Informer<Node>,
    leases: Informer<Lease>,
    pods: Informer<Pod>,
    heard: Mutex<BTreeMap<String, Heard>>,
}

impl Reconciler for Health {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(node) = self.nodes.get(key) else {
            if self.heard().remove(key.name()).is_some() {
                self.tell(
                    key.name(),
                    "",
                    "RemovingNode",
                    format!("Node {0} event: Removing Node {0} from Controller", key.name()),
                );
            }
            return Ok(Action::done());
        };
        let now = self.clock.now();
        let lease = self.leases.get(&Key::new("kube-node-lease", key.name()));
        let before = self.heard().get(key.name()).cloned();
        let mut heard = Heard::listen(before.as_ref(), &node, lease.as_deref(), now);
        if before.is_none() {
            let message = format!("Node {0} event: Registered Node {0} in Controller", key.name());
            self.tell(key.name(), &node.uid().unwrap_or_default(), "RegisteredNode", message);
        }

        let mut node = node;
        let verdict = plan::judge(&node, &heard, now);
        if let Verdict::Silent(conditions) = &verdict {
            let mut silent = node.as_ref().clone();
            silent.status.get_or_insert_default().conditions = Some(conditions.clone());
            let api: Api<Node> = Api::all(self.client.clone());
            node = api.replace_status(key.name(), &PostParams::default(), &silent).await?.into();
        }
        let was_ready = before.is_some_and(|before| before.ready == "True");
        let ready = plan::ready_status(&node).to_owned();
        if was_ready && ready != "True" {
            let message = format!("Node {} status is now: NodeNotReady", key.name());
            self.tell(key.name(), &node.uid().unwrap_or_default(), "NodeNotReady", message);
        }
        // A node that answers corrects its Pods' status itself; one that does not never will.
        if ready == "Unknown" || (was_ready && ready == "False") {
            self.mark_pods_not_ready(key.name()).await?;
        }
        self.write_taints(&node).await?;
        heard.ready = ready;
        self.heard().insert(key.name().to_owned(), heard);
        Ok(match verdict {
            Verdict::Alive(left) => Action::requeue_after(left),
            Verdict::Silent(_) | Verdict::KnownSilent => Action::done(),
        })
    }
}

impl Health {
    pub(super) fn new(context: &Context, nodes: Informer<Node>, leases: Informer<Lease>, pods: Informer<Pod>) -> Self {
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let recorder = context.recorder("node-controller");
        Health { client, clock, recorder, nodes, leases, pods, heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, BTreeMap<String, Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Node events carry no namespace and no version.
    fn tell(&self, node: &str, uid: &str, reason: &str, message: String) {
        let reference = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(node.into()),
            uid: Some(uid.into()),
            ..ObjectReference::default()
        };
        self.recorder.record(&reference, "Normal", reason, message);
    }

    async fn mark_pods_not_ready(&self, node: &str) -> Result<(), Error> {
        for pod in self.pods.by_index(BY_NODE, node) {
            let Some(conditions) = plan::not_ready_now(&pod, self.clock.now()) else { continue };
            let mut marked = pod.as_ref().clone();
            marked.status.get_or_insert_default().conditions = Some(conditions);
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
            let result = api.replace_status(&pod.name_any(), &PostParams::default(), &marked).await;
            if error::ignore_not_found(result)?.is_some() {
                self.recorder.warning(pod.as_ref(), "NodeNotReady", "Node is not ready");
            }
        }
        Ok(())
    }

    async fn write_taints(&self, node: &Node) -> Result<(), Error> {
        let is_ready = |other: &Node| match other.metadata.name == node.metadata.name {
            true => plan::ready_status(node) == "True",
            false => plan::ready_status(other) == "True",
        };
        let one_is_healthy = self.nodes.all().iter().any(|other| is_ready(other));
        if let Some(taints) = plan::wanted_taints(node, one_is_healthy, self.clock.now()) {
            // The list is replaced as a whole, so it must not meet another version.
            let patch = json!({
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": taints},
            });
            let api: Api<Node> = Api::all(self.client.clone());
            api.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }
}
