//! Creates what the plan finds missing.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use pintle_runtime::{Action, ApiError, Attempt, Context, Error, Informer, Key, Reconciler};

use super::plan;

pub(super) struct Defaults {
    client: Client,
    namespaces: Informer<Namespace>,
    accounts: Informer<ServiceAccount>,
}

impl Defaults {
    pub(super) fn new(context: &Context, namespaces: Informer<Namespace>, accounts: Informer<ServiceAccount>) -> Self {
        Defaults { client: context.client.clone(), namespaces, accounts }
    }
}

impl Reconciler for Defaults {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Action::done()) };
        let present = self.accounts.get(&Key::new(key.name(), plan::DEFAULT));
        if let Some(account) = plan::missing(&namespace, present.as_deref()) {
            let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), key.name());
            match api.create(&PostParams::default(), &account).await {
                Err(error) if !error.is_already_exists() && !error.is_namespace_terminating() => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Ok(Action::done())
    }
}
