//! The names of the cluster, answered on every node by the node itself.
//!
//! - [`zone`]: the names, kept up to date by a loop over Services, EndpointSlices and Namespaces
//! - [`answer`]: a question becomes an answer
//! - [`forward`]: names of others
//! - [`server`]: datagrams and connections

pub mod answer;
pub mod forward;
pub mod server;
pub mod zone;

use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::{Action, Attempt, Context, Controller, Error, Informer, Key, Reconciler};

pub use answer::Domain;
pub use forward::Forwarder;
pub use server::Server;
use zone::Entry;

use crate::services::{BY_SERVICE, service_of};

/// Keys of namespaces carry this instead of a namespace, which is no name that one may have.
const NAMESPACES: &str = "*";

/// Keeps a server's names up to date, until the context's shutdown fires.
pub async fn run(context: Context, server: Arc<Server>) {
    let services = context.informers.of::<Service>();
    let namespaces = context.informers.of::<Namespace>();
    let slices = context.informers.of::<EndpointSlice>();
    slices.add_index(BY_SERVICE, |slice| service_of(slice).map(|key| key.to_string()).into_iter().collect());
    Controller::new("dns", &context)
        .workers(1)
        .watch(&services, |change| vec![change.key()])
        .watch(&slices, |change| service_of(change.object()).into_iter().collect())
        .watch(&namespaces, |change| vec![Key::new(NAMESPACES, change.key().name())])
        .run(Names { services, slices, namespaces, server })
        .await;
}

struct Names {
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    namespaces: Informer<Namespace>,
    server: Arc<Server>,
}

impl Reconciler for Names {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let zone = || self.server.zone.write().unwrap_or_else(PoisonError::into_inner);
        if key.namespace() == NAMESPACES {
            let exists = self.namespaces.get(&Key::cluster(key.name())).is_some();
            zone().put_namespace(key.name(), exists);
            return Ok(Action::done());
        }
        let service = self.services.get(key);
        let entry =
            service.and_then(|service| Entry::of(&service, &self.slices.by_index(BY_SERVICE, &key.to_string())));
        zone().put(key, entry);
        Ok(Action::done())
    }
}
