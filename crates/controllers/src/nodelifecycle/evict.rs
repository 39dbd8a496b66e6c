//! Deletes Pods whose tolerations have run out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Client, ResourceExt};
use pintle_runtime::{Action, Attempt, Clock, Context, Error, Informer, Key, Reconciler, Recorder, error, write};
use serde_json::json;

use super::plan::{self, Fate};
use crate::pods;

pub(super) struct Evictions {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    /// When each Pod was first seen on a tainted node.
    first_seen: Mutex<BTreeMap<Key, Timestamp>>,
}

impl Reconciler for Evictions {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let pod = self.pods.get(key).filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let node = pod.as_ref().and_then(|pod| self.nodes.get(&Key::cluster(pods::node_name(pod))));
        let taints = node.map(|node| plan::no_execute_taints(&node)).unwrap_or_default();
        let Some(pod) = pod.filter(|_| !taints.is_empty()) else {
            self.first_seen().remove(key);
            return Ok(Action::done());
        };
        let now = self.clock.now();
        let first_seen = *self.first_seen().entry(key.clone()).or_insert(now);
        match plan::fate(&pod, &taints, first_seen, now) {
            Fate::Stays => Ok(Action::done()),
            Fate::GoesIn(left) => Ok(Action::requeue_after(left)),
            Fate::GoesNow => {
                self.evict(key, &pod).await?;
                Ok(Action::done())
            }
        }
    }
}

impl Evictions {
    pub(super) fn new(context: &Context, nodes: Informer<Node>, pods: Informer<Pod>) -> Self {
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let recorder = context.recorder("taint-eviction-controller");
        Evictions { client, clock, recorder, nodes, pods, first_seen: Mutex::default() }
    }

    fn first_seen(&self) -> MutexGuard<'_, BTreeMap<Key, Timestamp>> {
        self.first_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn evict(&self, key: &Key, pod: &Pod) -> Result<(), Error> {
        self.recorder.normal(pod, "TaintManagerEviction", format!("Marking for deletion Pod {key}"));
        let api: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace());
        let conditions = plan::evicted(pod, self.clock.now());
        let marked = write::merge_status(&api, key.name(), json!({"conditions": conditions})).await;
        if error::ignore_not_found(marked)?.is_none() {
            return Ok(());
        }
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let result = api.delete(key.name(), &DeleteParams::default().preconditions(preconditions)).await;
        error::ignore_not_found(result)?;
        Ok(())
    }
}
