//! The scale subresource of any kind: the resource that a reference names, and what its Scale says.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::autoscaling::v1::Scale;
use kube::api::{ApiResource, DynamicObject};
use kube::core::Request;
use kube::{Client, Resource};
use pintle_runtime::discovery::{Found, discover};

/// Reads Scales; discovery is asked when a kind is not known yet.
pub(crate) struct Scales {
    client: Client,
    /// What the server had when an unknown kind was last met.
    known: Mutex<Arc<Vec<Found>>>,
}

/// A Scale, and the collection of the object that it belongs to.
#[derive(Debug)]
pub(crate) struct Scaled {
    pub(crate) collection: String,
    pub(crate) scale: Scale,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScaleError {
    #[error("no matches for kind {kind:?} in group {group:?}")]
    UnknownKind { group: String, kind: String },
    /// The object is not there, or its kind has no scale subresource.
    #[error("{resource} {name:?} was not found or does not implement the scale subresource")]
    NotFound { resource: String, name: String },
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Scales {
    pub(crate) fn new(client: Client) -> Self {
        Scales { client, known: Mutex::default() }
    }

    /// The Scale of this object. Any version of the group will do: a Scale is the same in all of them.
    pub(crate) async fn get(
        &self,
        namespace: &str,
        api_version: &str,
        kind: &str,
        name: &str,
    ) -> Result<Scaled, ScaleError> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let resource = self.resource(group, kind).await?;
        let collection = DynamicObject::url_path(&resource, Some(namespace));
        let request = Request::new(&collection).get_subresource("scale", name).map_err(kube::Error::BuildRequest)?;
        match self.client.request::<Scale>(request).await {
            Ok(scale) => Ok(Scaled { collection, scale }),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let separator = if group.is_empty() { "" } else { "." };
                let resource = format!("{}{separator}{group}", resource.plural);
                Err(ScaleError::NotFound { resource, name: name.to_owned() })
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn resource(&self, group: &str, kind: &str) -> Result<ApiResource, ScaleError> {
        let find = |known: &[Found]| {
            let found = known.iter().find(|found| found.resource.group == group && found.resource.kind == kind)?;
            Some(found.resource.clone())
        };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(resource) = find(&known) {
            return Ok(resource);
        }
        let fresh = Arc::new(discover(&self.client).await?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = fresh.clone();
        find(&fresh).ok_or_else(|| ScaleError::UnknownKind { group: group.to_owned(), kind: kind.to_owned() })
    }
}
