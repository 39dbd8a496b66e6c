//! A shared informer: one watch, one store, any number of handlers and indexes.
//!
//! - Handlers are called one change at a time, in the server's order, and must not block: they add keys to queues.
//! - A handler sees the store as it is after its change, or newer, never older.
//! - A handler that joins late is first given everything there is as `Added`, then the tail: nothing twice, nothing
//!   missed.
//! - Handlers may read any store. They may not register handlers on the informer that is calling them.

mod factory;
mod store;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use kube::Resource;
use kube::api::Api;
use pintle_meta::Random;
use serde::de::DeserializeOwned;

pub use factory::Informers;
use store::Store;

use crate::key::Key;
use crate::moment::Moment;
use crate::reflector::{Delta, Selection, reflect};
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

type Handler<K> = Box<dyn FnMut(&Change<K>) + Send>;

struct Shared<K> {
    // Lock order: handlers before store. The store's lock is never held while a handler runs.
    handlers: Mutex<Vec<(Arc<AtomicBool>, Handler<K>)>>,
    store: RwLock<Store<K>>,
    synced: Moment,
}

impl<K> Informer<K>
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    /// Starts a watch of its own. Prefer [`Informers`], which shares one among all who ask.
    pub fn start(api: Api<K>, selection: Selection, resync: Duration, random: Random, shutdown: Shutdown) -> Self {
        let informer = Informer::detached();
        let (listed, periodic) = (informer.clone(), informer.clone());
        tokio::spawn(async move {
            let mirror = reflect(api, selection, random, |delta| listed.take(delta));
            let resyncs = async {
                let mut ticks = tokio::time::interval(resync);
                ticks.tick().await;
                loop {
                    ticks.tick().await;
                    periodic.resync();
                }
            };
            tokio::select! {
                biased;
                () = shutdown.fired() => {}
                () = mirror => {}
                () = resyncs => {}
            }
        });
        informer
    }

    /// An informer without a watch, for tests: feed it with [`Informer::take`].
    pub fn detached() -> Self {
        Informer {
            shared: Arc::new(Shared {
                handlers: Mutex::new(Vec::new()),
                store: RwLock::new(Store::new()),
                synced: Moment::default(),
            }),
        }
    }

    /// Takes in a change and tells the handlers.
    pub fn take(&self, delta: Delta<K>) {
        let mut handlers = self.handlers();
        let listed = matches!(delta, Delta::Replaced(_));
        let changes = self.shared.store.write().unwrap_or_else(PoisonError::into_inner).take(delta);
        for change in &changes {
            tell(&mut handlers, change);
        }
        // Only now: whoever waits for the sync finds every key of the first list in its queue.
        if listed {
            self.shared.synced.come();
        }
    }

    fn resync(&self) {
        let mut handlers = self.handlers();
        for object in self.all() {
            tell(&mut handlers, &Change::Resync(object));
        }
    }

    /// Calls the handler with everything there is, then with every change, until the registration is dropped.
    pub fn on_change(&self, mut handler: impl FnMut(&Change<K>) + Send + 'static) -> Registration {
        let mut handlers = self.handlers();
        for object in self.all() {
            handler(&Change::Added(object));
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        handlers.push((cancelled.clone(), Box::new(handler)));
        Registration(cancelled)
    }

    /// Adds a named index unless it is there; `by_index` then finds objects by what the function returns.
    pub fn add_index(&self, name: &'static str, values_of: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) {
        self.shared.store.write().unwrap_or_else(PoisonError::into_inner).add_index(name, Arc::new(values_of));
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

    pub fn by_index(&self, index: &str, value: &str) -> Vec<Arc<K>> {
        self.read(|store| store.by_index(index, value))
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

    fn read<T>(&self, read: impl FnOnce(&Store<K>) -> T) -> T {
        read(&self.shared.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<(Arc<AtomicBool>, Handler<K>)>> {
        let mut handlers = self.shared.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.retain(|(cancelled, _)| !cancelled.load(Ordering::Acquire));
        handlers
    }
}

fn tell<K>(handlers: &mut [(Arc<AtomicBool>, Handler<K>)], change: &Change<K>) {
    for (cancelled, handler) in handlers {
        if !cancelled.load(Ordering::Acquire) {
            handler(change);
        }
    }
}
