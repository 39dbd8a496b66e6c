//! Creates and mends the published ConfigMap.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use kube::api::{Api, PostParams};
use pintle_runtime::{Action, ApiError, Attempt, Context, Error, Informer, Key, Reconciler};

use super::plan::{self, Step};

pub(super) struct Publisher {
    client: Client,
    namespaces: Informer<Namespace>,
    maps: Informer<ConfigMap>,
    root_ca: String,
}

impl Publisher {
    pub(super) fn new(
        context: &Context,
        namespaces: Informer<Namespace>,
        maps: Informer<ConfigMap>,
        root_ca: String,
    ) -> Self {
        Publisher { client: context.client.clone(), namespaces, maps, root_ca }
    }
}

impl Reconciler for Publisher {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Action::done()) };
        let present = self.maps.get(&Key::new(key.name(), plan::NAME));
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), key.name());
        let result = match plan::step(&namespace, present.as_deref(), &self.root_ca) {
            Step::Create(map) => api.create(&PostParams::default(), &map).await,
            Step::Replace(map) => api.replace(plan::NAME, &PostParams::default(), &map).await,
            Step::Nothing => return Ok(Action::done()),
        };
        match result {
            // The namespace is gone or going, or the cache has not caught up yet.
            Err(error) if error.is_not_found() || error.is_namespace_terminating() || error.is_already_exists() => {}
            other => drop(other?),
        }
        Ok(Action::done())
    }
}
