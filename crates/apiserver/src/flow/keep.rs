//! Keeps the objects that every cluster has, and says of each schema whether its level is there.

use super::defaults::{self, AUTO_UPDATE, GROUP, LEVEL};
use crate::ApiServer;
use crate::call::Call;
use crate::codec;
use crate::keys::{FLOW_SCHEMAS, PRIORITY_LEVELS};
use crate::notes::Notes;
use crate::own::{self, Watches};
use crate::registry::{Change, read_error};
use crate::resources::check::same;
use crate::verb::Verb;
use pintle_meta::{Status, object};
use pintle_store::Range;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// Who owns what this loop writes, as in Kubernetes.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// After an error everything is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until the server stops, woken by changes of these objects alone.
pub async fn run(server: ApiServer) {
    while !server.is_stopping() {
        if let Err(status) = follow(&server).await {
            tracing::warn!(%status, "flow schemas are not settled yet");
        }
        server.pause(AGAIN).await;
    }
}

/// Looks at all of them now, and after each change.
async fn follow(server: &ApiServer) -> Result<(), Status> {
    // The watches open before the look, so that no change falls between.
    let mut watches = Watches::open(server, &[FLOW_SCHEMAS, PRIORITY_LEVELS])?;
    loop {
        look(server).await?;
        tokio::select! {
            biased;
            () = server.stopping() => return Ok(()),
            events = watches.next() => { events?; }
        }
    }
}

async fn look(server: &ApiServer) -> Result<(), Status> {
    let mut schemas = read(server, FLOW_SCHEMAS).await?;
    let levels = read(server, PRIORITY_LEVELS).await?;
    for wanted in defaults::all() {
        let there = if object::kind(&wanted) == LEVEL { &levels } else { &schemas };
        let found = there.iter().find(|one| object::name(one) == object::name(&wanted));
        if found.is_none_or(|found| differs(found, &wanted)) {
            restore(server, &wanted).await?;
        }
    }
    let levels: BTreeSet<&str> = levels.iter().map(object::name).collect();
    for schema in &mut schemas {
        let level = object::text(schema, &["spec", "priorityLevelConfiguration", "name"]).to_owned();
        let found = levels.contains(level.as_str()) || defaults::is_mandatory(&level);
        let condition = defaults::dangling(&level, found, &server.registry.clock.now_rfc3339());
        let is_told = object::list(schema, &["status", "conditions"])
            .iter()
            .any(|one| ["type", "status", "reason", "message"].iter().all(|key| one[key] == condition[key]));
        if !is_told && !object::is_being_deleted(schema) {
            tell(server, object::name(schema), condition).await?;
        }
    }
    Ok(())
}

async fn read(server: &ApiServer, prefix: &str) -> Result<Vec<Value>, Status> {
    let page = server.registry.store.range(Range::prefix(prefix)).await.map_err(read_error)?;
    Ok(page.entries.iter().map(|entry| codec::decode(&entry.value)).collect())
}

/// Is it not as it has to be, and ours to put right?
fn differs(found: &Value, wanted: &Value) -> bool {
    let ours = defaults::is_mandatory(object::name(found))
        || object::text(found, &["metadata", "annotations", AUTO_UPDATE]) == "true";
    // What the exempt level lends is up to the operator.
    let exempt = object::kind(wanted) == LEVEL && object::text(wanted, &["spec", "type"]) == "Exempt";
    ours && !exempt && !object::is_being_deleted(found) && !same(&found["spec"], &wanted["spec"])
}

async fn restore(server: &ApiServer, wanted: &Value) -> Result<(), Status> {
    let plural = if object::kind(wanted) == LEVEL { "prioritylevelconfigurations" } else { "flowschemas" };
    let catalogue = server.registry.catalogue.latest();
    let resource = catalogue.get(GROUP, "v1", plural).ok_or_else(Status::no_such_resource)?;
    let call = Call::own(Verb::Update, resource, "", object::name(wanted), MANAGER);
    let change = |current: Option<&Value>| {
        let mut object = current.cloned().unwrap_or_else(|| wanted.clone());
        object["spec"] = wanted["spec"].clone();
        Ok(Change::new(object))
    };
    server.registry.update(&call, &Notes::new(), change).await?;
    Ok(())
}

async fn tell(server: &ApiServer, name: &str, condition: Value) -> Result<(), Status> {
    let catalogue = server.registry.catalogue.latest();
    let resource = catalogue.get(GROUP, "v1", "flowschemas").ok_or_else(Status::no_such_resource)?;
    let call = Call::own(Verb::Update, resource, "", name, MANAGER).through("status");
    let with = |current: &Value| {
        let mut object = current.clone();
        let others = object::list(current, &["status", "conditions"]).iter().filter(|one| one["type"] != "Dangling");
        let conditions: Vec<Value> = others.cloned().chain([condition.clone()]).collect();
        object::set(&mut object, &["status", "conditions"], conditions);
        object
    };
    own::change(server, &call, with).await
}
