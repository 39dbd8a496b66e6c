//! Objects that say what this server serves, kept as long as it is true: an APIService for every version of every group, an
//! IPAddress for every address of a Service, the range that these are from.
//!
//! Bootstrap writes those of built-in kinds, and a Service's IPAddress is written in the transaction of the Service. This
//! loop follows custom resource definitions, and writes again what somebody deleted.

pub mod addresses;
pub mod api_services;
pub mod servers;

use crate::ApiServer;
use crate::bootstrap::write_missing;
use crate::codec;
use crate::custom::Definition;
use crate::keys;
use crate::own::{Watches, commit_unless_changed};
use crate::registry::read_error;
use pintle_meta::{Status, object};
use pintle_store::{Entry, Event, EventKind, Expect, Op, Range, Txn};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// After an error all is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// What changes what has to be there.
const WATCHED: [&str; 4] = [keys::DEFINITIONS, keys::API_SERVICES, keys::IP_ADDRESSES, keys::SERVICE_CIDRS];

/// What is to be looked at.
#[derive(Default)]
struct Pending {
    /// Versions and groups, as APIServices are named: `v1.example.com`.
    versions: BTreeSet<String>,
    addresses: BTreeSet<String>,
    range: bool,
}

/// Runs until the server stops.
pub async fn run(server: ApiServer) {
    while !server.is_stopping() {
        if let Err(status) = follow(&server).await {
            tracing::warn!(%status, "what the server says about itself is not up to date");
        }
        server.pause(AGAIN).await;
    }
}

/// Looks at everything once, then at what changes.
async fn follow(server: &ApiServer) -> Result<(), Status> {
    let mut watches = Watches::open(server, &WATCHED)?;
    let mut pending = everything(server).await?;
    loop {
        settle(server, std::mem::take(&mut pending)).await?;
        let events = tokio::select! {
            biased;
            () = server.stopping() => return Ok(()),
            events = watches.next() => events?,
        };
        events.iter().for_each(|event| pending.note(event));
    }
}

async fn everything(server: &ApiServer) -> Result<Pending, Status> {
    let store = &server.registry.store;
    let list = async |prefix: &str| store.range(Range::prefix(prefix)).await.map_err(read_error);
    let mut pending = Pending { range: true, ..Pending::default() };
    list(keys::DEFINITIONS).await?.entries.iter().for_each(|entry| pending.note_versions(entry));
    let known = list(keys::API_SERVICES).await?;
    pending.versions.extend(known.entries.iter().filter_map(|entry| name(entry, keys::API_SERVICES)));
    pending.versions.extend(api_services::BUILT_IN.iter().map(|row| api_services::name(row.0, row.1)));
    let held = list(keys::SERVICE_ADDRESSES).await?;
    pending.addresses.extend(held.entries.iter().filter_map(|entry| name(entry, keys::SERVICE_ADDRESSES)));
    Ok(pending)
}

fn name(entry: &Entry, prefix: &str) -> Option<String> {
    keys::rest(&entry.key, prefix).map(str::to_owned)
}

impl Pending {
    fn note(&mut self, event: &Arc<Event>) {
        if event.entry.key.starts_with(keys::DEFINITIONS) {
            self.note_versions(&event.entry);
            event.previous.iter().for_each(|before| self.note_versions(before));
        } else if event.kind == EventKind::Delete {
            self.versions.extend(name(&event.entry, keys::API_SERVICES));
            self.addresses.extend(name(&event.entry, keys::IP_ADDRESSES));
            self.range |= event.entry.key.starts_with(keys::SERVICE_CIDRS);
        }
    }

    fn note_versions(&mut self, definition: &Entry) {
        let Some(definition) = Definition::read(definition) else { return };
        let group = definition.group();
        self.versions.extend(definition.versions().map(|version| api_services::name(group, version)));
    }
}

async fn settle(server: &ApiServer, pending: Pending) -> Result<(), Status> {
    for name in pending.versions {
        api_service(server, &name).await?;
    }
    for address in pending.addresses {
        show_address(server, &address).await?;
    }
    if pending.range {
        while !write_missing(server, &[addresses::range(&server.registry.clock.now_rfc3339())]).await? {}
    }
    Ok(())
}

async fn api_service(server: &ApiServer, name: &str) -> Result<(), Status> {
    let Some((version, group)) = name.split_once('.') else { return Ok(()) };
    let served = server.registry.catalogue.current().await.of_group_version(group, version).next().is_some();
    if served {
        if let Some(object) = api_services::object(group, version) {
            while !write_missing(server, std::slice::from_ref(&object)).await? {}
        }
        return Ok(());
    }
    let key: Arc<str> = keys::named(keys::API_SERVICES, name).into();
    let store = &server.registry.store;
    let Some(entry) = store.get(&key).await.map_err(read_error)? else { return Ok(()) };
    if !api_services::is_kept(&codec::decode(&entry.value)) {
        return Ok(());
    }
    let checks = vec![(key.clone(), Expect::Revision(entry.mod_revision))];
    let txn = Txn { checks, ops: vec![Op::Delete { key }], ..Txn::default() };
    commit_unless_changed(server, txn).await
}

/// Writes the IPAddress of an address that a Service holds, if it is missing.
async fn show_address(server: &ApiServer, address: &str) -> Result<(), Status> {
    let (registry, store) = (&server.registry, &server.registry.store);
    let claim: Arc<str> = keys::named(keys::SERVICE_ADDRESSES, address).into();
    let Some(held) = store.get(&claim).await.map_err(read_error)? else { return Ok(()) };
    let holder = String::from_utf8_lossy(&held.value).into_owned();
    let Some(service) = store.get(&holder).await.map_err(read_error)? else { return Ok(()) };
    let service = codec::decode(&service.value);
    let mut txn = Txn::default();
    let shown = addresses::ip_address(address, object::namespace(&service), object::name(&service));
    let Some(key) = registry.show(&mut txn, shown) else { return Ok(()) };
    txn.checks = vec![(claim, Expect::Revision(held.mod_revision)), (key, Expect::Absent)];
    // A conflict: it is there already, or the Service let go of the address.
    commit_unless_changed(server, txn).await
}
