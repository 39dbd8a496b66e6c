//! The daemonset loop: one Pod on every node that fits.
//!
//! Watches DaemonSets; Pods and ControllerRevisions, by their controller reference or by the selectors that match; and nodes,
//! where what they take on changes. The scheduler binds the Pods: each asks for its node by name.

mod backoff;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::core::Selector;
use pintle_runtime::claim::claim;
use pintle_runtime::{
    Action, Attempt, Change, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, owner, when,
};

use crate::{history, pods};
use backoff::Backoffs;
use plan::{Decision, Facts};

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (sets, pods) = (context.informers.of::<DaemonSet>(), context.informers.of::<Pod>());
    let (nodes, revisions) = (context.informers.of::<Node>(), context.informers.of());
    pods::index_by_controller(&pods);
    history::index_by_controller(&revisions);
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let executor = Executor::new(&context, "daemonset-controller");

    Controller::new("daemonset", &context)
        .workers(2)
        .for_each::<DaemonSet>(when::anything)
        .adopts::<DaemonSet, Pod>(selector_of)
        .adopts_when::<DaemonSet, ControllerRevision>(is_no_new_revision, selector_of)
        .watch(&nodes, {
            let sets = sets.clone();
            move |change| concerned_by(change, &sets)
        })
        .run(Daemons { client, clock, executor, sets, pods, nodes, revisions, backoffs: Backoffs::default() })
        .await;
}

struct Daemons {
    client: Client,
    clock: Clock,
    executor: Executor,
    sets: Informer<DaemonSet>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    revisions: Informer<ControllerRevision>,
    backoffs: Backoffs,
}

impl Reconciler for Daemons {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::done()) };
        let Some(selector) = selector_of(&set).filter(|_| set.metadata.deletion_timestamp.is_none()) else {
            return Ok(Action::done());
        };
        if selector.selects_all() {
            let plan = plan::selecting_all();
            return Ok(self.executor.execute(set.as_ref(), plan).await?);
        }
        let (uid, namespace) = (set.metadata.uid.as_deref().unwrap_or_default(), key.namespace());
        let mut candidates = pods::controlled_by(&self.pods, uid);
        candidates.extend(pods::orphans_in(&self.pods, namespace));
        let revisions = history::candidates(&self.revisions, &set.metadata);
        let mut revisions = claim(&self.client, set.as_ref(), &selector, revisions).await?;
        history::sort(&mut revisions);
        let now = self.clock.now();
        let mut nodes = self.nodes.all();
        nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let facts = Facts {
            set: set.as_ref(),
            nodes,
            pods: claim(&self.client, set.as_ref(), &selector, candidates).await?,
            revisions,
            revision: &|name| self.revisions.get(&Key::new(namespace, name)),
            backoff: &|node| self.backoffs.left(&set, node, now),
            now,
        };
        let Decision { plan, replaced_failed } = plan::plan(facts);
        replaced_failed.iter().for_each(|node| self.backoffs.note(&set, node, now));
        Ok(self.executor.execute(set.as_ref(), plan).await?)
    }
}

fn selector_of(set: &DaemonSet) -> Option<Selector> {
    owner::parse_selector(&set.spec.as_ref()?.selector).ok()
}

/// A revision that is made with its set as the owner wakes nobody, as in Kubernetes: what somebody makes by hand stays until the
/// set is looked at for another reason.
fn is_no_new_revision(change: &Change<ControllerRevision>) -> bool {
    !matches!(change, Change::Added(revision) if owner::controller_of(&revision.metadata).is_some())
}

/// The sets that are to run on the node and were not before, or the other way round.
fn concerned_by(change: &Change<Node>, sets: &Informer<DaemonSet>) -> Vec<Key> {
    let node = change.object();
    let is_same = change.old().is_some_and(|old| {
        let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        old.metadata.labels == node.metadata.labels && taints(old) == taints(node)
    });
    if change.is_resync() || is_same {
        return Vec::new();
    }
    let is_concerned = |set: &Arc<DaemonSet>| {
        let daemon = plan::Daemon::of(set);
        let before = change.old().map_or_else(plan::Fit::never, |old| daemon.fit(old));
        daemon.fit(node) != before
    };
    sets.all().iter().filter(|set| is_concerned(set)).map(|set| Key::of(set.as_ref())).collect()
}
