//! Planted bugs: one small controller for each class of mistake that studies of controllers have published. The kit finds
//! each, and the corrected controller passes the same test.
//!
//! A site is a ConfigMap with the label `role=site`: `data` is its spec, annotations are its status. What a controller
//! makes for a site are Secrets with the label `site`.

mod crashes;
mod unrest;
mod views;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use pintle_runtime::{
    Action, ApiError, Attempt, Clock, Context, Controller, Error, Informer, Key, Reconciler, Selection,
};
use pintle_testkit::{Builder, Cluster, Scenario};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What a controller has at hand.
struct Hands {
    client: Client,
    clock: Clock,
    sites: Informer<ConfigMap>,
    children: Informer<Secret>,
    /// What it remembers until it is lost.
    memory: Mutex<BTreeMap<String, String>>,
}

/// What a controller does with the key of a site.
type Behaviour = fn(Arc<Hands>, Key) -> BoxFuture<'static, Result<Action, Error>>;

/// A controller: what it does, and whether changes of children wake it.
#[derive(Clone, Copy)]
struct Planted {
    name: &'static str,
    reconcile: Behaviour,
    watches_children: bool,
}

impl Planted {
    fn new(reconcile: Behaviour) -> Self {
        Planted { name: "planted", reconcile, watches_children: false }
    }

    fn watching_children(self) -> Self {
        Planted { watches_children: true, ..self }
    }

    fn named(self, name: &'static str) -> Self {
        Planted { name, ..self }
    }

    fn start(self, cluster: &Cluster) {
        cluster.run(self.name, move |context| self.run(context));
    }

    async fn run(self, context: Context) {
        let sites = context.informers.select::<ConfigMap>(Selection::labels("role=site"));
        let children = context.informers.of::<Secret>();
        let hands = Hands {
            client: context.client.clone(),
            clock: context.clock.clone(),
            sites: sites.clone(),
            children: children.clone(),
            memory: Mutex::default(),
        };
        let mut controller = Controller::new(self.name, &context).watch(&sites, |change| vec![change.key()]);
        controller = match self.watches_children {
            true => controller.watch(&children, |change| site_of(change.object()).into_iter().collect()),
            false => controller.reads(&children),
        };
        controller.run(Closure(self.reconcile, Arc::new(hands))).await;
    }
}

struct Closure(Behaviour, Arc<Hands>);

impl Reconciler for Closure {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        (self.0)(self.1.clone(), key.clone()).await
    }
}

impl Hands {
    fn sites(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Makes a child with this name; one that is there already will do.
    async fn ensure(&self, site: &str, child: &str) -> Result<(), kube::Error> {
        match self.secrets().create(&PostParams::default(), &child_of(site, child)).await {
            Err(error) if !error.is_already_exists() => Err(error),
            _ => Ok(()),
        }
    }

    async fn remove(&self, child: &str) -> Result<(), kube::Error> {
        match self.secrets().delete(child, &DeleteParams::default()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn annotate(&self, site: &ConfigMap, name: &str, value: &str) -> Result<(), kube::Error> {
        if site.annotations().get(name).is_some_and(|present| present == value) {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {name: value}}});
        self.sites().patch(&site.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }
}

fn child_of(site: &str, child: &str) -> Secret {
    let object = json!({"metadata": {"name": child, "namespace": "default", "labels": {"site": site}}});
    serde_json::from_value(object).unwrap()
}

fn site_of(child: &Secret) -> Option<Key> {
    child.labels().get("site").map(|site| Key::new("default", site.clone()))
}

fn data<'a>(site: &'a ConfigMap, name: &str) -> &'a str {
    site.data.as_ref().and_then(|data| data.get(name)).map_or("", String::as_str)
}

/// A cluster with nothing but the server.
fn bare() -> Builder {
    Cluster::builder().loops(&[]).nodes(0).scheduler(false)
}

async fn create_site(cluster: &Cluster, name: &str, data: Value) {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"role": "site"}});
    let site = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    cluster.create(site).await.unwrap();
}

async fn edit_site(cluster: &Cluster, name: &str, data: Value) {
    let patch = Patch::Merge(json!({"data": data}));
    cluster.api::<ConfigMap>("default").patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn delete_site(cluster: &Cluster, name: &str) {
    cluster.api::<ConfigMap>("default").delete(name, &DeleteParams::background()).await.unwrap();
}

/// A scenario of a planted controller in a bare cluster.
fn of(planted: Planted) -> Scenario {
    Scenario::of(planted.name).on(bare()).setup(move |cluster| async move { planted.start(&cluster) })
}
