//! A shared informer: one watch, one store, any number of handlers and indexes.
//!
//! - Handlers are called one change at a time, in the server's order (objects of one list in any), and must not block: they
//!   add keys to queues.
//! - A handler sees the store as it is after its change, or newer, never older.
//! - A handler that joins late is first given everything there is as `Added`, then the tail: nothing twice, nothing
//!   missed.
//! - Handlers may read any store. They may not register handlers on the informer that is calling them.
//! - An object that cannot be decoded is skipped, logged with its name and counted; see [`Informer::unreadable`].
//! - What is kept of each object, and in which form, is the [`Retention`]. An informer never drops an object, also not
//!   over its cap: a loop that acts on a part of the world does harm.

mod change;
mod factory;
mod keeping;
mod mirror;
mod retention;
mod store;
#[cfg(test)]
mod tests;
mod troubles;
mod versions;
mod writer;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kube::api::Api;
use pintle_kinds::{Kind, Object, seen_as, typed};
use pintle_meta::Random;

pub use change::Change;
pub(crate) use factory::Watching;
pub use factory::{Informers, View};
pub use mirror::Registration;
use mirror::What;
pub(crate) use mirror::{Event, Mirror};
pub use retention::Retention;
use store::Store;

use crate::key::Key;
use crate::reflector::{Delta, SILENCE, Selection, Source};
use crate::shutdown::Shutdown;

/// What an index finds an object by. The function is the index's name: two indexes cannot be taken for one another.
pub type IndexBy<K> = fn(&K) -> Vec<String>;

/// A view of one kind, kept up to date. Cheap to clone; clones share the store.
///
/// It only puts types on what the `mirror` behind it knows: the code of an informer is compiled once for all kinds.
pub struct Informer<K> {
    mirror: Arc<Mirror>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Informer { mirror: self.mirror.clone(), kind: PhantomData }
    }
}

impl<K: Kind> Informer<K> {
    /// Starts a watch of its own, whose causes do not tell the kind. Prefer [`Informers`], which shares one among all who ask.
    pub fn start(api: Api<K>, selection: Selection, resync: Duration, random: Random, shutdown: Shutdown) -> Self {
        let what = What::unnamed(K::CODEC, api.resource_url(), selection.clone());
        let source = Source::new(api, selection, SILENCE, random).without_managed_fields();
        let informer = Informer::new(what, &Retention::default(), None);
        informer.mirror.follow(source, resync, shutdown);
        informer
    }

    /// An informer without a watch, for tests: feed it with [`Informer::take`].
    pub fn detached() -> Self {
        Informer::new(What::unnamed(K::CODEC, "", Selection::everything()), &Retention::default(), None)
    }

    fn new(what: What, retention: &Retention<K>, cap: Option<usize>) -> Self {
        let mirror = Mirror::new(what, retention.projection.clone(), retention.decoded, cap);
        Informer { mirror: Arc::new(mirror), kind: PhantomData }
    }

    pub(crate) fn mirror(&self) -> &Arc<Mirror> {
        &self.mirror
    }

    /// Takes in a change and tells the handlers.
    pub fn take(&self, delta: Delta) {
        self.mirror.take(delta);
    }

    /// Calls the handler with everything there is, then with every change, until the registration is dropped.
    pub fn on_change(&self, mut handler: impl FnMut(&Change<K>) + Send + 'static) -> Registration {
        self.mirror.on_event(Box::new(move |event| {
            if let Some(change) = event.change.typed() {
                handler(&change);
            }
        }))
    }

    /// Adds an index, which [`Informer::by`] would do when it is first asked: while there are few objects, it costs nothing.
    pub fn index(&self, values_of: IndexBy<K>) {
        let values = move |object: &dyn Object| seen_as(object).map_or_else(Vec::new, values_of);
        self.mirror.index(values_of as usize, Box::new(values));
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        typed(&self.mirror.get(key)?)
    }

    /// Every object, sorted by key.
    pub fn all(&self) -> Vec<Arc<K>> {
        all_typed(self.mirror.read(Store::all))
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        all_typed(self.mirror.read(|store| store.in_namespace(namespace)))
    }

    /// The objects of which the function returns this value. The function is the index: give the same one each time.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod; use pintle_runtime::Informer;
    /// fn node(pod: &Pod) -> Vec<String> {
    ///     pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect()
    /// }
    /// # fn example(pods: Informer<Pod>) {
    /// let on_n1 = pods.by(node, "n1");
    /// # }
    /// ```
    pub fn by(&self, values_of: IndexBy<K>, value: &str) -> Vec<Arc<K>> {
        let name = values_of as usize;
        let found = self.mirror.read(|store| store.by(name, value)).or_else(|| {
            self.index(values_of);
            self.mirror.read(|store| store.by(name, value))
        });
        all_typed(found.unwrap_or_default())
    }

    pub fn len(&self) -> usize {
        self.mirror.read(Store::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_synced(&self) -> bool {
        self.mirror.is_synced()
    }

    /// Returns once the first list is in the store and every handler has seen it.
    pub async fn synced(&self) {
        self.mirror.synced().await;
    }

    /// The highest resourceVersion taken in, from lists, events and bookmarks; 0 before the first, or if the server's
    /// versions are no numbers.
    pub fn version(&self) -> u64 {
        self.mirror.version()
    }

    /// Returns once [`Informer::version`] is this or higher and every handler has seen it.
    pub async fn reached(&self, version: u64) {
        self.mirror.reached(version).await;
    }

    /// The path of the collection that is watched; empty for a detached informer.
    pub fn path(&self) -> &str {
        self.mirror.path()
    }

    /// Whether what is here is known to be behind: the server no longer tells what happened since, and cannot be asked for
    /// everything anew yet.
    pub fn is_lost(&self) -> bool {
        self.mirror.is_lost()
    }

    /// Why the collection cannot be listed, if it cannot.
    pub fn why_lost(&self) -> Option<String> {
        self.mirror.troubles().why_lost()
    }

    /// Objects that cannot be decoded, and why. They are skipped: what is here of them is what was readable last, if anything.
    pub fn unreadable(&self) -> Vec<(Key, String)> {
        self.mirror.troubles().unreadable()
    }

    /// Whether every object of the collection is here, since none was selected.
    pub fn is_whole(&self) -> bool {
        self.mirror.is_whole()
    }

    /// What is retained, in counted bytes: packed objects by their length, decoded ones by an estimate.
    pub fn bytes(&self) -> usize {
        self.mirror.bytes()
    }

    /// What is wrong with this informer, for health checks.
    pub fn health(&self) -> Result<(), String> {
        self.mirror.health()
    }
}

fn all_typed<K: Kind>(objects: Vec<Arc<dyn Object>>) -> Vec<Arc<K>> {
    objects.iter().filter_map(typed).collect()
}
