//! Does what the plan says: writes ReplicaSets, then the status.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use pintle_runtime::claim::claim;
use pintle_runtime::{
    Action, ApiError, Attempt, Clock, Context, Error, Informer, Key, Reconciler, Recorder, error, owner,
};

use super::plan::{self, Facts, Write, plan};
use crate::pods;

pub(super) struct Rollouts {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
}

impl Reconciler for Rollouts {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Action::done()) };
        let Some(spec) = &deployment.spec else { return Ok(Action::done()) };
        let selector = owner::parse_selector(&spec.selector)?;
        if selector.selects_all() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            self.recorder.warning(deployment.as_ref(), "SelectingAll", message);
            return Ok(Action::done());
        }
        let candidates = self.sets.in_namespace(key.namespace());
        let sets = claim(&self.client, deployment.as_ref(), &selector, candidates).await?;
        let runs_pods = |uid: &String| pods::controlled_by(&self.pods, uid).iter().any(|pod| !pods::is_terminal(pod));
        let plan = plan(Facts {
            deployment: deployment.as_ref().clone(),
            with_running_pods: sets.iter().filter_map(|set| set.metadata.uid.clone()).filter(runs_pods).collect(),
            sets: sets.iter().map(|set| set.as_ref().clone()).collect(),
            now: self.clock.now(),
        });
        for write in plan.writes {
            self.write(&deployment, write).await?;
        }
        if let Some(updated) = plan.status {
            self.write_status(&updated).await?;
        }
        Ok(plan.look_again.map_or_else(Action::done, Action::requeue_after))
    }
}

impl Rollouts {
    pub(super) fn new(
        context: &Context,
        deployments: Informer<Deployment>,
        sets: Informer<ReplicaSet>,
        pods: Informer<Pod>,
    ) -> Self {
        let recorder = context.recorder("deployment-controller");
        Rollouts { client: context.client.clone(), clock: context.clock.clone(), recorder, deployments, sets, pods }
    }

    async fn write(&self, deployment: &Deployment, write: Write) -> Result<(), Error> {
        let namespace = deployment.namespace().unwrap_or_default();
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace);
        let event = match write {
            Write::Create { set, event } => self.create(&api, deployment, &set).await?.then_some(event).flatten(),
            Write::Update { set, event } => {
                api.replace(&set.name_any(), &PostParams::default(), &set).await?;
                event
            }
            Write::Delete { name } => {
                error::ignore_not_found(api.delete(&name, &DeleteParams::default()).await)?;
                None
            }
        };
        if let Some(message) = event {
            self.recorder.normal(deployment, "ScalingReplicaSet", message);
        }
        Ok(())
    }

    /// True if the set is new; false if it turned out to be there already.
    async fn create(&self, api: &Api<ReplicaSet>, deployment: &Deployment, set: &ReplicaSet) -> Result<bool, Error> {
        let error = match api.create(&PostParams::default(), set).await {
            Ok(_) => return Ok(true),
            Err(error) => error,
        };
        if error.is_already_exists() {
            let present = api.get(&set.name_any()).await?;
            let is_ours = owner::is_controlled_by(&present.metadata, deployment.metadata.uid.as_deref());
            if is_ours && plan::same_template(deployment, &present) {
                return Ok(false);
            }
            // Another template has the same hash: count the collision, which gives the next attempt another name.
            let mut counted = deployment.clone();
            let status = counted.status.get_or_insert_default();
            status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
            self.write_status(&counted).await?;
        } else if !error.is_namespace_terminating() {
            let message = format!("Failed to create new replica set {:?}: {error}", set.name_any());
            let failed = plan::failed_to_create(deployment, message.clone(), Time(self.clock.now()));
            self.recorder.warning(deployment, "ReplicaSetCreateError", message);
            if let Some(failed) = failed {
                // The creation's error says more than this one's would.
                let _ = self.write_status(&failed).await;
            }
        }
        Err(error.into())
    }

    /// The revision goes with the status: the status subresource takes annotations too.
    async fn write_status(&self, deployment: &Deployment) -> Result<(), Error> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &deployment.namespace().unwrap_or_default());
        api.replace_status(&deployment.name_any(), &PostParams::default(), deployment).await?;
        Ok(())
    }
}
