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

mod factory;
mod keeping;
mod packed;
mod retention;
mod store;
#[cfg(test)]
mod tests;
mod troubles;
mod versions;
mod writer;

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use kube::Resource;
use kube::api::Api;
use pintle_meta::Random;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use factory::Watching;
pub use factory::{Informers, View};
use keeping::Keeping;
pub use retention::Retention;
pub use store::IndexBy;
use store::Store;
use troubles::Troubles;
use versions::{Versions, number};

use crate::context::ClusterId;
use crate::key::Key;
use crate::moment::Moment;
use crate::reflector::{Delta, SILENCE, Selection, Source};
use crate::shutdown::Shutdown;

/// What happened to an object, as far as this informer knows.
#[derive(Debug)]
pub enum Change<K> {
    Added(Arc<K>),
    Updated {
        old: Arc<K>,
        new: Arc<K>,
    },
    /// The last state known.
    Deleted(Arc<K>),
    /// Nothing: the period has passed, and a loop may look again.
    Resync(Arc<K>),
}

impl<K: Resource> Change<K> {
    /// The object's latest state.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Change::Added(object) | Change::Deleted(object) | Change::Resync(object) => object,
            Change::Updated { new, .. } => new,
        }
    }

    /// The state before, where there was one.
    pub fn old(&self) -> Option<&Arc<K>> {
        match self {
            Change::Updated { old, .. } => Some(old),
            _ => None,
        }
    }

    pub fn key(&self) -> Key {
        Key::of(self.object().as_ref())
    }

    pub fn is_deleted(&self) -> bool {
        matches!(self, Change::Deleted(_))
    }

    pub fn is_resync(&self) -> bool {
        matches!(self, Change::Resync(_))
    }
}

/// A view of one kind, kept up to date. Cheap to clone; clones share the store.
pub struct Informer<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Informer { shared: self.shared.clone() }
    }
}

/// Keeps a handler registered; dropping it takes the handler off.
#[must_use = "dropping a registration takes its handler off"]
#[derive(Debug)]
pub struct Registration(Arc<AtomicBool>);

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

type Handler<K> = Box<dyn FnMut(&Change<K>, Option<&Arc<str>>) + Send>;

/// So many objects are offered at a time, since packed ones are decoded for it.
const BATCH: usize = 256;

/// What a resync waits before the next of them.
const RESYNC_PAUSE: Duration = Duration::from_millis(10);

struct Shared<K> {
    // Lock order: handlers before store. The store's lock is never held while a handler runs.
    handlers: Mutex<Vec<(Arc<AtomicBool>, Handler<K>)>>,
    store: RwLock<Store<K>>,
    synced: Moment,
    versions: Versions,
    cluster: ClusterId,
    path: String,
    selection: Selection,
    /// Bytes that may be kept, and whether more are.
    cap: Option<usize>,
    over: AtomicBool,
    troubles: Troubles,
    /// As last counted.
    bytes: AtomicUsize,
}

impl<K> Informer<K>
where
    K: Resource + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    /// Starts a watch of its own. Prefer [`Informers`], which shares one among all who ask.
    pub fn start(api: Api<K>, selection: Selection, resync: Duration, random: Random, shutdown: Shutdown) -> Self {
        let whose = (ClusterId::default(), None);
        let source = Source::new(api.clone(), selection.clone(), SILENCE, random);
        let informer = Informer::new(api.resource_url(), selection, &Retention::default(), whose);
        informer.follow(source, true, resync, shutdown);
        informer
    }

    /// Takes in all that the source tells, until the shutdown.
    fn follow(&self, source: Source, drops_fields: bool, resync: Duration, shutdown: Shutdown) {
        let (listed, periodic) = (self.clone(), self.clone());
        tokio::spawn(async move {
            let mirror = async {
                match drops_fields {
                    true => source.reflect_without_fields(move |delta| listed.take(delta)).await,
                    false => source.reflect(move |delta| listed.take(delta)).await,
                }
            };
            let resyncs = async {
                let mut ticks = tokio::time::interval(resync);
                ticks.tick().await;
                loop {
                    ticks.tick().await;
                    periodic.resync().await;
                }
            };
            tokio::select! {
                biased;
                () = shutdown.fired() => {}
                () = mirror => {}
                () = resyncs => {}
            }
        });
    }

    /// An informer without a watch, for tests: feed it with [`Informer::take`].
    pub fn detached() -> Self {
        Informer::new("", Selection::everything(), &Retention::default(), (ClusterId::default(), None))
    }

    fn new(
        path: &str,
        selection: Selection,
        retention: &Retention<K>,
        (cluster, cap): (ClusterId, Option<usize>),
    ) -> Self {
        Informer {
            shared: Arc::new(Shared {
                handlers: Mutex::new(Vec::new()),
                store: RwLock::new(Store::new(Keeping::new(retention), retention.project)),
                synced: Moment::default(),
                versions: Versions::default(),
                cluster,
                path: path.to_owned(),
                selection,
                cap,
                over: AtomicBool::new(false),
                troubles: Troubles::default(),
                bytes: AtomicUsize::new(0),
            }),
        }
    }
}

impl<K> Informer<K>
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    /// Takes in a change and tells the handlers.
    pub fn take(&self, delta: Delta<K>) {
        let mut handlers = self.handlers();
        let listed = matches!(delta, Delta::Replaced(_) | Delta::Listed(_));
        let version = match &delta {
            Delta::Applied(object) | Delta::Deleted(object) => number(object.meta().resource_version.as_deref()),
            Delta::Listed(version) | Delta::Bookmark(version) => number(Some(version)),
            Delta::Unreadable(object) => number(Some(&object.version)),
            Delta::Replaced(_) | Delta::Listing(_) | Delta::Page(_) | Delta::Gone(_) | Delta::Lost(_) => 0,
        };
        self.shared.troubles.note(&self.shared.path, &delta);
        let told = {
            let mut store = self.shared.store.write().unwrap_or_else(PoisonError::into_inner);
            let told = store.take(delta, !handlers.is_empty());
            self.weigh(&mut store);
            told
        };
        for (change, writer) in &told {
            tell(&mut handlers, change, writer.as_ref());
        }
        // Only now: whoever waits for the sync, or for a version, finds every key in its queue.
        self.shared.versions.advance(version);
        if listed {
            self.shared.synced.come();
        }
        // Whoever waits for its turn need not wait until what was told is taken apart.
        drop(handlers);
    }

    /// Over the cap everything is packed, which loses nothing; if that does not help, someone is told.
    fn weigh(&self, store: &mut Store<K>) {
        let (path, mut bytes) = (&self.shared.path, store.bytes());
        if let Some(cap) = self.shared.cap {
            if bytes > cap && store.pack_all() {
                tracing::warn!(%path, bytes, cap, "an informer met its cap; from now on it keeps everything packed");
                bytes = store.bytes();
            }
            let over = bytes > cap;
            if over && !self.shared.over.load(Ordering::Acquire) {
                tracing::error!(
                    %path, bytes, cap, objects = store.len(),
                    "an informer keeps more than its cap, and drops nothing: select fewer objects, project them \
                     smaller, watch metadata only, or raise the cap"
                );
            }
            self.shared.over.store(over, Ordering::Release);
        }
        self.shared.bytes.store(bytes, Ordering::Release);
    }

    /// Offers everything to the handlers again, a few at a time, so that changes come through in between.
    async fn resync(&self) {
        let mut last: Option<Key> = None;
        loop {
            {
                let mut handlers = self.handlers();
                let (objects, end) = self.read(|store| store.after(last.as_ref(), BATCH));
                for object in objects {
                    tell(&mut handlers, &Change::Resync(object), None);
                }
                if end.is_none() {
                    return;
                }
                last = end;
            }
            tokio::time::sleep(RESYNC_PAUSE).await;
        }
    }

    /// Calls the handler with everything there is, then with every change, until the registration is dropped.
    pub fn on_change(&self, mut handler: impl FnMut(&Change<K>) + Send + 'static) -> Registration {
        self.on_change_by(move |change, _| handler(change))
    }

    /// The same, with the name of who wrote the change: the manager of the newest managed fields. It is not known for
    /// what was there before the handler, for a resync, and for what a list shows to be gone.
    pub fn on_change_by(
        &self,
        mut handler: impl FnMut(&Change<K>, Option<&Arc<str>>) + Send + 'static,
    ) -> Registration {
        // Nothing changes in between: whoever takes a change in needs this lock first.
        let mut handlers = self.handlers();
        let mut last: Option<Key> = None;
        loop {
            let (objects, end) = self.read(|store| store.after(last.as_ref(), BATCH));
            objects.into_iter().for_each(|object| handler(&Change::Added(object), None));
            if end.is_none() {
                break;
            }
            last = end;
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        handlers.push((cancelled.clone(), Box::new(handler)));
        Registration(cancelled)
    }

    /// Adds an index, which [`Informer::by`] would do when it is first asked: while there are few objects, it costs nothing.
    pub fn index(&self, values_of: IndexBy<K>) {
        self.shared.store.write().unwrap_or_else(PoisonError::into_inner).index(values_of);
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read(|store| store.get(key))
    }

    /// Every object, sorted by key.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read(Store::all)
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read(|store| store.in_namespace(namespace))
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
        if let Some(found) = self.read(|store| store.by(values_of, value)) {
            return found;
        }
        self.index(values_of);
        self.read(|store| store.by(values_of, value)).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.read(Store::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_synced(&self) -> bool {
        self.shared.synced.has_come()
    }

    /// Returns once the first list is in the store and every handler has seen it.
    pub async fn synced(&self) {
        self.shared.synced.wait().await;
    }

    /// The highest resourceVersion taken in, from lists, events and bookmarks; 0 before the first, or if the server's
    /// versions are no numbers.
    pub fn version(&self) -> u64 {
        self.shared.versions.highest()
    }

    /// Returns once [`Informer::version`] is this or higher and every handler has seen it.
    pub async fn reached(&self, version: u64) {
        self.shared.versions.reached(version).await;
    }

    /// The path of the collection that is watched; empty for a detached informer.
    pub fn path(&self) -> &str {
        &self.shared.path
    }

    /// Whether what is here is known to be behind: the server no longer tells what happened since, and cannot be asked for
    /// everything anew yet.
    pub fn is_lost(&self) -> bool {
        self.shared.troubles.is_lost()
    }

    /// Why the collection cannot be listed, if it cannot.
    pub fn why_lost(&self) -> Option<String> {
        self.shared.troubles.why_lost()
    }

    /// Objects that cannot be decoded, and why. They are skipped: what is here of them is what was readable last, if anything.
    pub fn unreadable(&self) -> Vec<(Key, String)> {
        self.shared.troubles.unreadable()
    }

    pub(crate) fn cluster(&self) -> ClusterId {
        self.shared.cluster
    }

    /// Whether every object of the collection is here, since none was selected.
    pub fn is_whole(&self) -> bool {
        self.shared.selection == Selection::everything()
    }

    /// What is retained, in counted bytes: packed objects by their length, decoded ones by an estimate.
    pub fn bytes(&self) -> usize {
        self.shared.bytes.load(Ordering::Acquire)
    }

    /// What is wrong with this informer, for whoever is asked whether all is well.
    pub fn health(&self) -> Result<(), String> {
        match self.shared.cap {
            Some(cap) if self.shared.over.load(Ordering::Acquire) => Err(format!(
                "the informer of {} keeps {} bytes of {} objects, more than its cap of {cap}: select fewer objects, \
                 project them smaller, watch metadata only, or raise the cap",
                self.shared.path,
                self.bytes(),
                self.len()
            )),
            _ => Ok(()),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Store<K>) -> T) -> T {
        read(&self.shared.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<(Arc<AtomicBool>, Handler<K>)>> {
        let mut handlers = self.shared.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.retain(|(cancelled, _)| !cancelled.load(Ordering::Acquire));
        handlers
    }
}

fn tell<K>(handlers: &mut [(Arc<AtomicBool>, Handler<K>)], change: &Change<K>, writer: Option<&Arc<str>>) {
    for (cancelled, handler) in handlers {
        if !cancelled.load(Ordering::Acquire) {
            handler(change, writer);
        }
    }
}
