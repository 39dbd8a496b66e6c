//! What becomes of a definition: its names accepted and established, and its objects removed before it goes.

use super::PREFIX;
use crate::ApiServer;
use crate::authn::User;
use crate::codec;
use crate::registry::{Change, DeleteOptions, Origin, Registry, Write, names_of};
use crate::resources::apiextensions::approval::{Approval, CONDITION};
use pintle_meta::{Status, object};
use pintle_store::Range;
use serde_json::{Value, json};
use std::time::Duration;

/// Holds a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// After an error everything is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until the server stops.
pub async fn run(server: ApiServer) {
    loop {
        // The watch opens before the look, so that no change falls between.
        let watch = server.registry.store.watch(PREFIX, server.registry.store.revision());
        let settled = settle_all(&server).await;
        let changed = async {
            match watch {
                Ok(mut watch) => drop(watch.next().await),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let pause =
            async { if settled { std::future::pending::<()>().await } else { tokio::time::sleep(AGAIN).await } };
        tokio::select! {
            biased;
            () = server.stopping() => return,
            () = changed => {}
            () = pause => {}
        }
    }
}

/// One look at every definition; false when one has to be looked at again without a change.
async fn settle_all(server: &ApiServer) -> bool {
    let Ok(page) = server.registry.store.range(Range::prefix(PREFIX)).await else { return false };
    let mut settled = true;
    for entry in &page.entries {
        let definition = codec::decode(&entry.value);
        let result = if object::is_being_deleted(&definition) {
            remove_objects(server, &definition).await
        } else {
            establish(server, &definition).await
        };
        if let Err(status) = result {
            tracing::warn!(definition = object::name(&definition), %status, "a definition is not settled yet");
            settled = false;
        }
    }
    settled
}

/// A group's resource names belong to whoever came first; built-in ones always did.
pub(super) fn names_are_free(registry: &Registry, definition: &Value) -> bool {
    let group = object::text(definition, &["spec", "group"]);
    let catalogue = registry.catalogue.load();
    !catalogue.resources().iter().any(|r| {
        !r.custom
            && r.group == group
            && (r.name == object::text(definition, &["spec", "names", "plural"])
                || r.kind == object::text(definition, &["spec", "names", "kind"]))
    })
}

async fn establish(server: &ApiServer, definition: &Value) -> Result<(), Status> {
    let free = names_are_free(&server.registry, definition);
    let is = |kind: &str| {
        object::list(definition, &["status", "conditions"])
            .iter()
            .find(|c| c["type"] == kind)
            .map(|c| c["status"] == "True")
    };
    let accepted = object::at(definition, &["status", "acceptedNames"]) == object::at(definition, &["spec", "names"]);
    let approval = Approval::of(definition);
    let approved = approval.map(|approval| approval == Approval::Approved);
    let told = is(CONDITION) == approved;
    if told && is("NamesAccepted") == Some(free) && is("Established") == Some(free) && (accepted || !free) {
        return Ok(());
    }
    let now = server.registry.clock.now_rfc3339();
    change(server, definition, "status", |current| {
        let condition = |kind: &str, reason: &str, message: &str| {
            let status = if free { "True" } else { "False" };
            json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message})
        };
        let mut changed = current.clone();
        let mut conditions = if free {
            vec![
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ]
        } else {
            vec![
                condition("NamesAccepted", "NamesConflict", "a built-in resource of this group has that name"),
                condition("Established", "NotAccepted", "not all names are accepted"),
            ]
        };
        conditions.extend(approval.map(|approval| approval.condition(current, &now)));
        object::set(&mut changed, &["status", "conditions"], conditions);
        if free {
            object::set(&mut changed, &["status", "acceptedNames"], current["spec"]["names"].clone());
        }
        changed
    })
    .await
}

/// Deletes every object of the kind, then lets the definition go.
async fn remove_objects(server: &ApiServer, definition: &Value) -> Result<(), Status> {
    if !object::finalizers(definition).any(|f| f == CLEANUP) {
        return Ok(());
    }
    server.custom.follow(&server.registry).await;
    let catalogue = server.registry.catalogue.load_full();
    let (group, plural) =
        (object::text(definition, &["spec", "group"]), object::text(definition, &["spec", "names", "plural"]));
    if let Some(resource) = catalogue.resources().iter().find(|r| r.custom && r.group == group && r.name == plural) {
        let user = User::internal("system:apiserver");
        let page = server
            .registry
            .store
            .range(Range::prefix(resource.prefix.as_str()))
            .await
            .map_err(crate::registry::read_error)?;
        let mut held = 0;
        for entry in &page.entries {
            let (namespace, name) = names_of(resource, &entry.key);
            let origin = Origin::own("delete");
            let write = Write {
                resource,
                namespace,
                subresource: "",
                user: &user,
                manager: "apiserver",
                dry_run: false,
                origin,
            };
            match server.registry.delete(&write, name, &DeleteOptions::default()).await {
                Ok((_, gone)) => held += usize::from(!gone),
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        if held > 0 {
            return Err(Status::conflict(
                group,
                plural,
                object::name(definition),
                &format!("{held} objects wait for their finalizers"),
            ));
        }
    }
    change(server, definition, "", |current| {
        let mut changed = current.clone();
        let rest: Vec<Value> =
            object::list(current, &["metadata", "finalizers"]).iter().filter(|f| *f != CLEANUP).cloned().collect();
        object::set(&mut changed, &["metadata", "finalizers"], rest);
        changed
    })
    .await
}

async fn change(
    server: &ApiServer,
    definition: &Value,
    subresource: &str,
    with: impl Fn(&Value) -> Value + Send + Sync,
) -> Result<(), Status> {
    let catalogue = server.registry.catalogue.load_full();
    let resource = catalogue
        .get("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .ok_or_else(Status::no_such_resource)?;
    let user = User::internal("system:apiserver");
    let origin = Origin::own("update");
    let write =
        Write { resource, namespace: "", subresource, user: &user, manager: "kube-apiserver", dry_run: false, origin };
    let name = object::name(definition);
    let result = server
        .registry
        .update(&write, name, &mut Vec::new(), |current| match current {
            Some(current) => Ok(Change::new(with(current))),
            None => Err(Status::not_found("apiextensions.k8s.io", "customresourcedefinitions", name)),
        })
        .await;
    match result {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}
