//! One metadata watch a deletable resource, started and stopped as resources come and go.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use pintle_runtime::cause::Wake;
use pintle_runtime::discovery::{Discoverer, Found};
use pintle_runtime::{Cause, Change, Context, Informer, Key, Registration, Selection, Trigger, Waker};

use super::SharedGraph;
use super::plan::Kind;

/// Objects whose metadata never matters here: they are many and own nothing.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

const RESYNC: Duration = Duration::from_secs(3600);

/// Resources by group and kind, to look owners up.
#[derive(Clone, Default)]
pub(super) struct Resources(Arc<RwLock<BTreeMap<Kind, Found>>>);

impl Resources {
    pub(super) fn get(&self, kind: &Kind) -> Option<Found> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
    }
}

pub(super) struct Monitors {
    context: Context,
    discoverer: Discoverer,
    graph: SharedGraph,
    waker: Waker,
    resources: Resources,
    running: BTreeMap<(String, String, String), Monitor>,
}

struct Monitor {
    informer: Informer<PartialObjectMeta<DynamicObject>>,
    _registration: Registration,
    /// Dropping it ends the watch.
    _stop: Trigger,
}

impl Monitors {
    pub(super) fn new(context: &Context, graph: SharedGraph, waker: Waker) -> Self {
        let (context, discoverer, resources) = (context.clone(), Discoverer::default(), Resources::default());
        Monitors { context, discoverer, graph, waker, resources, running: BTreeMap::new() }
    }

    pub(super) fn resources(&self) -> Resources {
        self.resources.clone()
    }

    /// Asks the server what there is, and watches exactly that.
    pub(super) async fn refresh(&mut self) -> Result<(), kube::Error> {
        let Some(found) = self.discoverer.discover(&self.context.client).await? else { return Ok(()) };
        let by_kind = found.iter().map(|found| (Kind::of(&found.resource), found.clone())).collect();
        *self.resources.0.write().unwrap_or_else(PoisonError::into_inner) = by_kind;

        let ignored =
            |found: &Found| IGNORED.contains(&(found.resource.group.as_str(), found.resource.plural.as_str()));
        let watched = found.into_iter().filter(|found| ["delete", "list", "watch"].iter().all(|verb| found.can(verb)));
        let wanted: BTreeMap<_, Found> =
            watched.filter(|found| !ignored(found)).map(|found| (identity(&found), found)).collect();
        self.running.retain(|identity, _| wanted.contains_key(identity));
        for (identity, found) in wanted {
            if !self.running.contains_key(&identity) {
                let monitor = self.start(&found);
                self.running.insert(identity, monitor);
            }
        }
        Ok(())
    }

    fn start(&self, found: &Found) -> Monitor {
        let (stop, shutdown) = self.context.shutdown.child();
        let api = Api::all_with(self.context.client.clone(), &found.resource);
        let random = self.context.random.clone();
        let informer = Informer::start(api, Selection::everything(), RESYNC, random, shutdown);
        let (graph, waker, kind) = (self.graph.clone(), self.waker.clone(), Kind::of(&found.resource));
        let registration = informer.on_change(move |change: &Change<PartialObjectMeta<DynamicObject>>| {
            let meta = &change.object().metadata;
            let woken = graph.with(|graph| match change.is_deleted() {
                true => graph.remove(meta.uid.as_deref().unwrap_or_default()),
                false => graph.observe(&kind, meta),
            });
            let wake = if change.is_deleted() { Wake::Deleted } else { Wake::Updated };
            for uid in woken {
                waker.wake(Key::cluster(uid), Cause::named(wake, &kind.group, &kind.kind, meta));
            }
        });
        Monitor { informer, _registration: registration, _stop: stop }
    }

    /// Comes to pass when every resource that is watched now has been listed.
    pub(super) fn synced(&self) -> BoxFuture<'static, ()> {
        let informers: Vec<_> = self.running.values().map(|monitor| monitor.informer.clone()).collect();
        async move { drop(join_all(informers.iter().map(Informer::synced)).await) }.boxed()
    }
}

fn identity(found: &Found) -> (String, String, String) {
    let resource = &found.resource;
    (resource.group.clone(), resource.version.clone(), resource.plural.clone())
}
