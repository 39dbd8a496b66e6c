//! The objects that a Pod's volumes and variables are made from, as the API server has them now.
//!
//! They are read once for each look at a Pod. What could not be read is an error of those who need it, not of others.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, PodSpec, Secret};
use kube::Client;
use pintle_runtime::error::ignore_not_found;
use pintle_runtime::{Kind, Objects};

use super::tokens::Tokens;
use crate::make::{Facts, containers};

/// By name; one that the API server does not have is not there, one that could not be read is an error.
type Read<T> = BTreeMap<String, Result<T, String>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    config_maps: Read<ConfigMap>,
    secrets: Read<Secret>,
    claims: Read<PersistentVolumeClaim>,
    /// By the name of the claim that is bound to it.
    persistent_volumes: Read<PersistentVolume>,
    pub(super) tokens: BTreeMap<super::tokens::Asked, Result<String, String>>,
}

impl Sources {
    pub(crate) async fn read(client: &Client, facts: &Facts<'_>, tokens: &mut Tokens, now: jiff::Timestamp) -> Self {
        let names = Names::of(facts);
        let namespace = facts.namespace();
        let (config_maps, secrets, claims) = futures::join!(
            read_all(Objects::<ConfigMap>::namespaced(client.clone(), namespace), names.config_maps),
            read_all(Objects::<Secret>::namespaced(client.clone(), namespace), names.secrets),
            read_all(Objects::<PersistentVolumeClaim>::namespaced(client.clone(), namespace), names.claims),
        );
        let bound: BTreeMap<String, String> = claims
            .iter()
            .filter_map(|(claim, read)| {
                let volume = read.as_ref().ok()?.spec.as_ref()?.volume_name.clone()?;
                Some((volume, claim.clone())).filter(|(volume, _)| !volume.is_empty())
            })
            .collect();
        let volumes = read_all(Objects::<PersistentVolume>::all(client.clone()), bound.keys().cloned().collect()).await;
        let persistent_volumes =
            volumes.into_iter().filter_map(|(volume, read)| Some((bound.get(&volume)?.clone(), read))).collect();
        let tokens = tokens.hold(client, facts, now).await;
        Sources { config_maps, secrets, claims, persistent_volumes, tokens }
    }

    /// Nothing if there is none and none is needed.
    pub(crate) fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Option<&ConfigMap>, String> {
        found(&self.config_maps, "configmap", name, optional)
    }

    /// Nothing if there is none and none is needed.
    pub(crate) fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<&Secret>, String> {
        found(&self.secrets, "secret", name, optional)
    }

    pub(super) fn claim(&self, name: &str) -> Result<&PersistentVolumeClaim, String> {
        let none = || format!("persistentvolumeclaim {name:?} not found");
        found(&self.claims, "persistentvolumeclaim", name, None)?.ok_or_else(none)
    }

    pub(super) fn bound_volume(&self, claim: &str) -> Result<&PersistentVolume, String> {
        match self.persistent_volumes.get(claim) {
            Some(Ok(volume)) => Ok(volume),
            Some(Err(message)) => Err(message.clone()),
            None => Err(format!("the persistent volume of claim {claim:?} was not found")),
        }
    }
}

fn found<'a, T>(read: &'a Read<T>, kind: &str, name: &str, optional: Option<bool>) -> Result<Option<&'a T>, String> {
    match read.get(name) {
        Some(Ok(object)) => Ok(Some(object)),
        Some(Err(message)) => Err(message.clone()),
        None if optional == Some(true) => Ok(None),
        None => Err(format!("{kind} {name:?} not found")),
    }
}

async fn read_all<T>(api: Objects<T>, names: BTreeSet<String>) -> Read<T>
where
    T: Kind<DynamicType = ()>,
{
    let reads = names.into_iter().map(async |name| {
        let read = ignore_not_found(api.get(&name).await).map_err(|error| error.to_string()).transpose();
        read.map(|read| (name, read))
    });
    join_all(reads).await.into_iter().flatten().collect()
}

/// What a Pod refers to.
#[derive(Default)]
struct Names {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
    claims: BTreeSet<String>,
}

impl Names {
    fn of(facts: &Facts<'_>) -> Self {
        let mut names = Names::default();
        names.add_volumes(facts);
        names.add_variables(facts.spec);
        names
    }

    fn add_volumes(&mut self, facts: &Facts<'_>) {
        for volume in facts.spec.volumes.iter().flatten() {
            self.config_maps.extend(volume.config_map.as_ref().map(|source| source.name.clone()));
            self.secrets.extend(volume.secret.as_ref().and_then(|source| source.secret_name.clone()));
            self.claims.extend(super::claim::name_of(facts, volume));
            for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
                self.config_maps.extend(source.config_map.as_ref().map(|source| source.name.clone()));
                self.secrets.extend(source.secret.as_ref().map(|source| source.name.clone()));
            }
        }
    }

    fn add_variables(&mut self, spec: &PodSpec) {
        for container in containers(spec) {
            for from in container.env_from.iter().flatten() {
                self.config_maps.extend(from.config_map_ref.as_ref().map(|source| source.name.clone()));
                self.secrets.extend(from.secret_ref.as_ref().map(|source| source.name.clone()));
            }
            for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
                self.config_maps.extend(source.config_map_key_ref.as_ref().map(|source| source.name.clone()));
                self.secrets.extend(source.secret_key_ref.as_ref().map(|source| source.name.clone()));
            }
        }
    }
}

#[cfg(test)]
impl Sources {
    pub(crate) fn put_config_map(&mut self, name: &str, object: serde_json::Value) {
        self.config_maps.insert(name.to_owned(), Ok(serde_json::from_value(object).unwrap()));
    }

    pub(crate) fn put_secret(&mut self, name: &str, object: serde_json::Value) {
        self.secrets.insert(name.to_owned(), Ok(serde_json::from_value(object).unwrap()));
    }

    /// As if the API server could not be asked.
    pub(crate) fn lose_config_map(&mut self, name: &str) {
        self.config_maps.insert(name.to_owned(), Err("the server is away".to_owned()));
    }

    pub(crate) fn put_claim(&mut self, name: &str, claim: serde_json::Value, volume: Option<serde_json::Value>) {
        self.claims.insert(name.to_owned(), Ok(serde_json::from_value(claim).unwrap()));
        let volume = volume.map(|volume| Ok(serde_json::from_value(volume).unwrap()));
        self.persistent_volumes.extend(volume.map(|volume| (name.to_owned(), volume)));
    }
}
