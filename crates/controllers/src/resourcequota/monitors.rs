//! Which resources there are that quotas name, and one watch of metadata for each of those that are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use pintle_runtime::discovery::discover;
use pintle_runtime::{Change, Context, Informer, Key, Registration, Selection, Trigger, Waker};

use super::plan;

const RESYNC: Duration = Duration::from_secs(3600);

/// Resources by group and plural, as far as quotas name them and they are there.
#[derive(Clone, Default)]
pub(super) struct Resources(Arc<RwLock<BTreeMap<(String, String), ApiResource>>>);

impl Resources {
    pub(super) fn get(&self, group: &str, plural: &str) -> Option<ApiResource> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&(group.to_owned(), plural.to_owned())).cloned()
    }
}

pub(super) struct Monitors {
    context: Context,
    quotas: Informer<ResourceQuota>,
    waker: Waker,
    resources: Resources,
    running: BTreeMap<(String, String), Monitor>,
}

struct Monitor {
    _informer: Informer<PartialObjectMeta<DynamicObject>>,
    _registration: Registration,
    /// Dropping it ends the watch.
    _stop: Trigger,
}

impl Monitors {
    pub(super) fn new(context: &Context, quotas: Informer<ResourceQuota>, waker: Waker) -> Self {
        Monitors { context: context.clone(), quotas, waker, resources: Resources::default(), running: BTreeMap::new() }
    }

    pub(super) fn resources(&self) -> Resources {
        self.resources.clone()
    }

    /// Watches exactly what the quotas name. Quotas that name something new are counted again.
    pub(super) async fn refresh(&mut self) -> Result<(), kube::Error> {
        self.quotas.synced().await;
        let quotas = self.quotas.all();
        let named: BTreeSet<(String, String)> = quotas.iter().flat_map(|quota| plan::named(quota)).collect();
        if named.is_empty() {
            self.running.clear();
            return Ok(());
        }
        let found = discover(&self.context.client).await?;
        let countable = found.into_iter().filter(|found| found.namespaced && found.can("list") && found.can("watch"));
        let identified =
            countable.map(|found| ((found.resource.group.clone(), found.resource.plural.clone()), found.resource));
        let wanted: BTreeMap<_, ApiResource> = identified.filter(|(identity, _)| named.contains(identity)).collect();
        let known = {
            let mut known = self.resources.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *known, wanted.clone())
        };
        self.running.retain(|identity, _| known.get(identity) == wanted.get(identity));
        for (identity, resource) in &wanted {
            if !self.running.contains_key(identity) {
                let monitor = self.start(resource);
                self.running.insert(identity.clone(), monitor);
            }
        }
        for quota in quotas {
            let is_new = |identity: &(String, String)| wanted.contains_key(identity) && !known.contains_key(identity);
            if plan::named(&quota).iter().any(is_new) {
                self.waker.add(Key::of(quota.as_ref()));
            }
        }
        Ok(())
    }

    fn start(&self, resource: &ApiResource) -> Monitor {
        let (stop, shutdown) = self.context.shutdown.child();
        let api = Api::all_with(self.context.client.clone(), resource);
        let informer = Informer::start(api, Selection::everything(), RESYNC, self.context.random.clone(), shutdown);
        let (quotas, waker) = (self.quotas.clone(), self.waker.clone());
        let registration = informer.on_change(move |change: &Change<PartialObjectMeta<DynamicObject>>| {
            if change.is_deleted() {
                let keys = super::all_of(&quotas, change.key().namespace());
                keys.into_iter().for_each(|key| waker.add(key));
            }
        });
        Monitor { _informer: informer, _registration: registration, _stop: stop }
    }
}
