//! Counts what a quota is about and writes how much of it is used.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use pintle_rules::Amounts;
use pintle_rules::quota::Evaluator;
use pintle_runtime::error::{ApiError, ignore_not_found};
use pintle_runtime::{Action, Attempt, Clock, Context, Error, Key, Objects, Reconciler};
use serde_json::{Value, json};

use super::monitors::Resources;
use super::plan;

/// Some usage ends with time alone: that of Pods which should have been gone by now.
const COUNT_AGAIN: Duration = Duration::from_secs(300);

/// How often a count is made again at once because something was created meanwhile.
const ROUNDS: usize = 3;

/// So many objects are listed at a time.
const PAGE: u32 = 500;

pub(super) struct Quotas {
    client: Client,
    clock: Clock,
    resources: Resources,
}

impl Quotas {
    pub(super) fn new(context: &Context, resources: Resources) -> Self {
        Quotas { client: context.client.clone(), clock: context.clock.clone(), resources }
    }

    /// What is used now. Objects are listed anew: a cache could be older than the quota, whose charges it would undo.
    async fn count(&self, quota: &ResourceQuota, namespace: &str) -> Result<Amounts, Error> {
        let (hard, scopes) = (plan::hard(quota), plan::scopes_of(quota));
        let mut counted = Amounts::default();
        for evaluator in plan::evaluators(&hard) {
            let Some(resource) = self.resource_of(&evaluator) else { continue };
            let objects = self.list(&evaluator, &resource, namespace).await?;
            counted.add(&plan::used_by(objects.iter(), &evaluator, (&hard, &scopes), self.clock.now()));
        }
        Ok(counted)
    }

    fn resource_of(&self, evaluator: &Evaluator) -> Option<ApiResource> {
        let core = |kind: &str| ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: evaluator.resource().to_owned(),
        };
        match (evaluator.group(), evaluator.resource()) {
            ("", "pods") => Some(core("Pod")),
            ("", "services") => Some(core("Service")),
            ("", "persistentvolumeclaims") => Some(core("PersistentVolumeClaim")),
            ("", "resourcequotas") => Some(core("ResourceQuota")),
            (group, plural) => self.resources.get(group, plural),
        }
    }

    /// Every object of a resource in the namespace; only its metadata if that is enough.
    async fn list(&self, evaluator: &Evaluator, resource: &ApiResource, namespace: &str) -> Result<Vec<Value>, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, resource);
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let next = if evaluator.counts_existence() {
                let page = api.list_metadata(&params).await?;
                objects.extend(page.items.iter().map(|_| Value::Null));
                page.metadata.continue_
            } else {
                let page = api.list(&params).await?;
                objects.extend(page.items.iter().filter_map(|object| serde_json::to_value(object).ok()));
                page.metadata.continue_
            };
            match next.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }
}

impl Reconciler for Quotas {
    async fn reconcile(&self, key: &Key, attempt: &Attempt) -> Result<Action, Error> {
        let api: Objects<ResourceQuota> = Objects::namespaced(attempt.client(), key.namespace());
        for _ in 0..ROUNDS {
            let Some(quota) = ignore_not_found(api.get(key.name()).await)? else { return Ok(Action::done()) };
            let counted = self.count(&quota, key.namespace()).await?;
            let Some(status) = plan::status(&quota, &counted) else { return Ok(Action::requeue_after(COUNT_AGAIN)) };
            let told = ResourceQuota { status: Some(status), ..quota };
            // At the version that was read before the count: whatever was created since has changed it.
            match api.replace_status(key.name(), &PostParams::default(), &told).await {
                Ok(_) => return Ok(Action::requeue_after(COUNT_AGAIN)),
                Err(error) if error.is_not_found() => return Ok(Action::done()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.hold_back(&api, key).await?;
        Err(Error::Stale)
    }
}

impl Quotas {
    /// More is created than can be counted: limits without a count hold everything back until it is done.
    async fn hold_back(&self, api: &Objects<ResourceQuota>, key: &Key) -> Result<(), Error> {
        let Some(quota) = ignore_not_found(api.get(key.name()).await)? else { return Ok(()) };
        if plan::is_uncounted(&quota) {
            let limits = Patch::Merge(json!({"status": {"hard": plan::hard(&quota).to_value()}}));
            ignore_not_found(api.patch_status(key.name(), &PatchParams::default(), &limits).await)?;
        }
        Ok(())
    }
}
