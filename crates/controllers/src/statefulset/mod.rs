//! The statefulset loop: Pods with names and storage of their own, made, changed and removed in order.
//!
//! Watches StatefulSets; Pods and ControllerRevisions, by their controller reference or by the selectors that match; and the
//! end of claims, for which a Pod of the same name may wait.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::core::Selector;
use kube::{Client, ResourceExt};
use pintle_runtime::claim::{claim, claim_if};
use pintle_runtime::{
    Action, Attempt, Change, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, owner, when,
};

use crate::{history, pods};
use plan::{Facts, identity};

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (sets, pods) = (context.informers.of::<StatefulSet>(), context.informers.of::<Pod>());
    let (claims, revisions) = (context.informers.of(), context.informers.of());
    pods::index_by_controller(&pods);
    history::index_by_controller(&revisions);
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let executor = Executor::new(&context, "statefulset-controller");

    Controller::new("statefulset", &context)
        .workers(5)
        .for_each::<StatefulSet>(when::anything)
        .adopts::<StatefulSet, Pod>(selector_of)
        .adopts::<StatefulSet, ControllerRevision>(selector_of)
        .watch(&claims, {
            let sets = sets.clone();
            move |change| waiting_for_the_end_of(change, &sets)
        })
        .run(Members { client, clock, executor, sets, pods, claims, revisions })
        .await;
}

struct Members {
    client: Client,
    clock: Clock,
    executor: Executor,
    sets: Informer<StatefulSet>,
    pods: Informer<Pod>,
    claims: Informer<PersistentVolumeClaim>,
    revisions: Informer<ControllerRevision>,
}

impl Reconciler for Members {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::done()) };
        let Some(selector) = selector_of(&set) else { return Ok(Action::done()) };
        let revisions = self.adopted_revisions(&set, &selector).await?;
        let pods = self.claimed_pods(&set, &selector).await?;
        let namespace = key.namespace();
        let facts = Facts {
            set: set.as_ref(),
            pods,
            revisions,
            claim: &|name| self.claims.get(&Key::new(namespace, name)),
            revision: &|name| self.revisions.get(&Key::new(namespace, name)),
            now: self.clock.now(),
        };
        let plan = plan::plan(facts);
        Ok(self.executor.execute(set.as_ref(), plan).await?)
    }
}

impl Members {
    /// The Pods that are the set's and named like its Pods, after adopting and releasing.
    async fn claimed_pods(&self, set: &StatefulSet, selector: &Selector) -> Result<Vec<Arc<Pod>>, Error> {
        let mut candidates = pods::controlled_by(&self.pods, set.metadata.uid.as_deref().unwrap_or_default());
        candidates.extend(pods::orphans_in(&self.pods, &set.namespace().unwrap_or_default()));
        let name = set.name_any();
        let is_member = |pod: &Pod| {
            owner::matches(selector, &pod.metadata) && identity::parent(pod.name_any().as_str()) == Some(name.as_str())
        };
        claim_if(&self.client, set, is_member, candidates).await
    }

    /// The revisions whose labels match: the set's, after adopting those that are nobody's.
    async fn adopted_revisions(
        &self,
        set: &StatefulSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let mut candidates = history::candidates(&self.revisions, &set.metadata);
        candidates.retain(|revision| owner::matches(selector, &revision.metadata));
        let mut revisions = claim(&self.client, set, selector, candidates).await?;
        history::sort(&mut revisions);
        Ok(revisions)
    }
}

fn selector_of(set: &StatefulSet) -> Option<Selector> {
    owner::parse_selector(&set.spec.as_ref()?.selector).ok()
}

/// The sets for one of whose Pods the claim that is gone was.
fn waiting_for_the_end_of(change: &Change<PersistentVolumeClaim>, sets: &Informer<StatefulSet>) -> Vec<Key> {
    if !change.is_deleted() {
        return Vec::new();
    }
    let claim = change.object();
    let has_made = |set: &Arc<StatefulSet>| identity::has_claim_named(set, &claim.name_any());
    let all = sets.in_namespace(&claim.namespace().unwrap_or_default());
    all.iter().filter(|set| has_made(set)).map(|set| Key::of(set.as_ref())).collect()
}
