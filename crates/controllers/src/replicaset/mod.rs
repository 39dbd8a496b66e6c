//! The replicaset loop: as many Pods as asked for, made from the template.
//!
//! Watches ReplicaSets, and Pods: those it owns by their controller reference, orphans by the selectors that match.

mod plan;
pub(crate) mod rank;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::core::Selector;
use pintle_runtime::claim::claim;
use pintle_runtime::owner::{self, Claim};
use pintle_runtime::{Action, Attempt, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, when};

use crate::pods;
use plan::Facts;

/// Name of the index that finds the ReplicaSets of one Deployment by its UID.
const BY_OWNER: &str = "owner";

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (sets, pods) = (context.informers.of::<ReplicaSet>(), context.informers.of::<Pod>());
    pods::index_by_controller(&pods);
    index_by_owner(&sets);
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let executor = Executor::new(&context, "replicaset-controller");

    Controller::new("replicaset", &context)
        .workers(5)
        .for_each::<ReplicaSet>(when::anything)
        .adopts::<ReplicaSet, Pod>(|set| owner::parse_selector(&set.spec.as_ref()?.selector).ok())
        .run(Replicas { client, clock, executor, sets, pods })
        .await;
}

struct Replicas {
    client: Client,
    clock: Clock,
    executor: Executor,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
}

impl Reconciler for Replicas {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::done()) };
        let Some(spec) = &set.spec else { return Ok(Action::done()) };
        let selector = owner::parse_selector(&spec.selector)?;
        let (active, terminating) = self.claimed_pods(&set, &selector).await?;
        let facts = Facts { set: &set, active, terminating, now: self.clock.now() };
        let plan = plan::plan(facts, || self.kin_of(&set));
        Ok(self.executor.execute(set.as_ref(), plan).await?)
    }
}

impl Replicas {
    /// The active Pods that are the set's, after adopting and releasing, and how many others are on their way out.
    async fn claimed_pods(&self, set: &ReplicaSet, selector: &Selector) -> Result<(Vec<Arc<Pod>>, usize), Error> {
        let mut candidates = pods::controlled_by(&self.pods, set.metadata.uid.as_deref().unwrap_or_default());
        let is_kept = |pod: &&Arc<Pod>| owner::claim(&set.metadata, selector, &pod.metadata) == Claim::Keep;
        let terminating = candidates.iter().filter(|pod| pods::is_terminating(pod)).filter(is_kept).count();
        candidates.extend(pods::orphans_in(&self.pods, set.metadata.namespace.as_deref().unwrap_or_default()));
        candidates.retain(|pod| pods::is_active(pod));
        Ok((claim(&self.client, set, selector, candidates).await?, terminating))
    }

    /// The Pods of every set that has the same owner, which share nodes with this set's.
    fn kin_of(&self, set: &Arc<ReplicaSet>) -> Vec<Arc<Pod>> {
        let siblings = match owner::controller_of(&set.metadata) {
            Some(owner) => self.sets.by_index(BY_OWNER, &owner.uid),
            None => vec![set.clone()],
        };
        let of_sibling = |sibling: &Arc<ReplicaSet>| {
            pods::controlled_by(&self.pods, sibling.metadata.uid.as_deref().unwrap_or_default())
        };
        siblings.iter().flat_map(of_sibling).collect()
    }
}

fn index_by_owner(sets: &Informer<ReplicaSet>) {
    sets.add_index(BY_OWNER, |set| {
        owner::controller_of(&set.metadata).map(|owner| owner.uid.clone()).into_iter().collect()
    });
}
