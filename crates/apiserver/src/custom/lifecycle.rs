//! What becomes of a definition: its names accepted and established, and its objects removed before it goes.

use super::conditions::{self, Condition};
use crate::ApiServer;
use crate::call::Call;
use crate::codec;
use crate::keys::{self, DEFINITIONS};
use crate::notes::Notes;
use crate::own;
use crate::registry::{DeleteOptions, Error, names_of, read_error};
use crate::verb::Verb;
use pintle_meta::{Status, object};
use pintle_store::{Entry, Range};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// Holds a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// After an error, and while objects are held, a definition is looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// After this time the status says that objects are held.
const PATIENCE: Duration = Duration::from_secs(60);

const TERMINATING: &str = "Terminating";
const IN_PROGRESS: &str = "InstanceDeletionInProgress";
const NOT_CONFIRMED: &str = "InstanceDeletionCheck";
const FAILED: &str = "InstanceDeletionFailed";

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
        waiting.remove(&name);
        match settle_one(server, &name).await {
            Ok(Outcome::Settled) => {}
            Ok(Outcome::WaitsForName) => _ = waiting.insert(name),
            Ok(Outcome::WaitsForObjects) => _ = left.insert(name),
            Err(status) => {
                tracing::warn!(definition = name, %status, "a definition is not settled yet");
                left.insert(name);
            }
        }
    }
    left
}

enum Outcome {
    Settled,
    WaitsForName,
    /// Objects of a definition that goes are held by their finalizers.
    WaitsForObjects,
}

async fn settle_one(server: &ApiServer, name: &str) -> Result<Outcome, Status> {
    let entry = server.registry.store.get(&keys::named(DEFINITIONS, name)).await.map_err(read_error)?;
    let Some(entry) = entry else { return Ok(Outcome::Settled) };
    let definition = codec::decode(&entry.value);
    if object::is_being_deleted(&definition) {
        return finish(server, &entry, &definition).await;
    }
    let conflict = server.registry.catalogue.current().await.conflict(name);
    let now = server.registry.clock.now_rfc3339();
    if conditions::settled(&definition, conflict.as_deref(), &now) != definition {
        change(server, &definition, |current| conditions::settled(current, conflict.as_deref(), &now)).await?;
    }
    Ok(if conflict.is_some() { Outcome::WaitsForName } else { Outcome::Settled })
}

/// Deletes every object of the kind, then lets the definition go.
async fn finish(server: &ApiServer, entry: &Entry, definition: &Value) -> Result<Outcome, Status> {
    if !object::finalizers(definition).any(|f| f == CLEANUP) {
        return Ok(Outcome::Settled);
    }
    let said = conditions::reason(definition, TERMINATING);
    if !matches!(said, IN_PROGRESS | NOT_CONFIRMED | FAILED) {
        terminating(server, definition, "True", IN_PROGRESS, "CustomResource deletion is in progress").await?;
    }
    let (reason, message) = if conditions::is_true(definition, "Established") {
        match remove_objects(server, entry).await {
            Err(status) => {
                let message = format!("could not issue all deletes: {}", status.message);
                terminating(server, definition, "True", FAILED, &message).await?;
                return Err(status);
            }
            Ok(0) => ("InstanceDeletionCompleted", "removed all instances"),
            Ok(_) => {
                if said != NOT_CONFIRMED && is_overdue(server, definition) {
                    let message = "could not confirm zero CustomResources remaining: context deadline exceeded";
                    terminating(server, definition, "True", NOT_CONFIRMED, message).await?;
                }
                return Ok(Outcome::WaitsForObjects);
            }
        }
    } else {
        ("NeverEstablished", "resource was never established")
    };
    let now = server.registry.clock.now_rfc3339();
    change(server, definition, |current| {
        let mut changed = current.clone();
        conditions::set(&mut changed, &Condition { kind: TERMINATING, status: "False", reason, message }, &now);
        let rest: Vec<Value> =
            object::list(current, &["metadata", "finalizers"]).iter().filter(|f| *f != CLEANUP).cloned().collect();
        object::set(&mut changed, &["metadata", "finalizers"], rest);
        changed
    })
    .await?;
    Ok(Outcome::Settled)
}

/// How many objects are still there after each was deleted.
async fn remove_objects(server: &ApiServer, entry: &Entry) -> Result<usize, Status> {
    let stored = super::Definition::read(entry).and_then(|definition| definition.stored(entry));
    let Some(resource) = stored else { return Ok(0) };
    let page = server.registry.store.range(Range::prefix(resource.prefix.as_str())).await.map_err(read_error)?;
    let mut held = 0;
    for entry in &page.entries {
        let (namespace, name) = names_of(&resource, &entry.key);
        let call = Call::own(Verb::Delete, &resource, namespace, name, "apiserver");
        match server.registry.delete(&call, &Notes::new(), &DeleteOptions::default()).await {
            Ok((_, gone)) => held += usize::from(!gone),
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(held)
}

/// Whether the objects of a definition should have been gone by now.
fn is_overdue(server: &ApiServer, definition: &Value) -> bool {
    let since = object::text(definition, &["metadata", "deletionTimestamp"]).parse::<jiff::Timestamp>();
    since.is_ok_and(|since| server.registry.clock.now().duration_since(since).unsigned_abs() >= PATIENCE)
}

async fn terminating(
    server: &ApiServer,
    definition: &Value,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<(), Status> {
    let now = server.registry.clock.now_rfc3339();
    change(server, definition, |current| {
        let mut changed = current.clone();
        conditions::set(&mut changed, &Condition { kind: TERMINATING, status, reason, message }, &now);
        changed
    })
    .await
}

/// Writes the status, and finalizers with it.
async fn change(
    server: &ApiServer,
    definition: &Value,
    with: impl Fn(&Value) -> Value + Send + Sync,
) -> Result<(), Status> {
    let catalogue = server.registry.catalogue.latest();
    let resource = catalogue
        .get("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .ok_or_else(Status::no_such_resource)?;
    let call = Call::own(Verb::Update, resource, "", object::name(definition), "kube-apiserver").through("status");
    own::change(server, &call, with).await
}
