//! The replicaset loop: as many Pods as asked for, made from the template.
//!
//! Watches ReplicaSets, and Pods: those it owns by their controller reference, orphans by the selectors that match. The
//! replicationcontroller loop is the same over another kind.

mod kind;
mod plan;
pub(crate) mod rank;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::core::Selector;
use kube::{Client, ResourceExt};
use pintle_runtime::claim::claim;
use pintle_runtime::owner::{self, Claim};
use pintle_runtime::{Action, Attempt, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, when};

use crate::pods;
pub(crate) use kind::Replicated;
use plan::Facts;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    run_for::<ReplicaSet>(context).await;
}

/// The same for any kind that keeps so many Pods of one template.
pub(crate) async fn run_for<S: Replicated>(context: Context) {
    let (sets, pods) = (context.informers.of::<S>(), context.informers.of::<Pod>());
    pods::index_by_controller(&pods);
    sets.index(controller::<S>);
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let executor = Executor::new(&context, S::COMPONENT);

    Controller::new(S::LOOP, &context)
        .workers(5)
        .for_each::<S>(when::anything)
        .adopts::<S, Pod>(|set| set.selector().ok())
        .run(Replicas { client, clock, executor, sets, pods })
        .await;
}

struct Replicas<S> {
    client: Client,
    clock: Clock,
    executor: Executor,
    sets: Informer<S>,
    pods: Informer<Pod>,
}

impl<S: Replicated> Reconciler for Replicas<S> {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::done()) };
        let selector = set.selector()?;
        let (active, terminating) = self.claimed_pods(set.as_ref(), &selector).await?;
        let facts = Facts { set: set.as_ref(), active, terminating, now: self.clock.now() };
        let plan = plan::plan(facts, || self.kin_of(&set));
        Ok(self.executor.execute(set.as_ref(), plan).await?)
    }
}

impl<S: Replicated> Replicas<S> {
    /// The active Pods that are the set's, after adopting and releasing, and how many others are on their way out.
    async fn claimed_pods(&self, set: &S, selector: &Selector) -> Result<(Vec<Arc<Pod>>, usize), Error> {
        let mut candidates = pods::controlled_by(&self.pods, set.meta().uid.as_deref().unwrap_or_default());
        let is_kept = |pod: &&Arc<Pod>| owner::claim(set.meta(), selector, &pod.metadata) == Claim::Keep;
        let terminating = candidates.iter().filter(|pod| pods::is_terminating(pod)).filter(is_kept).count();
        candidates.extend(pods::orphans_in(&self.pods, &set.namespace().unwrap_or_default()));
        candidates.retain(|pod| pods::is_active(pod));
        Ok((claim(&self.client, set, selector, candidates).await?, terminating))
    }

    /// The Pods of every set that has the same owner, which share nodes with this set's.
    fn kin_of(&self, set: &Arc<S>) -> Vec<Arc<Pod>> {
        let siblings = match owner::controller_of(set.meta()) {
            Some(owner) => self.sets.by(controller::<S>, &owner.uid),
            None => vec![set.clone()],
        };
        let of_sibling =
            |sibling: &Arc<S>| pods::controlled_by(&self.pods, sibling.meta().uid.as_deref().unwrap_or_default());
        siblings.iter().flat_map(of_sibling).collect()
    }
}

/// Index of sets: the UID of the controller.
fn controller<S: Replicated>(set: &S) -> Vec<String> {
    owner::controller_of(set.meta()).map(|owner| owner.uid.clone()).into_iter().collect()
}
