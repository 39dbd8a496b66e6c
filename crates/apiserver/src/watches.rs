//! Watches: what one pump rendered, many watchers read.
//!
//! - One pump per topic and view (kind and version, shape, selectors) takes the store's events, renders each batch once
//!   into shared bytes and wakes its watchers. A watcher is a cursor into the pump's recent batches.
//! - Bookmarks and deadlines belong to the pump: it has one timer, however many watch.
//! - A watch of one object, or by a field that its kind indexes (a Pod's `spec.nodeName`), has a topic of its own in the
//!   store: it is not woken by other objects.
//! - A watcher that is more than [`ring::MAX_BYTES`] behind is cut off; the others go on.
//! - A pump goes with its last watcher.
//!
//! For example, 100 watchers of all ConfigMaps and one with `labelSelector=app=web` are two pumps. A ConfigMap is
//! written: both pumps are woken; the first renders it and wakes 100, the second finds that it is not selected and wakes
//! nobody.
//!
//! # Layout
//!
//! [`feed`] is the body of one answer: what was there first, what happened since, then what its pump renders. [`pump`] is
//! the task behind it, [`ring`] the batches that wait for its watchers. [`view`] turns events into lines.

pub mod feed;
pub mod pump;
pub mod ring;
pub mod view;

pub use feed::{Feed, Start};
pub use pump::{Pumps, Terms};
pub use view::View;

use crate::catalogue::Resource;
use crate::registry::facets;
use pintle_meta::labels::FieldSelector;
use pintle_store::{Index, Interest};
use std::sync::Arc;

/// What the store has to tell a watch about, which is as little as its fields allow.
pub fn interest(resource: &Arc<Resource>, namespace: &str, fields: &FieldSelector) -> Interest {
    let namespace = match fields.required("metadata.namespace") {
        Some(only) if namespace.is_empty() && resource.namespaced => only,
        _ => namespace,
    };
    let one_name_is_one_key = !namespace.is_empty() || !resource.namespaced;
    if let Some(name) = fields.required("metadata.name").filter(|_| one_name_is_one_key) {
        return Interest::Key(resource.key(namespace, name).into());
    }
    let prefix = resource.scope(namespace).into();
    let indexed = resource.strategy.indexed_fields().iter();
    match indexed.filter_map(|field| Some((*field, fields.required(field)?))).next() {
        Some((field, value)) => {
            let resource = resource.clone();
            let index = Index::new(field, move |entry| facets(&resource, entry).field(field).unwrap_or_default());
            Interest::Indexed { prefix, index, value: value.into() }
        }
        None => Interest::Prefix(prefix),
    }
}
