//! Counts what a budget covers and writes what it allows.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, PostParams};
use pintle_runtime::{Action, Attempt, Clock, Context, Error, Informer, Key, Reconciler, error, owner};

use super::plan;

pub(super) struct Budgets {
    client: Client,
    clock: Clock,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    sets: Informer<ReplicaSet>,
    deployments: Informer<Deployment>,
}

impl Budgets {
    pub(super) fn new(
        context: &Context,
        budgets: Informer<PodDisruptionBudget>,
        pods: Informer<Pod>,
        sets: Informer<ReplicaSet>,
        deployments: Informer<Deployment>,
    ) -> Self {
        Budgets { client: context.client.clone(), clock: context.clock.clone(), budgets, pods, sets, deployments }
    }

    /// How many Pods their controllers want; a Pod without one wants itself.
    fn should_be(&self, namespace: &str, covered: &[&Pod]) -> i32 {
        let mut wanted: BTreeMap<String, i32> = BTreeMap::new();
        for pod in covered {
            let own = pod.metadata.uid.clone().unwrap_or_default();
            let (controller, replicas) = owner::controller_key::<ReplicaSet>(&pod.metadata)
                .and_then(|key| self.sets.get(&key))
                .map_or((own, 1), |set| self.scale_of(namespace, &set));
            wanted.insert(controller, replicas);
        }
        wanted.values().sum()
    }

    fn scale_of(&self, namespace: &str, set: &ReplicaSet) -> (String, i32) {
        let deployment = owner::controller_key::<Deployment>(&set.metadata)
            .and_then(|key| self.deployments.get(&Key::new(namespace, key.name())));
        match deployment {
            Some(deployment) => {
                let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                (deployment.metadata.uid.clone().unwrap_or_default(), replicas.unwrap_or(1))
            }
            None => {
                let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
                (set.metadata.uid.clone().unwrap_or_default(), replicas.unwrap_or(1))
            }
        }
    }
}

impl Reconciler for Budgets {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(budget) = self.budgets.get(key) else { return Ok(Action::done()) };
        let pods = self.pods.in_namespace(key.namespace());
        let covered: Vec<&Pod> = pods.iter().map(AsRef::as_ref).filter(|pod| plan::covers(&budget, pod)).collect();
        let should_be = self.should_be(key.namespace(), &covered);
        let (status, again) = plan::status(&budget, &covered, should_be, self.clock.now());
        if budget.status.as_ref() != Some(&status) {
            // Replaced whole at the version that was read: an eviction granted meanwhile is not overwritten.
            let changed = PodDisruptionBudget { status: Some(status), ..budget.as_ref().clone() };
            let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), key.namespace());
            error::ignore_not_found(api.replace_status(key.name(), &PostParams::default(), &changed).await)?;
        }
        Ok(again.map_or_else(Action::done, Action::requeue_after))
    }
}
