//! The names of the cluster, answered on every node by the node itself.
//!
//! - [`zone`]: the names, kept up to date by a loop over Services, EndpointSlices and Namespaces
//! - [`answer`]: a question becomes an answer
//! - [`forward`]: names of others
//! - [`publish`]: says on the Node where the server is
//! - [`server`]: datagrams and connections; [`metrics`]: what was asked and answered

pub mod answer;
pub mod forward;
pub mod metrics;
pub mod publish;
pub mod server;
pub mod zone;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::{Action, Attempt, Context, Controller, Error, Informer, Key, Reconciler};

pub use answer::Domain;
pub use forward::Forwarder;

pub use server::Server;
use zone::{Entry, Zone};

use crate::services::{by_service, service_of};

/// Keys of namespaces carry this instead of a namespace, which is no name that one may have.
const NAMESPACES: &str = "*";

/// Keeps a server's names up to date, until the context's shutdown fires.
pub async fn run(context: Context, server: Arc<Server>) {
    let services = context.informers.of::<Service>();
    let namespaces = context.informers.of::<Namespace>();
    let slices = context.informers.of::<EndpointSlice>();
    slices.index(by_service);
    let names = Names { services, slices, namespaces, server };
    tokio::select! {
        biased;
        () = context.shutdown.fired() => return,
        () = names.fill() => {}
    }
    let (services, slices, namespaces) = (names.services.clone(), names.slices.clone(), names.namespaces.clone());
    Controller::new("dns", &context)
        .workers(1)
        .watch(&services, |change| vec![change.key()])
        .watch(&slices, |change| service_of(change.object()).into_iter().collect())
        .watch(&namespaces, |change| vec![Key::new(NAMESPACES, change.key().name())])
        .run(names)
        .await;
}

struct Names {
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    namespaces: Informer<Namespace>,
    server: Arc<Server>,
}

impl Names {
    /// Everything that is there, once all of it is known: a name that is only not known yet must not be denied.
    async fn fill(&self) {
        self.services.synced().await;
        self.slices.synced().await;
        self.namespaces.synced().await;
        let mut zone = Zone::default();
        for namespace in self.namespaces.all() {
            zone.put_namespace(Key::of(namespace.as_ref()).name(), true);
        }
        for service in self.services.all() {
            let key = Key::of(service.as_ref());
            zone.put(&key, self.entry(&key));
        }
        self.server.know(zone);
    }

    fn entry(&self, key: &Key) -> Option<Entry> {
        Entry::of(self.services.get(key)?.as_ref(), &self.slices.by(by_service, &key.to_string()))
    }
}

impl Reconciler for Names {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        if key.namespace() == NAMESPACES {
            let exists = self.namespaces.get(&Key::cluster(key.name())).is_some();
            self.server.change(|zone| zone.put_namespace(key.name(), exists));
        } else {
            let entry = self.entry(key);
            self.server.change(|zone| zone.put(key, entry));
        }
        Ok(Action::done())
    }
}
