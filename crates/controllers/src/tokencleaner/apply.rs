//! Takes expired tokens away.

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};
use pintle_runtime::{Action, ApiError, Attempt, Clock, Context, Error, Informer, Key, Reconciler};

use super::plan;

pub(super) struct Cleaner {
    client: Client,
    clock: Clock,
    secrets: Informer<Secret>,
}

impl Cleaner {
    pub(super) fn new(context: &Context, secrets: Informer<Secret>) -> Self {
        Cleaner { client: context.client.clone(), clock: context.clock.clone(), secrets }
    }
}

impl Reconciler for Cleaner {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(secret) = self.secrets.get(key) else { return Ok(Action::done()) };
        let Some(end) = plan::ends_at(&secret) else { return Ok(Action::done()) };
        let left = end.duration_since(self.clock.now());
        if left.is_positive() {
            return Ok(Action::requeue_after(left.unsigned_abs()));
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), key.namespace());
        // Somebody may have given it more time since.
        let seen = Preconditions {
            uid: secret.metadata.uid.clone(),
            resource_version: secret.metadata.resource_version.clone(),
        };
        match secrets.delete(key.name(), &DeleteParams::default().preconditions(seen)).await {
            Err(error) if error.is_not_found() => {}
            other => drop(other?),
        }
        Ok(Action::done())
    }
}
