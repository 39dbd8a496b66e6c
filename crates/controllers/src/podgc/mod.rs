//! The loop that deletes Pods which no node agent will: of nodes that are gone or out of service, never scheduled, or too many.
//!
//! Two controllers: one looks at single Pods whenever they or their node change, the other counts those that have ended.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::Api;
use pintle_runtime::{
    Action, Attempt, Change, Clock, Context, Controller, Error, Executor, Informer, Key, Plan, Reconciler, error, when,
};

use crate::pods;
use plan::{Facts, NodeState, Step};

/// Index of Pods: those that have ended.
fn ended(pod: &Pod) -> Vec<String> {
    pods::is_terminal(pod).then(String::new).into_iter().collect()
}

/// How often Pods that have ended are counted, at most.
const COUNTING_PERIOD: Duration = Duration::from_secs(20);

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (nodes, pods) = (context.informers.of::<Node>(), context.informers.of::<Pod>());
    pods::index_by_node(&pods);
    pods.index(ended);
    let executor = Executor::new(&context, "pod-garbage-collector");

    let on_node = pods.clone();
    let single = Controller::new("podgc", &context)
        .workers(4)
        .for_each::<Pod>(when::anything)
        .watches::<Node>(
            |change| when::differs(change, plan::is_out_of_service),
            move |change: &Change<Node>| {
                let pods = pods::on_node(&on_node, change.key().name());
                pods.iter().map(|pod| Key::of(pod.as_ref())).collect()
            },
        )
        .run(Single {
            client: context.client.clone(),
            clock: context.clock.clone(),
            executor: executor.clone(),
            nodes,
            pods: pods.clone(),
            missing_since: Mutex::default(),
        });
    let all = Controller::new("podgc-terminated", &context)
        .watches::<Pod>(|change| pods::is_terminal(change.object()), |_| vec![Key::cluster("ended")])
        .run(Ended { clock: context.clock.clone(), executor, pods, counted_at: Mutex::default() });
    futures::future::join(single, all).await;
}

struct Single {
    client: Client,
    clock: Clock,
    executor: Executor,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    /// Since when the node of a Pod is known not to be there.
    missing_since: Mutex<BTreeMap<Key, Timestamp>>,
}

impl Reconciler for Single {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let pod = self.pods.get(key);
        let node = pod.as_ref().map_or(NodeState::None, |pod| self.node_of(key, pod));
        if !matches!(node, NodeState::MissingSince(_)) {
            self.missing_since.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        }
        let Some(pod) = pod else { return Ok(Action::done()) };
        let facts = Facts { pod: &pod, node, now: self.clock.now() };
        let plan = match plan::plan(&facts) {
            Step::Done(plan) => plan,
            // The cache may be behind.
            Step::IfNodeIsGone(_) if self.is_there(pods::node_name(&pod)).await? => {
                Plan { again: Some(COUNTING_PERIOD), ..Plan::default() }
            }
            Step::IfNodeIsGone(plan) => plan,
        };
        Ok(self.executor.execute(pod.as_ref(), plan).await?)
    }
}

impl Single {
    fn node_of(&self, key: &Key, pod: &Pod) -> NodeState {
        let name = pods::node_name(pod);
        if name.is_empty() {
            return NodeState::None;
        }
        match self.nodes.get(&Key::cluster(name)) {
            Some(node) if plan::is_out_of_service(&node) => NodeState::OutOfService,
            Some(_) => NodeState::There,
            None => {
                let mut missing = self.missing_since.lock().unwrap_or_else(PoisonError::into_inner);
                NodeState::MissingSince(*missing.entry(key.clone()).or_insert_with(|| self.clock.now()))
            }
        }
    }

    /// Asks the server and not the cache.
    async fn is_there(&self, node: &str) -> Result<bool, Error> {
        let found = Api::<Node>::all(self.client.clone()).get_metadata(node).await;
        Ok(error::ignore_not_found(found)?.is_some())
    }
}

struct Ended {
    clock: Clock,
    executor: Executor,
    pods: Informer<Pod>,
    counted_at: Mutex<Option<Timestamp>>,
}

impl Reconciler for Ended {
    async fn reconcile(&self, _: &Key, _: &Attempt) -> Result<Action, Error> {
        let now = self.clock.now();
        {
            let mut counted_at = self.counted_at.lock().unwrap_or_else(PoisonError::into_inner);
            let since = counted_at.and_then(|then| Duration::try_from(now.duration_since(then)).ok());
            if let Some(left) =
                since.and_then(|since| COUNTING_PERIOD.checked_sub(since)).filter(|left| !left.is_zero())
            {
                return Ok(Action::requeue_after(left));
            }
            *counted_at = Some(now);
        }
        let plan = plan::too_many(self.pods.by(ended, ""), now);
        Ok(self.executor.carry_out(plan).await?)
    }
}
