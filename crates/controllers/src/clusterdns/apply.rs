//! Writes the Service and the slices.

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use pintle_runtime::{Action, ApiError, Attempt, Context, Error, Informer, Key, Reconciler, error};

use super::plan::{self, NAME, NAMESPACE, Step};

pub(super) struct Publisher {
    client: Client,
    nodes: Informer<Node>,
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
}

impl Publisher {
    pub(super) fn new(
        context: &Context,
        nodes: Informer<Node>,
        services: Informer<Service>,
        slices: Informer<EndpointSlice>,
    ) -> Self {
        Publisher { client: context.client.clone(), nodes, services, slices }
    }
}

impl Reconciler for Publisher {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let (node, name) = (self.nodes.get(key), plan::slice_name(key.name()));
        let service = self.services.get(&Key::new(NAMESPACE, NAME));
        let slice = self.slices.get(&Key::new(NAMESPACE, &name));
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), NAMESPACE);
        let wanted = node.as_deref().and_then(plan::slice_of);
        match (plan::plan(service.as_deref(), node.as_deref(), slice.as_deref()), wanted, slice) {
            (Step::MakeService, ..) => {
                let services: Api<Service> = Api::namespaced(self.client.clone(), NAMESPACE);
                let service = serde_json::from_value(plan::service());
                let service = service.map_err(|error| Error::Invalid(error.to_string()))?;
                or_there(services.create(&PostParams::default(), &service).await)?;
            }
            (Step::MakeSlice, Some(wanted), _) => or_there(slices.create(&PostParams::default(), &wanted).await)?,
            (Step::ChangeSlice, Some(wanted), Some(slice)) => {
                let mut changed = slice.as_ref().clone();
                (changed.endpoints, changed.ports) = (wanted.endpoints, wanted.ports);
                changed.metadata.labels = wanted.metadata.labels;
                slices.replace(&name, &PostParams::default(), &changed).await?;
            }
            (Step::RemoveSlice, ..) => {
                error::ignore_not_found(slices.delete(&name, &DeleteParams::default()).await)?;
            }
            _ => {}
        }
        Ok(Action::done())
    }
}

/// Somebody was first: that will be seen.
fn or_there<K>(made: kube::Result<K>) -> Result<(), Error> {
    match made {
        Err(error) if error.is_already_exists() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}
