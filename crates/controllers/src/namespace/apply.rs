//! Empties a namespace: asks what there may be in it, deletes that, looks what is left, and lets the namespace go.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};
use pintle_runtime::discovery::{Found, discover, stale};
use pintle_runtime::{Action, Attempt, Clock, Context, Error, Informer, Key, Objects, Reconciler, error};

use super::plan::{self, Findings, Next};

pub(super) struct Emptier {
    client: Client,
    clock: Clock,
    namespaces: Informer<Namespace>,
}

impl Reconciler for Emptier {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        if self.namespaces.get(key).is_none() {
            return Ok(Action::done());
        }
        let api: Objects<Namespace> = Objects::all(self.client.clone());
        // The latest, not the cache's: what follows cannot be undone.
        let Some(mut namespace) = api.get_opt(key.name()).await? else { return Ok(Action::done()) };
        let Some(deleted_at) = namespace.metadata.deletion_timestamp.clone() else { return Ok(Action::done()) };
        if namespace.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Terminating") {
            namespace.status.get_or_insert_default().phase = Some("Terminating".into());
            namespace = api.replace_status(key.name(), &PostParams::default(), &namespace).await?;
        }
        if plan::is_finalized(&namespace) {
            return Ok(Action::done());
        }
        let findings = self.empty(key.name(), deleted_at.0).await;
        if let Some(conditions) = findings.conditions(&namespace, self.clock.now()) {
            namespace.status.get_or_insert_default().conditions = Some(conditions);
            namespace = api.replace_status(key.name(), &PostParams::default(), &namespace).await?;
        }
        match findings.next() {
            Next::Fail(message) => Err(Error::Invalid(message)),
            Next::Wait(delay) => Ok(Action::requeue_after(delay)),
            Next::Finalize => {
                let finalized = plan::finalized(&namespace);
                let result = api.replace_subresource("finalize", key.name(), &PostParams::default(), &finalized).await;
                error::ignore_not_found(result)?;
                Ok(Action::done())
            }
        }
    }
}

impl Emptier {
    pub(super) fn new(context: &Context, namespaces: Informer<Namespace>) -> Self {
        Emptier { client: context.client.clone(), clock: context.clock.clone(), namespaces }
    }

    /// One pass: Pods first, and everything else once none is left.
    async fn empty(&self, namespace: &str, deleted_at: jiff::Timestamp) -> Findings {
        let mut findings = Findings::default();
        let resources = match discover(&self.client).await {
            Ok(resources) => resources,
            Err(error) => {
                findings.discovery_error = Some(error.to_string());
                return findings;
            }
        };
        findings.discovery_error = match stale(&self.client).await {
            Ok(stale) => plan::undiscovered(&stale),
            Err(error) => Some(error.to_string()),
        };
        let deletable = resources.iter().filter(|found| found.namespaced && found.can("delete"));
        let (pods, others): (Vec<&Found>, Vec<&Found>) =
            deletable.partition(|found| found.resource.group.is_empty() && found.resource.plural == "pods");
        for found in pods {
            let grace = match self.pods_grace(namespace, deleted_at).await {
                Ok(grace) => grace,
                Err(error) => {
                    findings.deletion_errors.push(error.to_string());
                    return findings;
                }
            };
            findings.only_pods = self.delete_all(&mut findings, found, namespace, grace).await;
            if findings.only_pods {
                return findings;
            }
        }
        for found in others {
            self.delete_all(&mut findings, found, namespace, 0).await;
        }
        findings
    }

    async fn pods_grace(&self, namespace: &str, deleted_at: jiff::Timestamp) -> Result<u64, kube::Error> {
        let pods: Objects<Pod> = Objects::namespaced(self.client.clone(), namespace);
        let running = pods.list(&ListParams::default()).await?;
        Ok(plan::grace_of(&running, deleted_at, self.clock.now()))
    }

    /// Deletes every object of a resource and notes what is left; true if something is.
    async fn delete_all(&self, findings: &mut Findings, found: &Found, namespace: &str, grace: u64) -> bool {
        match self.deleted(found, namespace).await {
            Ok(left) => {
                findings.note(&found.resource.plural, &found.resource.group, &left, grace);
                !left.is_empty()
            }
            Err(error) => {
                findings.deletion_errors.push(format!("{}: {error}", found.resource.plural));
                true
            }
        }
    }

    async fn deleted(&self, found: &Found, namespace: &str) -> Result<Vec<ObjectMeta>, kube::Error> {
        if !found.can("list") {
            return Ok(Vec::new());
        }
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), namespace, &found.resource);
        // Most resources have nothing in most namespaces: one look is cheaper than a deletion.
        let present = api.list(&ListParams::default()).await?.items;
        if present.is_empty() {
            return Ok(Vec::new());
        }
        let background = DeleteParams::background();
        if found.can("deletecollection") {
            error::ignore_not_found(api.delete_collection(&background, &ListParams::default()).await)?;
        } else {
            for object in &present {
                error::ignore_not_found(api.delete(&object.name_any(), &background).await)?;
            }
        }
        Ok(api.list(&ListParams::default()).await?.items.into_iter().map(|object| object.metadata).collect())
    }
}
