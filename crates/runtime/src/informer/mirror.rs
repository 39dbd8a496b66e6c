//! A shared informer that does not know its kind: one watch, one store, any number of handlers and indexes.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use pintle_kinds::{Codec, Object};
use tokio::time::Instant;

use super::change::Change;
use super::factory::View;
use super::keeping::Keeping;
use super::retention::Projection;
use super::store::{Store, ValuesOf};
use super::troubles::Troubles;
use super::versions::{Versions, number};
use crate::cause::Cause;
use crate::context::ClusterId;
use crate::key::Key;
use crate::moment::Moment;
use crate::owner::GroupKind;
use crate::reflector::{Anew, Delta, Selection, Source};
use crate::shutdown::Shutdown;

/// Keeps a handler registered; dropping it takes the handler off.
#[must_use = "dropping a registration takes its handler off"]
#[derive(Debug)]
pub struct Registration(Arc<AtomicBool>);

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A change as handlers are told of it.
pub(crate) struct Event<'a> {
    pub(crate) change: &'a Change<dyn Object>,
    /// The manager of the newest managed fields. It is not known for what was there before the handler, for a resync, and for
    /// what a list shows to be gone.
    pub(crate) writer: Option<&'a Arc<str>>,
    of: &'a What,
    /// Made when the first handler asks, for all of them.
    cause: OnceCell<Cause>,
}

impl Event<'_> {
    /// The change as a reason to look at a key.
    pub(crate) fn cause(&self) -> Cause {
        let make = || Cause::of_change(self.change, self.writer, (&self.of.kind, self.of.codec));
        self.cause.get_or_init(make).clone()
    }
}

type Handler = Box<dyn FnMut(&Event<'_>) + Send>;

/// So many objects are offered at a time, since packed ones are decoded for it.
const BATCH: usize = 256;

/// What a resync waits before the next of them.
const RESYNC_PAUSE: Duration = Duration::from_millis(10);

/// What is watched.
pub(super) struct What {
    pub(super) kind: Arc<GroupKind>,
    pub(super) codec: &'static Codec,
    pub(super) path: String,
    /// The path of the objects of all namespaces.
    pub(super) collection: String,
    pub(super) selection: Selection,
    pub(super) cluster: ClusterId,
}

impl What {
    /// Objects of a kind that has no name here.
    pub(super) fn unnamed(codec: &'static Codec, path: &str, selection: Selection) -> Self {
        let (path, collection) = (path.to_owned(), path.to_owned());
        What { kind: Arc::default(), codec, path, collection, selection, cluster: ClusterId::default() }
    }
}

/// The store, who is told of its changes, and how far it has come.
pub(crate) struct Mirror {
    // Lock order: handlers before store. The store's lock is never held while a handler runs.
    handlers: Mutex<Vec<(Arc<AtomicBool>, Handler)>>,
    store: RwLock<Store>,
    synced: Moment,
    versions: Versions,
    anew: Arc<Anew>,
    what: What,
    /// Bytes that may be kept, and whether more are.
    cap: Option<usize>,
    over: AtomicBool,
    troubles: Troubles,
    /// As last counted.
    bytes: AtomicUsize,
}

impl Mirror {
    /// Keeps so many estimated bytes of objects decoded.
    pub(super) fn new(what: What, projection: Option<Projection>, decoded: usize, cap: Option<usize>) -> Self {
        Mirror {
            handlers: Mutex::new(Vec::new()),
            store: RwLock::new(Store::new(Keeping::new(what.codec, decoded), projection)),
            synced: Moment::default(),
            versions: Versions::default(),
            anew: Arc::default(),
            what,
            cap,
            over: AtomicBool::new(false),
            troubles: Troubles::default(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Takes in all that the source tells, until the shutdown.
    pub(super) fn follow(self: &Arc<Self>, source: Source, resync: Duration, shutdown: Shutdown) {
        let (listed, periodic) = (self.clone(), self.clone());
        let source = source.anew_when(self.anew.clone());
        tokio::spawn(async move {
            let mirror = source.reflect(Arc::new(move |delta| listed.take(delta)));
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

    /// Takes in a change and tells the handlers.
    pub(super) fn take(&self, delta: Delta) {
        let mut handlers = self.handlers();
        let listed = matches!(delta, Delta::Replaced(_) | Delta::Listed(_));
        let version = match &delta {
            Delta::Applied(seen) | Delta::Deleted(seen) => number(seen.meta().resource_version.as_deref()),
            Delta::Listed(version) | Delta::Bookmark(version) => number(Some(version)),
            Delta::Unreadable(object) => number(Some(&object.version)),
            Delta::Replaced(_) | Delta::Listing(_) | Delta::Page(_) | Delta::Gone(_) | Delta::Lost(_) => 0,
        };
        self.troubles.note(&self.what.path, &delta);
        let told = {
            let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
            let told = store.take(delta, !handlers.is_empty());
            self.weigh(&mut store);
            told
        };
        for (change, writer) in &told {
            self.tell(&mut handlers, change, writer.as_ref());
        }
        // Only now: a task that waits for the sync, or for a version, finds every key in its queue.
        self.versions.advance(version);
        if listed {
            self.synced.come();
        }
        // The lock is released before what was told is taken apart.
        drop(handlers);
    }

    /// Over the cap everything is packed, which loses nothing; if that does not help, someone is told.
    fn weigh(&self, store: &mut Store) {
        let (path, mut bytes) = (&self.what.path, store.bytes());
        if let Some(cap) = self.cap {
            if bytes > cap && store.pack_all() {
                tracing::warn!(%path, bytes, cap, "an informer met its cap; from now on it keeps everything packed");
                bytes = store.bytes();
            }
            let over = bytes > cap;
            if over && !self.over.load(Ordering::Acquire) {
                tracing::error!(
                    %path, bytes, cap, objects = store.len(),
                    "an informer keeps more than its cap, and drops nothing: select fewer objects, project them \
                     smaller, watch metadata only, or raise the cap"
                );
            }
            self.over.store(over, Ordering::Release);
        }
        self.bytes.store(bytes, Ordering::Release);
    }

    /// Offers everything to the handlers again, a few at a time, so that changes come through in between.
    pub(super) async fn resync(&self) {
        let mut last: Option<Key> = None;
        loop {
            {
                let mut handlers = self.handlers();
                let (objects, end) = self.read(|store| store.after(last.as_ref(), BATCH));
                for object in objects {
                    self.tell(&mut handlers, &Change::Resync(object), None);
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
    pub(crate) fn on_event(&self, mut handler: Handler) -> Registration {
        // Nothing changes in between: taking a change in needs this lock first.
        let mut handlers = self.handlers();
        let mut last: Option<Key> = None;
        loop {
            let (objects, end) = self.read(|store| store.after(last.as_ref(), BATCH));
            for object in objects {
                handler(&self.event(&Change::Added(object), None));
            }
            if end.is_none() {
                break;
            }
            last = end;
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        handlers.push((cancelled.clone(), handler));
        Registration(cancelled)
    }

    pub(super) fn index(&self, name: usize, values_of: ValuesOf) {
        self.store.write().unwrap_or_else(PoisonError::into_inner).index(name, values_of);
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<dyn Object>> {
        self.read(|store| store.get(key))
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced.has_come()
    }

    pub(crate) async fn synced(&self) {
        self.synced.wait().await;
    }

    pub(crate) fn version(&self) -> u64 {
        self.versions.highest()
    }

    pub(super) async fn reached(&self, version: u64) {
        self.versions.reached(version).await;
    }

    /// Has everything listed anew: the watch does not show what is known to have been written.
    pub(crate) fn list_anew(&self) {
        self.anew.want();
    }

    /// Everything that was written before this moment is here.
    pub(crate) fn covers(&self) -> Option<Instant> {
        self.anew.covers()
    }

    pub(crate) fn kind(&self) -> &Arc<GroupKind> {
        &self.what.kind
    }

    pub(crate) fn path(&self) -> &str {
        &self.what.path
    }

    /// The path of the objects of all namespaces, also where those of one are watched.
    pub(crate) fn collection(&self) -> &str {
        &self.what.collection
    }

    pub(super) fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.troubles.is_lost()
    }

    pub(crate) fn cluster(&self) -> ClusterId {
        self.what.cluster
    }

    /// Whether every object of the collection is here, since none was selected.
    pub(crate) fn is_whole(&self) -> bool {
        self.what.selection == Selection::everything()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    pub(super) fn health(&self) -> Result<(), String> {
        match self.cap {
            Some(cap) if self.over.load(Ordering::Acquire) => Err(format!(
                "the informer of {} keeps {} bytes of {} objects, more than its cap of {cap}: select fewer objects, \
                 project them smaller, watch metadata only, or raise the cap",
                self.what.path,
                self.bytes(),
                self.read(Store::len)
            )),
            _ => Ok(()),
        }
    }

    /// How it is doing.
    pub(super) fn view(&self) -> View {
        View {
            path: self.what.path.clone(),
            is_synced: self.is_synced(),
            why_lost: self.troubles.why_lost(),
            unreadable: self.troubles.unreadable().len(),
        }
    }

    fn event<'a>(&'a self, change: &'a Change<dyn Object>, writer: Option<&'a Arc<str>>) -> Event<'a> {
        Event { change, writer, of: &self.what, cause: OnceCell::new() }
    }

    fn tell(
        &self,
        handlers: &mut [(Arc<AtomicBool>, Handler)],
        change: &Change<dyn Object>,
        writer: Option<&Arc<str>>,
    ) {
        let event = self.event(change, writer);
        for (cancelled, handler) in handlers {
            if !cancelled.load(Ordering::Acquire) {
                handler(&event);
            }
        }
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<(Arc<AtomicBool>, Handler)>> {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.retain(|(cancelled, _)| !cancelled.load(Ordering::Acquire));
        handlers
    }
}
