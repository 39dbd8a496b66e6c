//! What the cluster has to say about a write or a connection: one ordered list of plugins behind one interface.
//!
//! - First each plugin may change the object, in the order of [`plugins`]; then, when nothing changes any more, each may refuse
//!   it. Every write passes, and every connection to a Pod, a Service or a node.
//! - A subresource shows its own object: a Scale, a Binding, an Eviction, a TokenRequest, PodExecOptions.
//! - A plugin is one file and one line in [`plugins`]. CONTRIBUTING.md has the checklist. Which are on is said by [`Setup`].

mod account;
mod certificates;
mod definitions;
mod external_ips;
mod ingress_class;
mod limits;
mod namespaces;
mod node_restriction;
mod node_taint;
mod owners;
mod pod_resize;
mod pod_security;
mod priority;
mod pull_images;
mod quota;
mod rights;
mod runtime_class;
mod setup;
mod storage_class;
mod storage_protection;
mod tolerations;
mod topology_labels;
mod volume_expansion;
pub mod webhooks;

pub use setup::{Configuration, PluginError, Setup, read};

use crate::authz::Authorizer;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::codec;
use crate::notes::Notes;
use crate::registry::{DeleteOptions, Registry, read_error};
use futures::future::BoxFuture;
use pintle_meta::Status;
use pintle_store::{Op, Range, Revision, Splice, Store};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedMutexGuard;
use webhooks::Round;

type Named = (&'static str, Box<dyn Plugin>);

/// Every plugin by Kubernetes' name for it, in the order in which they are asked. What has no name cannot be switched off.
fn plugins(store: &Arc<dyn Store>, webhooks: &webhooks::Families, told: &setup::Configuration) -> [Named; COUNT] {
    [
        ("", Box::new(definitions::Definitions)),
        ("NamespaceLifecycle", Box::new(namespaces::Namespaces)),
        ("LimitRanger", Box::new(limits::Limits)),
        ("ServiceAccount", Box::new(account::Account)),
        ("NodeRestriction", Box::new(node_restriction::NodeRestriction)),
        ("TaintNodesByCondition", Box::new(node_taint::NodeTaint)),
        ("AlwaysPullImages", Box::new(pull_images::PullImages)),
        ("PodSecurity", Box::new(pod_security::PodSecurity(told.pod_security.clone()))),
        ("Priority", Box::new(priority::Priority)),
        ("DefaultTolerationSeconds", Box::new(tolerations::Tolerations)),
        ("DefaultStorageClass", Box::new(storage_class::StorageClass)),
        ("StorageObjectInUseProtection", Box::new(storage_protection::StorageProtection)),
        ("OwnerReferencesPermissionEnforcement", Box::new(owners::Owners)),
        ("PersistentVolumeClaimResize", Box::new(volume_expansion::VolumeExpansion)),
        ("RuntimeClass", Box::new(runtime_class::RuntimeClass)),
        ("", Box::new(certificates::Requester)),
        ("CertificateApproval", Box::new(certificates::Entitled::Approval)),
        ("CertificateSigning", Box::new(certificates::Entitled::Signing)),
        ("ClusterTrustBundleAttest", Box::new(certificates::TrustBundles)),
        ("CertificateSubjectRestriction", Box::new(certificates::SubjectRestriction)),
        ("DefaultIngressClass", Box::new(ingress_class::IngressClass)),
        ("DenyServiceExternalIPs", Box::new(external_ips::ExternalIps)),
        ("PodTopologyLabels", Box::new(topology_labels::TopologyLabels)),
        ("PodResizeValidator", Box::new(pod_resize::PodResize)),
        ("", Box::new(rights::Rights)),
        ("", Box::new(webhooks::Lockout)),
        ("MutatingAdmissionWebhook", Box::new(webhooks::Mutating::new(store, webhooks.clone(), &told.mutating))),
        ("ValidatingAdmissionWebhook", Box::new(webhooks::Validating::new(store, webhooks.clone(), &told.validating))),
        // Last: what another plugin refuses is not charged.
        ("ResourceQuota", Box::new(quota::Quota::default())),
    ]
}

const COUNT: usize = 29;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// A connection to a process, a port or a server behind the API.
    Connect,
}

impl Operation {
    /// As webhooks and policies name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// What a plugin is asked about.
#[derive(Clone, Copy)]
pub struct Review<'a> {
    pub registry: &'a Registry,
    pub call: &'a Call,
    pub notes: &'a Notes,
    /// In the version that is stored.
    pub resource: &'a Arc<Resource>,
    pub operation: Operation,
    /// The stored object, or the part of it that is shown.
    pub old: Option<&'a Value>,
    /// None where nothing is committed.
    pub conditions: Option<&'a Conditions>,
    /// How to delete, where that is asked.
    pub deletion: Option<&'a DeleteOptions>,
    /// The server chose the object's name.
    pub is_generated: bool,
    /// Set while plugins may change the object.
    pub round: Option<&'a Round>,
}

/// One member of the list.
pub trait Plugin: Send + Sync {
    /// Brings what it knows of stored objects up to date, before it is asked anything about a call.
    fn follow(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Has it anything to say about this? What it is not asked costs nothing.
    fn concerns(&self, review: &Review<'_>) -> bool;

    /// May it change this object? What a client sets is noted before anybody else changes it.
    fn changes(&self, _review: &Review<'_>) -> bool {
        false
    }

    /// Changes the object, or refuses it early.
    fn mutate<'a>(&'a self, _review: &'a Review<'a>, _object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Refuses a deletion early: there is nothing to change.
    fn mutate_deletion<'a>(&'a self, _review: &'a Review<'a>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Refuses the object as it will be stored; `None` for a deletion.
    fn validate<'a>(
        &'a self,
        _review: &'a Review<'a>,
        _object: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

pub struct Admission {
    pub authorizer: Arc<Authorizer>,
    plugins: Vec<Box<dyn Plugin>>,
}

impl Admission {
    pub fn new(
        authorizer: Arc<Authorizer>,
        store: &Arc<dyn Store>,
        webhooks: &webhooks::Families,
        setup: &Setup,
    ) -> Self {
        let all = plugins(store, webhooks, &setup.configuration).into_iter();
        let plugins = all.filter(|(name, _)| setup.has(name)).map(|(_, plugin)| plugin).collect();
        Admission { authorizer, plugins }
    }

    /// Lets every plugin see what is stored now. A configuration that was acknowledged counts.
    pub async fn follow(&self) {
        for follows in self.plugins.iter().filter_map(|plugin| plugin.follow()) {
            follows.await;
        }
    }

    fn concerned<'a>(&'a self, review: &'a Review<'a>) -> impl Iterator<Item = &'a dyn Plugin> {
        self.plugins.iter().map(|plugin| &**plugin).filter(|plugin| plugin.concerns(review))
    }

    /// Will any plugin want to change the object?
    pub fn may_change(&self, review: &Review<'_>) -> bool {
        self.concerned(review).any(|plugin| plugin.changes(review))
    }

    /// All plugins in order; once more if a webhook changed what those before it have seen.
    pub async fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Status> {
        let round = Round::default();
        let review = Review { round: Some(&round), ..*review };
        loop {
            for plugin in self.concerned(&review) {
                plugin.mutate(&review, object).await?;
            }
            if !round.repeats() {
                return Ok(());
            }
        }
    }

    /// Whether an object may be deleted.
    pub async fn delete(&self, review: &Review<'_>) -> Result<(), Status> {
        self.follow().await;
        for plugin in self.concerned(review) {
            plugin.mutate_deletion(review).await?;
        }
        self.validate(review, None).await
    }

    pub async fn validate(&self, review: &Review<'_>, object: Option<&Value>) -> Result<(), Status> {
        for plugin in self.concerned(review) {
            plugin.validate(review, object).await?;
        }
        Ok(())
    }

    /// Both, for what is not stored: the object of a subresource, a question, a connection.
    pub async fn pass(
        &self,
        registry: &Registry,
        call: &Call,
        notes: &Notes,
        operation: Operation,
        object: &mut Value,
    ) -> Result<(), Status> {
        let resource = call.resource()?;
        self.follow().await;
        let review = Review::new(registry, call, notes, resource, operation);
        self.mutate(&review, object).await?;
        self.validate(&review, Some(object)).await
    }
}

impl<'a> Review<'a> {
    /// About something that is not stored.
    pub fn new(
        registry: &'a Registry,
        call: &'a Call,
        notes: &'a Notes,
        resource: &'a Arc<Resource>,
        operation: Operation,
    ) -> Self {
        let (old, conditions, deletion, round) = (None, None, None, None);
        Review { registry, call, notes, resource, operation, old, conditions, deletion, is_generated: false, round }
    }

    /// The same about a part of the object.
    pub fn of_part(self, old: Option<&'a Value>) -> Self {
        Review { old, ..self }
    }

    /// Is it about this resource of a built-in group, through this subresource?
    fn is_of(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.resource.name == resource && self.resource.group == group && self.call.path.subresource == subresource
    }

    fn is_new(&self, group: &str, resource: &str) -> bool {
        self.operation == Operation::Create && self.is_of(group, resource, "")
    }

    /// A stored object, by its key.
    async fn read(&self, key: &str) -> Result<Option<Value>, Status> {
        let entry = self.registry.store.get(key).await.map_err(read_error)?;
        Ok(entry.map(|entry| codec::decode(&entry.value)))
    }

    /// Everything below a prefix.
    async fn list(&self, prefix: impl Into<String>) -> Result<Vec<Value>, Status> {
        let page = self.registry.store.range(Range::prefix(prefix)).await.map_err(read_error)?;
        Ok(page.entries.iter().map(|entry| codec::decode(&entry.value)).collect())
    }

    fn authorizer(&self) -> &'a Authorizer {
        &self.registry.admission.authorizer
    }

    /// The refusal of an object, in the words of the API.
    fn forbidden(&self, name: &str, why: &str) -> Status {
        let (group, resource) = (&self.resource.group, &self.resource.name);
        let whole = pintle_meta::names::qualified_resource(group, resource);
        let message = format!("{whole} {name:?} is forbidden: {why}");
        Status::new(403, "Forbidden", message).with_details(pintle_meta::status::about(name, group, resource))
    }
}

/// What a decision rests on and what it costs: what else the transaction of the write checks and changes.
#[derive(Default)]
pub struct Conditions(Mutex<Terms>);

#[derive(Default)]
struct Terms {
    checks: Vec<(Arc<str>, Revision)>,
    writes: Vec<(Arc<str>, Splice)>,
    held: Vec<OwnedMutexGuard<()>>,
}

impl Conditions {
    /// A stored object must be unchanged when the write is committed.
    pub fn add(&self, key: Arc<str>, revision: Revision) {
        self.terms().checks.push((key, revision));
    }

    /// A stored object that is unchanged then becomes this one, together with the write.
    pub fn write(&self, key: Arc<str>, revision: Revision, value: Splice) {
        let mut terms = self.terms();
        terms.checks.push((key.clone(), revision));
        terms.writes.push((key, value));
    }

    /// Keeps others out until the write is committed or given up.
    pub fn hold(&self, lock: OwnedMutexGuard<()>) {
        self.terms().held.push(lock);
    }

    pub fn checks(&self) -> Vec<(Arc<str>, Revision)> {
        self.terms().checks.clone()
    }

    pub fn writes(&self) -> Vec<Op> {
        let put =
            |(key, value): &(Arc<str>, Splice)| Op::Put { key: key.clone(), value: value.clone(), expires_at: None };
        self.terms().writes.iter().map(put).collect()
    }

    fn terms(&self) -> MutexGuard<'_, Terms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
