//! Writes the rules of aggregating roles.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use pintle_runtime::{Action, ApiError, Attempt, Context, Error, Informer, Key, Reconciler};
use serde_json::json;
use std::sync::Arc;

use super::plan;

/// Under this name Kubernetes' own loop owns the rules.
const MANAGER: &str = "clusterrole-aggregation-controller";

pub(super) struct Aggregator {
    client: Client,
    roles: Informer<ClusterRole>,
}

impl Aggregator {
    pub(super) fn new(context: &Context, roles: Informer<ClusterRole>) -> Self {
        Aggregator { client: context.client.clone(), roles }
    }
}

impl Reconciler for Aggregator {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(role) = self.roles.get(key) else { return Ok(Action::done()) };
        let all = self.roles.all();
        let Some(rules) = plan::rules(&role, all.iter().map(Arc::as_ref)) else { return Ok(Action::done()) };
        // With the role that was seen: one that is gone is not made again.
        let wanted = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules,
            "metadata": {"name": key.name(), "uid": role.metadata.uid}});
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        match roles.patch(key.name(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(wanted)).await {
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            other => drop(other?),
        }
        Ok(Action::done())
    }
}
