//! How many Pods the owners of some Pods want.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{ApiResource, DynamicObject};
use kube::core::Request;
use kube::{Client, Resource};
use pintle_runtime::discovery::{Found, discover};
use pintle_runtime::{ApiError, Context, Informer, Key, owner};

/// What owners want in all, and the Pods that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) replicas: i32,
    pub(super) unmanaged: Vec<String>,
}

/// Finds the scale of any owner: of built-in ones in informers, of others by their scale subresource.
pub(super) struct Scales {
    client: Client,
    sets: Informer<ReplicaSet>,
    deployments: Informer<Deployment>,
    stateful: Informer<StatefulSet>,
    controllers: Informer<ReplicationController>,
    /// What the server had when an owner of an unknown kind was last met.
    known: Mutex<Arc<Vec<Found>>>,
}

/// The owner's UID and its replicas.
type Scaled = (String, i32);

impl Scales {
    pub(super) fn new(context: &Context) -> Self {
        Scales {
            client: context.client.clone(),
            sets: context.informers.of(),
            deployments: context.informers.of(),
            stateful: context.informers.of(),
            controllers: context.informers.of(),
            known: Mutex::default(),
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
        let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
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
            _ => self.asked(namespace, owner, group, version).await?,
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

    async fn asked(
        &self,
        namespace: &str,
        owner: &OwnerReference,
        group: &str,
        version: &str,
    ) -> Result<Option<Scaled>, String> {
        let Some(resource) = self.resource(group, version, &owner.kind).await? else {
            return Err(format!("no matches for kind {:?} in version {:?}", owner.kind, owner.api_version));
        };
        let collection = Request::new(DynamicObject::url_path(&resource, Some(namespace)));
        let request = collection.get_subresource("scale", &owner.name);
        let request = request.map_err(|error| error.to_string())?;
        match self.client.request::<Scale>(request).await {
            Ok(scale) if scale.metadata.uid.as_ref() == Some(&owner.uid) => {
                Ok(Some((owner.uid.clone(), scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => {
                let separator = if group.is_empty() { "" } else { "." };
                let name = format!("{}{separator}{group}", resource.plural);
                Err(format!("{name} does not implement the scale subresource"))
            }
            Err(error) => Err(error.server_message()),
        }
    }

    /// The resource of a kind; the server is asked again if it is not known.
    async fn resource(&self, group: &str, version: &str, kind: &str) -> Result<Option<ApiResource>, String> {
        let find = |known: &[Found]| {
            let is_it = |found: &&Found| found.resource.group == group && found.resource.kind == kind;
            let found = known.iter().find(is_it)?;
            let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            Some(ApiResource { version: version.to_owned(), api_version, ..found.resource.clone() })
        };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(resource) = find(&known) {
            return Ok(Some(resource));
        }
        let fresh = Arc::new(discover(&self.client).await.map_err(|error| error.server_message())?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = fresh.clone();
        Ok(find(&fresh))
    }
}
