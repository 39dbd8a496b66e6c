//! The protection loop: storage that is deleted stays until nothing uses it.
//!
//! Watches PersistentVolumeClaims, PersistentVolumes and Pods. Keys are claims (`namespace/name`) and volumes (`name`).

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Client;
use kube::api::ListParams;
use pintle_runtime::{Action, Attempt, Context, Controller, Error, Executor, Informer, Key, Objects, Plan, Reconciler};

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let claims = context.informers.of::<PersistentVolumeClaim>();
    let (volumes, pods) = (context.informers.of::<PersistentVolume>(), context.informers.of::<Pod>());
    let (client, executor) = (context.client.clone(), Executor::new(&context, "pvc-protection-controller"));
    Controller::new("protection", &context)
        .watch(&claims, |change| vec![change.key()])
        .watch(&volumes, |change| vec![change.key()])
        .watch(&pods, |change| {
            // Only a Pod that is shut down, or gone, can set a claim free.
            let key = change.key();
            match change.is_deleted() || plan::is_shut_down(change.object()) {
                true => plan::claims_of(change.object()).map(|name| Key::new(key.namespace(), name)).collect(),
                false => Vec::new(),
            }
        })
        .run(Protector { client, executor, claims, volumes, pods })
        .await;
}

struct Protector {
    client: Client,
    executor: Executor,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    pods: Informer<Pod>,
}

impl Reconciler for Protector {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let plan = match key.namespace().is_empty() {
            true => self.volumes.get(key).map(|volume| plan::of_volume(&volume)).unwrap_or_default(),
            false => match self.claims.get(key) {
                Some(claim) => self.plan_of_claim(&claim, key.namespace()).await?,
                None => Plan::default(),
            },
        };
        Ok(self.executor.carry_out(plan).await?)
    }
}

impl Protector {
    async fn plan_of_claim(&self, claim: &PersistentVolumeClaim, namespace: &str) -> Result<Plan, Error> {
        let known = self.pods.in_namespace(namespace);
        let plan = plan::of_claim(claim, known.iter().map(Arc::as_ref));
        if plan.writes.is_empty() || !plan::is_going(&claim.metadata) {
            return Ok(plan);
        }
        // A Pod that was scheduled a moment ago may not be in the cache yet: its data must not go.
        let pods: Objects<Pod> = Objects::namespaced(self.client.clone(), namespace);
        let live = pods.list(&ListParams::default()).await?;
        Ok(plan::of_claim(claim, live.iter()))
    }
}
