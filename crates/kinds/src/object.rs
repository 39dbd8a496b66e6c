//! An object whose kind is not known to the code that handles it.

use std::any::Any;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::codec::Kind;

/// An object of any kind.
pub trait Object: Any + Send + Sync {
    fn metadata(&self) -> &ObjectMeta;
}

impl<K: Kind> Object for K {
    fn metadata(&self) -> &ObjectMeta {
        Resource::meta(self)
    }
}

impl std::fmt::Debug for dyn Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let meta = self.metadata();
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        write!(formatter, "{}/{}@{}", part(&meta.namespace), part(&meta.name), part(&meta.resource_version))
    }
}

/// The object as one of this kind; nothing if it is of another.
pub fn typed<K: Kind>(object: &Arc<dyn Object>) -> Option<Arc<K>> {
    let object: Arc<dyn Any + Send + Sync> = object.clone();
    object.downcast().ok()
}

/// The same for a look at it.
pub fn seen_as<K: Kind>(object: &dyn Object) -> Option<&K> {
    let object: &dyn Any = object;
    object.downcast_ref()
}
