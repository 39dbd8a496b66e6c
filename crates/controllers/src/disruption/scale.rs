//! How many Pods the owners of some Pods want.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pintle_runtime::{ApiError, Context, Informer, Key, owner};

use crate::scales::{self, ScaleError};

/// What owners want in all, and the Pods that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) replicas: i32,
    pub(super) unmanaged: Vec<String>,
}

/// Finds the scale of any owner: of built-in ones in informers, of others by their scale subresource.
pub(super) struct Scales {
    sets: Informer<ReplicaSet>,
    deployments: Informer<Deployment>,
    stateful: Informer<StatefulSet>,
    controllers: Informer<ReplicationController>,
    others: scales::Scales,
}

/// The owner's UID and its replicas.
type Scaled = (String, i32);

impl Scales {
    pub(super) fn new(context: &Context) -> Self {
        Scales {
            sets: context.informers.of(),
            deployments: context.informers.of(),
            stateful: context.informers.of(),
            controllers: context.informers.of(),
            others: scales::Scales::new(context.client.clone()),
        }
    }

    /// What the owners of these Pods want, each counted once; the error tells people why that is not known.
    pub(super) async fn of(&self, namespace: &str, pods: &[&Pod]) -> Result<Wanted, String> {
        let (mut scales, mut unmanaged): (BTreeMap<String, Scaled>, _) = (BTreeMap::new(), Vec::new());
        for pod in pods {
            let name = pod.metadata.name.clone().unwrap_or_default();
            match owner::controller_of(&pod.metadata) {
                None => unmanaged.push(name),
                Some(owner) if scales.contains_key(&owner.uid) => {}
                Some(owner) => {
                    let scaled = self.scale_of(namespace, owner).await?;
                    let scaled = scaled.ok_or_else(|| format!("found no controllers for pod {name:?}"))?;
                    scales.insert(owner.uid.clone(), scaled);
                }
            }
        }
        // Two ReplicaSets of one Deployment have one scale.
        let by_owner: BTreeMap<String, i32> = scales.into_values().collect();
        let replicas = by_owner.into_values().fold(0, i32::saturating_add);
        Ok(Wanted { replicas, unmanaged })
    }

    async fn scale_of(&self, namespace: &str, owner: &OwnerReference) -> Result<Option<Scaled>, String> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let key = Key::new(namespace, owner.name.clone());
        let scaled = |meta: &ObjectMeta, replicas: Option<i32>| {
            meta.uid.clone().filter(|uid| *uid == owner.uid).map(|uid| (uid, replicas.unwrap_or(1)))
        };
        Ok(match (group, owner.kind.as_str()) {
            ("apps", "ReplicaSet") => self.sets.get(&key).and_then(|set| match self.deployment_of(namespace, &set) {
                Some(of_deployment) => of_deployment,
                None => scaled(&set.metadata, set.spec.as_ref().and_then(|spec| spec.replicas)),
            }),
            ("apps", "StatefulSet") => self
                .stateful
                .get(&key)
                .and_then(|set| scaled(&set.metadata, set.spec.as_ref().and_then(|spec| spec.replicas))),
            ("", "ReplicationController") => self.controllers.get(&key).and_then(|controller| {
                scaled(&controller.metadata, controller.spec.as_ref().and_then(|spec| spec.replicas))
            }),
            _ => self.asked(namespace, owner).await?,
        })
    }

    /// The scale of the Deployment that controls the set; nothing in it if that Deployment is not there.
    fn deployment_of(&self, namespace: &str, set: &ReplicaSet) -> Option<Option<Scaled>> {
        let reference = owner::controller_of(&set.metadata)?;
        let key = owner::controller_key::<Deployment>(&set.metadata)?;
        let deployment = self.deployments.get(&Key::new(namespace, key.name()));
        Some(deployment.filter(|found| found.metadata.uid.as_ref() == Some(&reference.uid)).map(|deployment| {
            let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            (reference.uid.clone(), replicas.unwrap_or(1))
        }))
    }

    /// What the scale subresource of an owner of any other kind says.
    async fn asked(&self, namespace: &str, owner: &OwnerReference) -> Result<Option<Scaled>, String> {
        let found = self.others.get(namespace, &owner.api_version, &owner.kind, &owner.name).await;
        let scale = found.map_err(|error| match error {
            ScaleError::UnknownKind { .. } => {
                format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version)
            }
            ScaleError::NotFound { resource, .. } => format!("{resource} does not implement the scale subresource"),
            ScaleError::Api(error) => error.server_message(),
        })?;
        let scale = scale.scale;
        let is_it = scale.metadata.uid.as_ref() == Some(&owner.uid);
        Ok(is_it.then(|| (owner.uid.clone(), scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))))
    }
}
