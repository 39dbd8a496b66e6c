//! What becomes of a definition: its names accepted and established, and its objects removed before it goes.

use super::names::Conflict;
use crate::ApiServer;
use crate::call::Call;
use crate::codec;
use crate::keys::{self, DEFINITIONS};
use crate::notes::Notes;
use crate::registry::{Change, DeleteOptions, Error, names_of, read_error};
use crate::resources::apiextensions::approval::{Approval, CONDITION};
use crate::verb::Verb;
use pintle_meta::{Status, object};
use pintle_store::Range;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Holds a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// After an error a definition is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until the server stops. Looks at each definition that changed, and at nothing else.
pub async fn run(server: ApiServer) {
    let store = &server.registry.store;
    let mut watch = None;
    let mut pending: BTreeSet<String> = BTreeSet::new();
    // Definitions whose names others had when they were last looked at.
    let mut waiting: BTreeSet<String> = BTreeSet::new();
    loop {
        if watch.is_none() {
            // The watch opens before the look, so that no change falls between.
            watch = store.watch(DEFINITIONS, store.revision()).ok();
            match store.range(Range::prefix(DEFINITIONS)).await {
                Ok(page) => pending.extend(page.entries.iter().filter_map(|entry| name_of(&entry.key))),
                Err(_) => watch = None,
            }
        }
        pending = settle(&server, pending, &mut waiting).await;
        let again = !pending.is_empty() || watch.is_none();
        let changed = async {
            match &mut watch {
                Some(watch) => watch.next().await.ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = server.stopping() => return,
            events = changed => match events {
                Some(events) => {
                    pending.extend(events.iter().filter_map(|event| name_of(&event.entry.key)));
                    // Who waited for a name may have it now.
                    pending.extend(waiting.iter().cloned());
                }
                None => watch = None,
            },
            () = tokio::time::sleep(AGAIN), if again => {}
        }
    }
}

fn name_of(key: &str) -> Option<String> {
    keys::rest(key, DEFINITIONS).map(str::to_owned)
}

/// One look at each of these; what has to be looked at again without a change is left.
async fn settle(server: &ApiServer, names: BTreeSet<String>, waiting: &mut BTreeSet<String>) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    for name in names {
        match settle_one(server, &name).await {
            Ok(true) => _ = waiting.insert(name),
            Ok(false) => _ = waiting.remove(&name),
            Err(status) => {
                tracing::warn!(definition = name, %status, "a definition is not settled yet");
                left.insert(name);
            }
        }
    }
    left
}

/// Answers whether the definition waits for a name.
async fn settle_one(server: &ApiServer, name: &str) -> Result<bool, Status> {
    let entry = server.registry.store.get(&keys::named(DEFINITIONS, name)).await.map_err(read_error)?;
    let Some(entry) = entry else { return Ok(false) };
    let definition = codec::decode(&entry.value);
    if object::is_being_deleted(&definition) {
        remove_objects(server, &definition).await?;
        return Ok(false);
    }
    let conflict = server.registry.catalogue.current().await.conflict(name);
    let waits = conflict.is_some();
    establish(server, &definition, conflict).await?;
    Ok(waits)
}

async fn establish(server: &ApiServer, definition: &Value, conflict: Option<Arc<Conflict>>) -> Result<(), Status> {
    let free = conflict.is_none();
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
    // Once established, a definition stays so.
    let established = free || is("Established") == Some(true);
    let told_names = is("NamesAccepted") == Some(free) && (accepted || !free);
    if told && told_names && is("Established") == Some(established) {
        return Ok(());
    }
    let now = server.registry.clock.now_rfc3339();
    change(server, definition, "status", |current| {
        let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
            let status = if holds { "True" } else { "False" };
            json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message})
        };
        let mut changed = current.clone();
        let mut conditions = vec![match &conflict {
            None => condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            Some(conflict) => condition("NamesAccepted", false, conflict.reason, &conflict.message),
        }];
        conditions.push(match established {
            true => condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
            false => condition("Established", false, "NotAccepted", "not all names are accepted"),
        });
        conditions.extend(approval.map(|approval| approval.condition(current, &now)));
        object::set(&mut changed, &["status", "conditions"], conditions);
        let accepted = conflict.as_ref().map_or_else(|| current["spec"]["names"].clone(), |c| c.accepted.clone());
        object::set(&mut changed, &["status", "acceptedNames"], accepted);
        changed
    })
    .await
}

/// Deletes every object of the kind, then lets the definition go.
async fn remove_objects(server: &ApiServer, definition: &Value) -> Result<(), Status> {
    if !object::finalizers(definition).any(|f| f == CLEANUP) {
        return Ok(());
    }
    let catalogue = server.registry.catalogue.current().await;
    let (group, plural) =
        (object::text(definition, &["spec", "group"]), object::text(definition, &["spec", "names", "plural"]));
    if let Some(resource) =
        catalogue.resources().find(|r| r.custom && r.backend.is_none() && r.group == group && r.name == plural)
    {
        let page = server
            .registry
            .store
            .range(Range::prefix(resource.prefix.as_str()))
            .await
            .map_err(crate::registry::read_error)?;
        let mut held = 0;
        for entry in &page.entries {
            let (namespace, name) = names_of(resource, &entry.key);
            let call = Call::own(Verb::Delete, resource, namespace, name, "apiserver");
            match server.registry.delete(&call, &Notes::new(), &DeleteOptions::default()).await {
                Ok((_, gone)) => held += usize::from(!gone),
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
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
    let catalogue = server.registry.catalogue.latest();
    let resource = catalogue
        .get("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .ok_or_else(Status::no_such_resource)?;
    let name = object::name(definition);
    let call = Call::own(Verb::Update, resource, "", name, "kube-apiserver").through(subresource);
    let mut gone = false;
    let result = server
        .registry
        .update(&call, &Notes::new(), |current| match current {
            Some(current) => Ok(Change::new(with(current))),
            None => {
                gone = true;
                Err(Status::not_found("apiextensions.k8s.io", "customresourcedefinitions", name))
            }
        })
        .await;
    match result {
        Err(error) if !gone => Err(error.into()),
        _ => Ok(()),
    }
}
