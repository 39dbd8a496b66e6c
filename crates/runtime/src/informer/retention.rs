//! What an informer keeps of each object, and in which form.
//!
//! - The default drops `metadata.managedFields` and nothing else. A PUT without them leaves the server's as they are, so
//!   loops may write back what they read. Annotations stay, `last-applied-configuration` too: a PUT without it would
//!   take it away from the object, and the next `kubectl apply` would no longer know what to remove.
//! - Up to a budget objects are kept decoded, and reading one is a pointer's copy. Beyond it they are packed (see
//!   `packed`), smaller than their JSON, and reading one decodes it, unless it was read or changed a moment ago.

use std::any::TypeId;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;

/// Decoded objects of one informer: some 3,600 Pods of ReplicaSets.
const DECODED: usize = 96 << 20;

/// Metadata is quick to decode, and informers of it are many.
const DECODED_METADATA: usize = 1 << 20;

/// What is kept. Informers of one kind with different retentions are different informers.
pub struct Retention<K> {
    pub(super) name: &'static str,
    pub(super) project: fn(&mut K),
    /// Whether the reflector need not even decode who owns which field.
    pub(super) drops_fields: bool,
    /// Estimated bytes of objects that are kept decoded.
    pub(super) decoded: usize,
}

impl<K> Clone for Retention<K> {
    fn clone(&self) -> Self {
        Retention { ..*self }
    }
}

impl<K> fmt::Debug for Retention<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Retention").field("name", &self.name).field("decoded", &self.decoded).finish()
    }
}

impl<K: Resource + 'static> Default for Retention<K> {
    /// Everything but the managed fields.
    fn default() -> Self {
        let is_metadata = TypeId::of::<K>() == TypeId::of::<PartialObjectMeta<DynamicObject>>();
        Retention {
            name: "default",
            project: |object| drop_managed_fields(object.meta_mut()),
            drops_fields: true,
            decoded: if is_metadata { DECODED_METADATA } else { DECODED },
        }
    }
}

impl<K: Resource + 'static> Retention<K> {
    /// All that the server sends, for those who read managed fields. Always packed: decoded, managed fields are
    /// trees of small maps, each many times its JSON.
    pub fn everything() -> Self {
        Retention { name: "everything", project: |_| (), drops_fields: false, decoded: 0 }
    }

    /// What the function leaves of an object. The name tells projections of one kind apart. Do not write back what was
    /// projected by PUT: what the function took away would be taken away from the object.
    pub fn projected(name: &'static str, project: fn(&mut K)) -> Self {
        Retention { name, project, drops_fields: false, decoded: DECODED }
    }

    /// Another budget of estimated bytes for objects kept decoded: 0 packs all, `usize::MAX` none.
    pub fn decoded_up_to(mut self, bytes: usize) -> Self {
        self.decoded = bytes;
        self
    }
}

/// Absent, not empty: an empty list in a PUT turns tracking off.
fn drop_managed_fields(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
}
