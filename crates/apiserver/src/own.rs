//! What the server's own loops share: they watch several kinds at once, and change objects that may be gone meanwhile.

use crate::ApiServer;
use crate::call::Call;
use crate::notes::Notes;
use crate::registry::{Change, read_error};
use futures::future::select_all;
use pintle_meta::Status;
use pintle_store::{CommitError, Event, Txn, Watch};
use serde_json::Value;
use std::sync::Arc;

/// Changes under several prefixes, from the moment at which this was opened.
pub struct Watches(Vec<Watch>);

impl Watches {
    pub fn open(server: &ApiServer, prefixes: &[&str]) -> Result<Self, Status> {
        let store = &server.registry.store;
        let after = store.revision();
        let watches: Result<Vec<Watch>, _> = prefixes.iter().map(|prefix| store.watch(prefix, after)).collect();
        Ok(Watches(watches.map_err(read_error)?))
    }

    /// The next changes under one of the prefixes; an error if a watch was lost.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Status> {
        let (events, ..) = select_all(self.0.iter_mut().map(|watch| Box::pin(watch.next()))).await;
        events.map_err(read_error)
    }
}

/// Changes an object. One that is gone needs no change.
pub async fn change(
    server: &ApiServer,
    call: &Call,
    with: impl Fn(&Value) -> Value + Send + Sync,
) -> Result<(), Status> {
    let mut gone = false;
    let change = |current: Option<&Value>| match current {
        Some(current) => Ok(Change::new(with(current))),
        None => {
            gone = true;
            Err(Status::not_found(&call.path.group, &call.path.resource, &call.path.name))
        }
    };
    let changed = server.registry.update(call, &Notes::new(), change).await;
    if gone { Ok(()) } else { changed.map(|_| ()).map_err(Status::from) }
}

/// Commits what is right only as things are. If somebody changed them, that is looked at next.
pub async fn commit_unless_changed(server: &ApiServer, txn: Txn) -> Result<(), Status> {
    match server.registry.store.commit(txn).await {
        Ok(_) | Err(CommitError::Conflict { .. }) => Ok(()),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}
