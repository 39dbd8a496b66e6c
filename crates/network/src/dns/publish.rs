//! Lets Pods find the name server: the Service `kube-dns`, and this node behind it.
//!
//! Each node asks itself. Whoever gives that Service a selector has Pods of their own answer instead.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use pintle_runtime::{Action, ApiError, Attempt, Context, Controller, Error, Informer, Key, Reconciler, error};
use serde_json::{Value, json};

use crate::services::SERVICE_NAME;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";

/// Where the name server of a node is.
#[derive(Clone, Debug)]
pub struct Published {
    pub node: String,
    /// Where it listens.
    pub at: SocketAddr,
    /// The address of the Service.
    pub service: IpAddr,
}

/// Runs until the context's shutdown fires.
pub async fn run(context: Context, published: Published) {
    let services = context.informers.of::<Service>();
    let slices = context.informers.of::<EndpointSlice>();
    let controller = Controller::new("dns-service", &context).workers(1);
    // Also where nobody has made anything yet.
    controller.waker().add(Key::new(NAMESPACE, NAME));
    let slice = Key::new(NAMESPACE, published.slice());
    let wakes = move |is_ours: bool| if is_ours { vec![Key::new(NAMESPACE, NAME)] } else { Vec::new() };
    controller
        .watch(&services, move |change| wakes(change.key() == Key::new(NAMESPACE, NAME)))
        .watch(&slices, move |change| wakes(change.key() == slice))
        .run(Publish { client: context.client.clone(), services, slices, published })
        .await;
}

struct Publish {
    client: Client,
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    published: Published,
}

impl Reconciler for Publish {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), NAMESPACE);
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), NAMESPACE);
        let Some(service) = self.services.get(key) else {
            match services.create(&PostParams::default(), &typed(self.published.service_object())?).await {
                // Another node was first: it will be seen.
                Err(error) if error.is_already_exists() => {}
                other => _ = other?,
            }
            return Ok(Action::done());
        };
        let name = self.published.slice();
        let existing = self.slices.get(&Key::new(NAMESPACE, &name));
        if service.spec.as_ref().is_some_and(|spec| spec.selector.as_ref().is_some_and(|one| !one.is_empty())) {
            if existing.is_some() {
                error::ignore_not_found(slices.delete(&name, &DeleteParams::default()).await)?;
            }
            return Ok(Action::done());
        }
        let wanted: EndpointSlice = typed(self.published.slice_object())?;
        match existing {
            None => _ = slices.create(&PostParams::default(), &wanted).await?,
            Some(existing) if !is_alike(&existing, &wanted) => {
                let mut changed = existing.as_ref().clone();
                (changed.endpoints, changed.ports) = (wanted.endpoints, wanted.ports);
                changed.metadata.labels = wanted.metadata.labels;
                slices.replace(&name, &PostParams::default(), &changed).await?;
            }
            Some(_) => {}
        }
        Ok(Action::done())
    }
}

fn is_alike(one: &EndpointSlice, other: &EndpointSlice) -> bool {
    one.endpoints == other.endpoints && one.ports == other.ports && one.metadata.labels == other.metadata.labels
}

fn typed<K: serde::de::DeserializeOwned>(object: Value) -> Result<K, Error> {
    serde_json::from_value(object).map_err(|error| Error::Invalid(error.to_string()))
}

impl Published {
    fn slice(&self) -> String {
        format!("{NAME}-{}", self.node)
    }

    fn service_object(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE,
                "labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}},
            "spec": {"clusterIP": self.service, "internalTrafficPolicy": "Local", "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": self.at.port()},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": self.at.port()}]}})
    }

    fn slice_object(&self) -> Value {
        let family = if self.at.is_ipv4() { "IPv4" } else { "IPv6" };
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": self.slice(), "namespace": NAMESPACE, "labels": {
                SERVICE_NAME: NAME, "endpointslice.kubernetes.io/managed-by": "dns.pintle.dev"}},
            "addressType": family,
            "endpoints": [{"addresses": [self.at.ip()], "nodeName": self.node,
                "conditions": {"ready": true, "serving": true, "terminating": false}}],
            "ports": [{"name": "dns", "port": self.at.port(), "protocol": "UDP"},
                {"name": "dns-tcp", "port": self.at.port(), "protocol": "TCP"}]})
    }
}
