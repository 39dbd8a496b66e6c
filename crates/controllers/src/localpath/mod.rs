//! The localpath loop: a directory of this machine for each claim of a class of its provisioner, by default any claim.
//!
//! Watches PersistentVolumeClaims, PersistentVolumes and StorageClasses; keys are claims (`namespace/name`) and volumes (`name`).
//! Nodes wake a second controller, which puts the class in place. The `volumes` loop binds what is made here.

mod directories;
mod plan;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use pintle_runtime::{
    Action, Attempt, Context, Controller, Error, Executor, Informer, Key, Objects, Plan, Reconciler, storage, when,
};

use directories::Directories;
use plan::{ClaimStep, VolumeStep};

/// Where volumes are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalVolumes {
    /// On simulated nodes, which have no disks.
    Simulated,
    /// Below this directory, on the node of this name: the machine on which the loop runs.
    Below { directory: PathBuf, node: String },
}

/// Runs until the context's shutdown fires. Without a place it makes nothing.
pub(crate) async fn run(context: Context, place: Option<LocalVolumes>) {
    let Some(place) = place else { return context.shutdown.fired().await };
    let directories = Directories::of(&place);
    if let Err(error) = abandon_empty(&directories, &context.client).await {
        tracing::warn!(%error, "directories that no volume uses are left");
    }
    tokio::join!(keep_class(&context, place.clone()), provision(&context, place, directories));
}

/// A claim that was deleted while its volume was made leaves an empty directory. The server is asked: the cache may be behind.
async fn abandon_empty(directories: &Directories, client: &Client) -> Result<(), Error> {
    let volumes: Objects<PersistentVolume> = Objects::all(client.clone());
    for name in directories.empty().await.map_err(Error::other)? {
        if volumes.get_opt(&name).await?.is_none() {
            directories.abandon(&name).await.map_err(Error::other)?;
        }
    }
    Ok(())
}

async fn keep_class(context: &Context, place: LocalVolumes) {
    let (nodes, classes) = (context.informers.of::<Node>(), context.informers.of::<StorageClass>());
    let executor = Executor::new(context, plan::AGENT);
    let own = match place {
        LocalVolumes::Simulated => None,
        LocalVolumes::Below { node, .. } => Some(node),
    };
    let known = nodes.clone();
    Controller::new("local-path-class", context)
        .watch(&nodes, |change| match change.old() {
            // Only a node that comes can make a difference.
            Some(_) => Vec::new(),
            None => vec![change.key()],
        })
        .reads(&classes)
        .run_plans(executor, move |key| {
            let node = known.get(key).filter(|_| own.as_deref().is_none_or(|own| own == key.name()));
            let all = classes.all();
            node.map(|node| plan::class(&all, own.as_ref().map(|_| plan::hostname(&node)))).unwrap_or_default()
        })
        .await;
}

async fn provision(context: &Context, place: LocalVolumes, directories: Directories) {
    let claims = context.informers.of::<PersistentVolumeClaim>();
    let volumes = context.informers.of::<PersistentVolume>();
    let (classes, nodes) = (context.informers.of::<StorageClass>(), context.informers.of::<Node>());
    let of_class = claims.clone();
    Controller::new("local-path", context)
        .watch(&claims, |change| vec![change.key()])
        .watch(&volumes, |change| {
            let mut keys = vec![change.key()];
            // What a claim asks for may be more than its volume says.
            keys.extend(plan::claim_of(change.object()));
            keys
        })
        .watch(&classes, move |change| match when::spec(change) {
            true => of_class.all().iter().map(|claim| Key::of(claim.as_ref())).collect(),
            false => Vec::new(),
        })
        .reads(&nodes)
        .run(Provisioner {
            client: context.client.clone(),
            executor: Executor::new(context, plan::AGENT),
            place,
            directories,
            claims,
            volumes,
            classes,
            nodes,
        })
        .await;
}

struct Provisioner {
    client: Client,
    executor: Executor,
    place: LocalVolumes,
    directories: Directories,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    nodes: Informer<Node>,
}

impl Reconciler for Provisioner {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        match key.namespace().is_empty() {
            true => self.settle_volume(key).await,
            false => self.settle_claim(key).await,
        }
    }
}

impl Provisioner {
    async fn settle_claim(&self, key: &Key) -> Result<Action, Error> {
        let Some(claim) = self.claims.get(key) else {
            abandon_empty(&self.directories, &self.client).await?;
            return Ok(Action::done());
        };
        let class = self.classes.get(&Key::cluster(storage::class_of_claim(&claim)));
        let volume = storage::volume_name(&claim).and_then(|name| self.volumes.get(&Key::cluster(name)));
        let nodes = self.nodes.all();
        let around =
            plan::Around { place: &self.place, class: class.as_deref(), volume: volume.as_deref(), nodes: &nodes };
        match plan::claim(&claim, &around) {
            ClaimStep::Nothing => Ok(Action::done()),
            ClaimStep::Do(plan) => Ok(self.executor.execute(claim.as_ref(), plan).await?),
            ClaimStep::Make { name, plan } => {
                if let Err(error) = self.directories.make(&name).await {
                    let note = plan::not_made(&claim, &error.to_string());
                    self.executor.execute(claim.as_ref(), Plan::telling(note)).await?;
                    return Err(Error::Outside(format!("the directory of volume {name} cannot be made: {error}")));
                }
                Ok(self.executor.execute(claim.as_ref(), plan).await?)
            }
        }
    }

    async fn settle_volume(&self, key: &Key) -> Result<Action, Error> {
        let Some(volume) = self.volumes.get(key) else { return Ok(Action::done()) };
        match plan::volume(&volume, &self.place) {
            VolumeStep::Nothing => Ok(Action::done()),
            VolumeStep::Do(plan) => Ok(self.executor.execute(volume.as_ref(), plan).await?),
            VolumeStep::Remove { name, plan } => {
                if !self.is_released(&volume).await? {
                    return Err(Error::Stale);
                }
                if let Err(error) = self.directories.remove(&name).await {
                    let note = plan::not_removed(&error.to_string());
                    self.executor.execute(volume.as_ref(), Plan::telling(note)).await?;
                    return Err(Error::Outside(format!("the directory of volume {name} cannot be removed: {error}")));
                }
                Ok(self.executor.execute(volume.as_ref(), plan).await?)
            }
        }
    }

    /// What is on a volume must not be given up because the cache is behind.
    async fn is_released(&self, volume: &PersistentVolume) -> Result<bool, Error> {
        let volumes: Objects<PersistentVolume> = Objects::all(self.client.clone());
        let now = volumes.get_opt(volume.metadata.name.as_deref().unwrap_or_default()).await?;
        Ok(now.is_some_and(|now| now.metadata.resource_version == volume.metadata.resource_version))
    }
}
