//! What an informer keeps of each object, and in which form.
//!
//! - The default drops `metadata.managedFields` and nothing else. A PUT without them leaves the server's as they are, so
//!   loops may write back what they read. Annotations stay, `last-applied-configuration` too: a PUT without it would
//!   take it away from the object, and the next `kubectl apply` would no longer know what to remove.
//! - Up to a budget objects are kept decoded, and reading one is a pointer's copy. Beyond it they are packed (see
//!   `packed`), smaller than their JSON, and reading one decodes it, unless it was read or changed a moment ago.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pintle_kinds::{Kind, Object, typed};

/// Decoded objects of one informer: some 3,600 Pods of ReplicaSets.
const DECODED: usize = 96 << 20;

/// Metadata is quick to decode, and informers of it are many.
const DECODED_METADATA: usize = 1 << 20;

/// What is left of an object.
pub(super) type Projection = Arc<dyn Fn(Arc<dyn Object>) -> Arc<dyn Object> + Send + Sync>;

/// What is kept. Informers of one kind with different retentions are different informers.
pub struct Retention<K> {
    pub(super) name: &'static str,
    pub(super) projection: Option<Projection>,
    /// Whether the reflector need not even decode who owns which field.
    pub(super) drops_fields: bool,
    /// Estimated bytes of objects that are kept decoded.
    pub(super) decoded: usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Retention<K> {
    fn clone(&self) -> Self {
        Retention { projection: self.projection.clone(), ..*self }
    }
}

impl<K> fmt::Debug for Retention<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Retention").field("name", &self.name).field("decoded", &self.decoded).finish()
    }
}

impl<K: Kind> Default for Retention<K> {
    /// Everything but the managed fields, which are cut out of the text before it is decoded: absent, not empty, since an empty list
    /// in a PUT turns tracking off.
    fn default() -> Self {
        let decoded = if K::metadata_api() { DECODED_METADATA } else { DECODED };
        Retention { name: "default", projection: None, drops_fields: true, decoded, kind: PhantomData }
    }
}

impl<K: Kind> Retention<K> {
    /// All that the server sends, for those who read managed fields. Always packed: decoded, managed fields are
    /// trees of small maps, each many times its JSON.
    pub fn everything() -> Self {
        Retention { name: "everything", projection: None, drops_fields: false, decoded: 0, kind: PhantomData }
    }

    /// What the function leaves of an object. The name tells projections of one kind apart. Do not write back what was
    /// projected by PUT: what the function took away would be taken away from the object.
    pub fn projected(name: &'static str, project: fn(&mut K)) -> Self {
        let projection: Projection = Arc::new(move |object| {
            let Some(mut typed) = typed::<K>(&object) else { return object };
            // Nobody else has it: nothing is copied.
            drop(object);
            project(Arc::make_mut(&mut typed));
            typed
        });
        Retention { name, projection: Some(projection), drops_fields: false, decoded: DECODED, kind: PhantomData }
    }

    /// Another budget of estimated bytes for objects kept decoded: 0 packs all, `usize::MAX` none.
    pub fn decoded_up_to(mut self, bytes: usize) -> Self {
        self.decoded = bytes;
        self
    }
}
