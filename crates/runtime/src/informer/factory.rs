//! One watch a kind and selection, however many loops ask for it.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource};
use pintle_meta::Random;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Informer, Retention};
use crate::context::ClusterId;
use crate::reflector::{SILENCE, Selection, Source};
use crate::shutdown::Shutdown;

/// How often every object is offered to the handlers again.
const RESYNC: Duration = Duration::from_secs(300);

/// Hands out shared informers; an informer starts when it is first asked for and runs until the shutdown.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    random: Random,
    resync: Duration,
    silence: Duration,
    cap: Option<usize>,
    cluster: ClusterId,
    shutdown: Shutdown,
    started: Arc<Started>,
}

type Started = Mutex<BTreeMap<Identity, Running>>;

/// An informer at work, with a view of it that does not know its kind.
struct Running {
    informer: Box<dyn Any + Send>,
    view: Box<dyn Fn() -> View + Send>,
}

/// How an informer is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The path of the collection.
    pub path: String,
    pub is_synced: bool,
    /// Why it cannot be listed, if it cannot.
    pub why_lost: Option<String>,
    /// How many objects cannot be decoded.
    pub unreadable: usize,
}

/// The informers of a context, for as long as there are any.
#[derive(Clone)]
pub(crate) struct Watching(Weak<Started>);

impl Watching {
    /// Nothing if they are gone.
    pub(crate) fn all(&self) -> Option<Vec<View>> {
        self.0.upgrade().map(|started| views(&started))
    }
}

fn views(started: &Started) -> Vec<View> {
    let started = started.lock().unwrap_or_else(PoisonError::into_inner);
    started.values().map(|running| (running.view)()).collect()
}

/// The type is part of it because one path is served as a whole object and as metadata only; the retention is, by name
/// and budget, because what one keeps another may lack.
type Identity = (TypeId, String, Selection, &'static str, usize);

impl Informers {
    pub fn new(client: Client, random: Random, shutdown: Shutdown) -> Self {
        Informers {
            client,
            random,
            resync: RESYNC,
            silence: SILENCE,
            cap: None,
            cluster: ClusterId::default(),
            shutdown,
            started: Arc::default(),
        }
    }

    /// Informers not yet started are of this cluster.
    pub(crate) fn in_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = cluster;
        self
    }

    /// Another period for informers not yet started.
    pub fn with_resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// The server is in this process: who says nothing has nothing to say, and no watch of informers not yet started is taken
    /// for dead.
    pub fn in_process(mut self) -> Self {
        self.silence = Duration::MAX;
        self
    }

    /// How many bytes each informer not yet started may keep. One that needs more packs everything; if that is still too
    /// much, it says so in the log and in [`Informer::health`], and goes on: it never drops an object.
    pub fn with_cap(mut self, bytes: usize) -> Self {
        self.cap = Some(bytes);
        self
    }

    /// How every informer that was asked for is doing.
    pub fn views(&self) -> Vec<View> {
        views(&self.started)
    }

    pub(crate) fn watching(&self) -> Watching {
        Watching(Arc::downgrade(&self.started))
    }

    /// Every object of a kind, in all namespaces.
    pub fn of<K>(&self) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    {
        self.select(Selection::everything())
    }

    /// The objects of a kind that a selection picks.
    pub fn select<K>(&self, selection: Selection) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    {
        self.retain(selection, Retention::default())
    }

    /// The same, of which not the default is kept.
    pub fn retain<K>(&self, selection: Selection, retention: Retention<K>) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    {
        self.with(&(), selection, &retention)
    }

    /// A kind known only at run time.
    pub fn dynamic(&self, resource: &ApiResource) -> Informer<DynamicObject> {
        self.with(resource, Selection::everything(), &Retention::default())
    }

    /// A kind known only at run time, of which only the metadata is sent and kept. It is for many objects of which few are
    /// read: nearly all of them are packed.
    pub fn metadata(&self, resource: &ApiResource) -> Informer<PartialObjectMeta<DynamicObject>> {
        self.with(resource, Selection::everything(), &Retention::default())
    }

    fn with<K>(&self, dynamic_type: &K::DynamicType, selection: Selection, retention: &Retention<K>) -> Informer<K>
    where
        K: Resource + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
    {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let path = K::url_path(dynamic_type, None);
        let identity = (TypeId::of::<K>(), path, selection.clone(), retention.name, retention.decoded);
        let running = started.get(&identity);
        if let Some(informer) = running.and_then(|running| running.informer.downcast_ref::<Informer<K>>()) {
            return informer.clone();
        }
        let api: Api<K> = Api::all_with(self.client.clone(), dynamic_type);
        let informer = Informer::new(api.resource_url(), selection.clone(), retention, (self.cluster, self.cap));
        let source = Source::new(api, selection, self.silence, self.random.clone());
        informer.follow(source, retention.drops_fields, self.resync, self.shutdown.clone());
        let viewed = informer.clone();
        let view = Box::new(move || View {
            path: viewed.path().to_owned(),
            is_synced: viewed.is_synced(),
            why_lost: viewed.why_lost(),
            unreadable: viewed.unreadable().len(),
        });
        started.insert(identity, Running { informer: Box::new(informer.clone()), view });
        informer
    }
}
