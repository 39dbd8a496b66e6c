//! Asks the server about owners, deletes, sets free and lets go.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::PartialObjectMeta;
use pintle_runtime::{Action, Attempt, Context, Error, Key, Reconciler, Waker, error};
use serde_json::{Value, json};

use super::SharedGraph;
use super::monitors::Resources;
use super::plan::{Decision, FOREGROUND, Kind, Node, ORPHAN, Outcome, Owner, Policy, decide, outcome};

/// When to ask again about an owner that no watch has shown.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

pub(super) struct Collector {
    client: Client,
    graph: SharedGraph,
    waker: Waker,
    resources: Resources,
}

impl Reconciler for Collector {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let seen = self.graph.with(|graph| graph.get(key.name()).map(|node| (node.clone(), decide(graph, node))));
        let Some((node, decision)) = seen else { return Ok(Action::done()) };
        match decision {
            Decision::Nothing => Ok(Action::done()),
            Decision::SetFree(dependents) => {
                for dependent in &dependents {
                    self.unlink(dependent, std::slice::from_ref(&node.uid)).await?;
                }
                self.remove_finalizer(&node, ORPHAN).await
            }
            Decision::LetGo => self.remove_finalizer(&node, FOREGROUND).await,
            Decision::WaitFor(dependents) => {
                dependents.into_iter().for_each(|uid| self.waker.add(Key::cluster(uid)));
                Ok(Action::done())
            }
            Decision::AskAbout(owners) => self.decide_by_owners(&node, owners).await,
        }
    }
}

impl Collector {
    pub(super) fn new(context: &Context, graph: SharedGraph, waker: Waker, resources: Resources) -> Self {
        Collector { client: context.client.clone(), graph, waker, resources }
    }

    async fn decide_by_owners(
        &self,
        node: &Node,
        owners: Vec<(OwnerReference, Option<Owner>)>,
    ) -> Result<Action, Error> {
        let mut known = Vec::new();
        for (reference, owner) in owners {
            let owner = match owner {
                Some(owner) => owner,
                None => self.ask_about(node, &reference).await?,
            };
            known.push((reference, owner));
        }
        let dependents = self.graph.with(|graph| graph.dependents_of(&node.uid));
        match outcome(node, &known, &dependents) {
            Outcome::Keep => Ok(Action::done()),
            Outcome::KeepAndLookAgain => Ok(Action::requeue_after(LOOK_AGAIN)),
            Outcome::Unlink(uids) => self.unlink(node, &uids).await,
            Outcome::DeleteInForeground { unblock } => {
                if unblock {
                    let references = node.owners.iter().cloned();
                    let unblocked: Vec<OwnerReference> =
                        references.map(|owner| OwnerReference { block_owner_deletion: Some(false), ..owner }).collect();
                    // The deletion below would carry an outdated version: it follows when the change is seen.
                    return self.patch(node, json!({"ownerReferences": unblocked})).await;
                }
                self.delete(node, DeleteParams::foreground()).await
            }
            Outcome::Delete(Policy::Background) => self.delete(node, DeleteParams::background()).await,
            Outcome::Delete(Policy::Foreground) => self.delete(node, DeleteParams::foreground()).await,
            Outcome::Delete(Policy::Orphan) => self.delete(node, DeleteParams::orphan()).await,
        }
    }

    /// What the server says about an owner that the graph does not know as it is named.
    async fn ask_about(&self, node: &Node, reference: &OwnerReference) -> Result<Owner, Error> {
        let kind = Kind::named(&reference.api_version, &reference.kind);
        let found = self.resources.get(&kind).ok_or_else(|| {
            Error::Invalid(format!("{} is owned by a {}, which the server does not have", node.name, reference.kind))
        })?;
        if found.namespaced && node.namespace.is_empty() {
            // Such a reference means nothing; what carries it is left alone.
            return Ok(Owner::Solid);
        }
        let api = self.api_of(&kind, &node.namespace)?;
        let owner = error::ignore_not_found(api.get(&reference.name).await)?;
        Ok(match owner.filter(|owner| owner.metadata.uid.as_ref() == Some(&reference.uid)) {
            None => Owner::Absent,
            Some(owner) => {
                let foreground = owner.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
                let waits = owner.metadata.deletion_timestamp.is_some() && foreground;
                if waits { Owner::Waiting } else { Owner::SolidUnseen }
            }
        })
    }

    /// The version makes it safe: an object that has been given an owner meanwhile is not deleted.
    async fn delete(&self, node: &Node, params: DeleteParams) -> Result<Action, Error> {
        let preconditions =
            Preconditions { uid: Some(node.uid.clone()), resource_version: Some(node.resource_version.clone()) };
        let api = self.api_of(&node.kind, &node.namespace)?;
        let result = api.delete(&node.name, &params.preconditions(preconditions)).await;
        self.forget_if_absent(node, error::ignore_not_found(result)?.is_none());
        Ok(Action::done())
    }

    /// Takes the references to these owners off.
    async fn unlink(&self, node: &Node, owners: &[String]) -> Result<Action, Error> {
        let rest: Vec<&OwnerReference> = node.owners.iter().filter(|owner| !owners.contains(&owner.uid)).collect();
        self.patch(node, json!({"ownerReferences": rest})).await
    }

    async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<Action, Error> {
        let rest: Vec<&String> = node.finalizers.iter().filter(|present| *present != finalizer).collect();
        self.patch(node, json!({"finalizers": rest})).await
    }

    /// A merge patch, which every resource takes; it replaces lists, so it must not meet another version.
    async fn patch(&self, node: &Node, mut metadata: Value) -> Result<Action, Error> {
        metadata["uid"] = json!(node.uid);
        metadata["resourceVersion"] = json!(node.resource_version);
        let api = self.api_of(&node.kind, &node.namespace)?;
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let result = api.patch(&node.name, &PatchParams::default(), &patch).await;
        self.forget_if_absent(node, error::ignore_not_found(result)?.is_none());
        Ok(Action::done())
    }

    /// The server does not have it: those that wait for its end need not wait for the watch.
    fn forget_if_absent(&self, node: &Node, absent: bool) {
        if absent {
            let woken = self.graph.with(|graph| graph.remove(&node.uid));
            woken.into_iter().for_each(|uid| self.waker.add(Key::cluster(uid)));
        }
    }

    fn api_of(&self, kind: &Kind, namespace: &str) -> Result<Api<PartialObjectMeta<DynamicObject>>, Error> {
        let found = self.resources.get(kind);
        let found = found.ok_or_else(|| Error::Invalid(format!("the server does not have {} any more", kind.kind)))?;
        Ok(match found.namespaced && !namespace.is_empty() {
            true => Api::namespaced_with(self.client.clone(), namespace, &found.resource),
            false => Api::all_with(self.client.clone(), &found.resource),
        })
    }
}
