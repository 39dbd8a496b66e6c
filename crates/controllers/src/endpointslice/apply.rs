//! Writes slices and Endpoints as planned.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use pintle_runtime::{
    Action, ApiError, Attempt, Context, Error, Expectations, Informer, Key, Reconciler, Recorder, error,
};

use super::BY_SERVICE;
use super::plan::{self, Backends, LegacyWrite, Write};

const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) struct Slices {
    client: Client,
    recorder: Recorder,
    services: Informer<Service>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: Informer<EndpointSlice>,
    endpoints: Informer<Endpoints>,
    expectations: Arc<Expectations>,
}

impl Reconciler for Slices {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(service) = self.services.get(key) else {
            // The slices go with their owner; the Endpoints object has none.
            self.expectations.forget(key);
            return self.drop_endpoints(key).await;
        };
        if !plan::is_ours(&service) || service.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        // Slices are named by the server: until those created are seen, they would be created again.
        if !self.expectations.satisfied(key) {
            return Ok(Action::done());
        }
        let backends = self.backends_of(&service, key);
        self.write_endpoints(key, plan::legacy(&service, &backends, self.endpoints.get(key).as_deref())).await?;
        let existing = self.slices.by_index(BY_SERVICE, &key.to_string());
        let writes = plan::slices(&service, &backends, &existing);
        self.write_slices(key, &service, writes).await?;
        Ok(Action::done())
    }
}

impl Slices {
    pub(super) fn new(
        context: &Context,
        services: Informer<Service>,
        pods: Informer<Pod>,
        nodes: Informer<Node>,
        slices: Informer<EndpointSlice>,
        endpoints: Informer<Endpoints>,
        expectations: Arc<Expectations>,
    ) -> Self {
        let (client, recorder) = (context.client.clone(), context.recorder("endpoint-slice-controller"));
        Slices { client, recorder, services, pods, nodes, slices, endpoints, expectations }
    }

    fn backends_of(&self, service: &Service, key: &Key) -> Backends {
        let mut pods = self.pods.in_namespace(key.namespace());
        pods.retain(|pod| plan::selects(service, pod));
        let mut zone_of_node = BTreeMap::new();
        for node in pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()) {
            let zone = self.nodes.get(&Key::cluster(&node)).and_then(|node| node.labels().get(ZONE).cloned());
            zone_of_node.extend(zone.map(|zone| (node, zone)));
        }
        Backends { pods, zone_of_node }
    }

    async fn write_slices(&self, key: &Key, service: &Service, writes: Vec<Write>) -> Result<(), Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), key.namespace());
        let creations = writes.iter().filter(|write| matches!(write, Write::Create(_))).count();
        if creations > 0 {
            self.expectations.expect_creations(key, creations);
        }
        let mut first_error = None;
        for write in writes {
            let (is_creation, verb) = (matches!(write, Write::Create(_)), verb_of(&write));
            let result = match write {
                Write::Create(slice) => api.create(&PostParams::default(), &slice).await.map(drop),
                Write::Update(slice) => api.replace(&slice.name_any(), &PostParams::default(), &slice).await.map(drop),
                Write::Delete(name) => {
                    error::ignore_not_found(api.delete(&name, &DeleteParams::default()).await).map(drop)
                }
            };
            let Err(error) = result else { continue };
            if is_creation {
                self.expectations.creation_observed(key);
            }
            if !error.is_namespace_terminating() {
                if !error.is_conflict() {
                    let message = format!("Error {verb} Endpoint Slices for Service {key}: {error}");
                    self.recorder.warning(service, "FailedToUpdateEndpointSlices", message);
                }
                first_error = first_error.or(Some(error));
            }
        }
        first_error.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn write_endpoints(&self, key: &Key, write: LegacyWrite) -> Result<(), Error> {
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), key.namespace());
        let result = match write {
            LegacyWrite::Create(endpoints) => api.create(&PostParams::default(), &endpoints).await,
            LegacyWrite::Update(endpoints) => api.replace(key.name(), &PostParams::default(), &endpoints).await,
            LegacyWrite::Nothing => return Ok(()),
        };
        match result {
            Err(error) if !error.is_namespace_terminating() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn drop_endpoints(&self, key: &Key) -> Result<Action, Error> {
        if self.endpoints.get(key).is_some() {
            let api: Api<Endpoints> = Api::namespaced(self.client.clone(), key.namespace());
            error::ignore_not_found(api.delete(key.name(), &DeleteParams::default()).await)?;
        }
        Ok(Action::done())
    }
}

fn verb_of(write: &Write) -> &'static str {
    match write {
        Write::Create(_) => "creating",
        Write::Update(_) => "updating",
        Write::Delete(_) => "deleting",
    }
}
