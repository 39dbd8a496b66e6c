//! One watch per kind and selection, however many loops ask for it.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use pintle_kinds::Kind;
use pintle_meta::Random;

use super::mirror::{Mirror, What};
use super::{Informer, Retention};
use crate::context::ClusterId;
use crate::owner::GroupKind;
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
    streams: bool,
    cluster: ClusterId,
    /// The one namespace that is watched; none for all.
    namespace: Option<Arc<str>>,
    shutdown: Shutdown,
    started: Arc<Started>,
}

type Started = Mutex<BTreeMap<Identity, Arc<Mirror>>>;

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
    started.values().map(|mirror| mirror.view()).collect()
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
            streams: false,
            cluster: ClusterId::default(),
            namespace: None,
            shutdown,
            started: Arc::default(),
        }
    }

    /// Informers not yet started are of this cluster.
    pub(crate) fn in_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = cluster;
        self
    }

    /// Namespaced kinds are watched in one namespace alone, for which a Role is enough; others as before. Both hand out the same
    /// informers of those.
    pub(crate) fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
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

    /// Informers not yet started ask for their lists as watches (Kubernetes' streaming lists), which spares a large server memory. A
    /// server that does not stream is listed in pages.
    pub fn with_streaming_lists(mut self) -> Self {
        self.streams = true;
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

    /// Every object of a kind, in all namespaces, or in the one of the context.
    pub fn of<K>(&self) -> Informer<K>
    where
        K: Kind<DynamicType = ()>,
    {
        self.select(Selection::everything())
    }

    /// The objects of a kind that a selection picks.
    pub fn select<K>(&self, selection: Selection) -> Informer<K>
    where
        K: Kind<DynamicType = ()>,
    {
        self.retain(selection, Retention::default())
    }

    /// The same, of which not the default is kept.
    pub fn retain<K>(&self, selection: Selection, retention: Retention<K>) -> Informer<K>
    where
        K: Kind<DynamicType = ()>,
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

    fn with<K: Kind>(
        &self,
        dynamic_type: &K::DynamicType,
        selection: Selection,
        retention: &Retention<K>,
    ) -> Informer<K> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let is_namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
        let namespace = self.namespace.as_deref().filter(|_| is_namespaced);
        let (collection, path) = (K::url_path(dynamic_type, None), K::url_path(dynamic_type, namespace));
        let identity = (TypeId::of::<K>(), path.clone(), selection.clone(), retention.name, retention.decoded);
        if let Some(mirror) = started.get(&identity) {
            return Informer { mirror: mirror.clone(), kind: PhantomData };
        }
        let from = (self.client.clone(), path.clone());
        let mut source = Source::of::<K>(from, selection.clone(), self.silence, self.random.clone());
        source = source.streaming(self.streams);
        if retention.drops_fields {
            source = source.without_managed_fields();
        }
        let kind = Arc::new(GroupKind::of_dynamic::<K>(dynamic_type));
        let what = What { kind, codec: K::CODEC, path, collection, selection, cluster: self.cluster };
        let informer = Informer::new(what, retention, self.cap);
        informer.mirror.follow(source, self.resync, self.shutdown.clone());
        started.insert(identity, informer.mirror.clone());
        informer
    }
}
