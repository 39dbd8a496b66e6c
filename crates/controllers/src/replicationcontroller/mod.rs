//! The replicationcontroller loop: the replicaset loop over the kind that was there before ReplicaSets.

#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ReplicationController, ReplicationControllerCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use pintle_runtime::{Context, Error, owner};

use crate::replicaset::{self, Replicated};

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    replicaset::run_for::<ReplicationController>(context).await;
}

impl Replicated for ReplicationController {
    const LOOP: &'static str = "replicationcontroller";
    const COMPONENT: &'static str = "replication-controller";
    const COUNTS_TERMINATING: bool = false;

    fn wanted(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    /// A ReplicationController selects by labels alone.
    fn selector(&self) -> Result<Selector, Error> {
        let labels = self.spec.as_ref().and_then(|spec| spec.selector.clone());
        owner::parse_selector(&LabelSelector { match_labels: labels, match_expressions: None })
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        let status = self.status.as_ref()?;
        Some(ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions: status.conditions.as_ref().map(|all| all.iter().map(condition).collect()),
            terminating_replicas: None,
        })
    }
}

fn condition(condition: &ReplicationControllerCondition) -> ReplicaSetCondition {
    ReplicaSetCondition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        last_transition_time: condition.last_transition_time.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}
