//! Does what the plan says: claims Pods, makes and deletes them, writes the status.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::Selector;
use kube::{Client, ResourceExt};
use pintle_runtime::owner::{self, Claim};
use pintle_runtime::{
    Action, ApiError, Attempt, Clock, Context, Error, Expectations, Informer, Key, Reconciler, Recorder, batch, error,
};

use super::BY_OWNER;
use super::plan::{self, Failure, Step};
use crate::claims::claim;
use crate::pods;

pub(super) struct Replicas {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    expectations: Arc<Expectations>,
}

impl Reconciler for Replicas {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(set) = self.sets.get(key) else {
            self.expectations.forget(key);
            return Ok(Action::done());
        };
        let Some(spec) = &set.spec else { return Ok(Action::done()) };
        // Asked before the Pods are read: a Pod that shows up in between is in the list, not forgotten.
        let caught_up = self.expectations.satisfied(key);
        let selector = owner::parse_selector(&spec.selector)?;
        let (active, terminating) = self.claimed_pods(&set, &selector).await?;
        let now = self.clock.now();

        let mut failure = None;
        let step = match caught_up && set.metadata.deletion_timestamp.is_none() {
            true => plan::step(&set, active.clone(), || self.kin_of(&set), now),
            false => Step::Nothing,
        };
        let outcome = match &step {
            Step::Create(count) => self.create(key, &set, *count).await,
            Step::Delete(pods) => self.delete(key, &set, pods).await,
            Step::Nothing => Ok(()),
        };
        if let Err(error) = &outcome {
            failure = Some(Failure { step: &step, message: error.to_string() });
        }
        let status = plan::status(&set, &active, terminating, failure, now);
        if plan::differs(set.status.as_ref(), &status) {
            let mut updated = set.as_ref().clone();
            updated.status = Some(status);
            self.sets_in(key.namespace()).replace_status(key.name(), &PostParams::default(), &updated).await?;
        }
        outcome?;
        Ok(plan::next_check(&set, &active, now).map_or_else(Action::done, Action::requeue_after))
    }
}

impl Replicas {
    pub(super) fn new(
        context: &Context,
        sets: Informer<ReplicaSet>,
        pods: Informer<Pod>,
        expectations: Arc<Expectations>,
    ) -> Self {
        let recorder = context.recorder("replicaset-controller");
        Replicas { client: context.client.clone(), clock: context.clock.clone(), recorder, sets, pods, expectations }
    }

    fn sets_in(&self, namespace: &str) -> Api<ReplicaSet> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn pods_in(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The active Pods that are the set's, after adopting and releasing, and how many others are on their way out.
    async fn claimed_pods(&self, set: &ReplicaSet, selector: &Selector) -> Result<(Vec<Arc<Pod>>, usize), Error> {
        let mut candidates = pods::controlled_by(&self.pods, set.metadata.uid.as_deref().unwrap_or_default());
        let is_kept = |pod: &&Arc<Pod>| owner::claim(&set.metadata, selector, &pod.metadata) == Claim::Keep;
        let terminating = candidates.iter().filter(|pod| pods::is_terminating(pod)).filter(is_kept).count();
        candidates.extend(pods::orphans_in(&self.pods, set.metadata.namespace.as_deref().unwrap_or_default()));
        candidates.retain(|pod| pods::is_active(pod));
        Ok((claim(&self.client, set, selector, candidates).await?, terminating))
    }

    async fn create(&self, key: &Key, set: &ReplicaSet, count: usize) -> Result<(), Error> {
        let (api, pod) = (self.pods_in(key.namespace()), plan::pod_from_template(set));
        self.expectations.expect_creations(key, count);
        let batch = batch::slow_start(count, |_| self.create_one(&api, set, &pod)).await;
        for _ in batch.succeeded..count {
            self.expectations.creation_observed(key);
        }
        batch.first_error.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn create_one(&self, api: &Api<Pod>, set: &ReplicaSet, pod: &Pod) -> Result<(), kube::Error> {
        match api.create(&PostParams::default(), pod).await {
            Ok(created) => {
                self.recorder.normal(set, "SuccessfulCreate", format!("Created pod: {}", created.name_any()));
                Ok(())
            }
            // Nothing will be created there again, and no one needs to hear of it.
            Err(error) if error.is_namespace_terminating() => Ok(()),
            Err(error) => {
                self.recorder.warning(set, "FailedCreate", format!("Error creating: {}", reason_of(&error)));
                Err(error)
            }
        }
    }

    async fn delete(&self, key: &Key, set: &ReplicaSet, pods: &[Arc<Pod>]) -> Result<(), Error> {
        let uid = |pod: &Pod| pod.uid().unwrap_or_default();
        self.expectations.expect_deletions(key, pods.iter().map(|pod| uid(pod)));
        let api = self.pods_in(key.namespace());
        let deletions = pods.iter().map(|pod| async {
            let name = pod.name_any();
            let result = error::ignore_not_found(api.delete(&name, &DeleteParams::default()).await);
            match &result {
                Ok(Some(_)) => self.recorder.normal(set, "SuccessfulDelete", format!("Deleted pod: {name}")),
                // No event will come for it.
                Ok(None) => self.expectations.deletion_observed(key, &uid(pod)),
                Err(error) => {
                    self.expectations.deletion_observed(key, &uid(pod));
                    self.recorder.warning(set, "FailedDelete", format!("Error deleting: {}", reason_of(error)));
                }
            }
            result.map(drop)
        });
        join_all(deletions).await.into_iter().collect::<Result<(), kube::Error>>().map_err(Error::from)
    }

    /// The Pods of every set that has the same owner, which share nodes with this set's.
    fn kin_of(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let siblings = match owner::controller_of(&set.metadata) {
            Some(owner) => self.sets.by_index(BY_OWNER, &owner.uid),
            None => vec![Arc::new(set.clone())],
        };
        let of_sibling = |sibling: &Arc<ReplicaSet>| {
            pods::controlled_by(&self.pods, sibling.metadata.uid.as_deref().unwrap_or_default())
        };
        siblings.iter().flat_map(of_sibling).collect()
    }
}

/// What the server said, without the client's wrapping.
fn reason_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
