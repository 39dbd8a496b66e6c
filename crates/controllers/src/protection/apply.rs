//! Takes the finalizer off what may go.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Client;
use kube::api::Api;
use pintle_runtime::{Action, Attempt, Context, Error, Informer, Key, Reconciler, error, write};

use super::plan;

pub(super) struct Protector {
    client: Client,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    pods: Informer<Pod>,
}

impl Protector {
    pub(super) fn new(
        context: &Context,
        claims: Informer<PersistentVolumeClaim>,
        volumes: Informer<PersistentVolume>,
        pods: Informer<Pod>,
    ) -> Self {
        Protector { client: context.client.clone(), claims, volumes, pods }
    }
}

impl Reconciler for Protector {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let freed = if key.namespace().is_empty() {
            match self.volumes.get(key).filter(|volume| plan::volume_may_go(volume)) {
                Some(volume) => {
                    let api: Api<PersistentVolume> = Api::all(self.client.clone());
                    write::remove_finalizer(&api, &volume.metadata, plan::VOLUME).await
                }
                None => Ok(()),
            }
        } else {
            let pods = self.pods.in_namespace(key.namespace());
            let users = || pods.iter().map(AsRef::as_ref);
            match self.claims.get(key).filter(|claim| plan::claim_may_go(claim, users())) {
                Some(claim) => {
                    let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), key.namespace());
                    write::remove_finalizer(&api, &claim.metadata, plan::CLAIM).await
                }
                None => Ok(()),
            }
        };
        error::ignore_not_found(freed)?;
        Ok(Action::done())
    }
}
