//! One task for each registered server: it looks whether the server can be asked, and reads what it serves, when its
//! APIService, its Service or its endpoints change, and from time to time.

use super::{Registered, Told, availability, discovery, openapi};
use crate::ApiServer;
use crate::codec;
use crate::keys;
use crate::outbound::service::SERVICE_NAME;
use crate::own::Watches;
use pintle_meta::{Status, object};
use pintle_store::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// After an error everything is looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// A server is looked at without a reason so often.
const RESYNC: Duration = Duration::from_secs(30);
/// What a server serves is read again so often.
const REFRESH: Duration = Duration::from_secs(60);
/// One that did not answer is asked again after this; each time twice as late, until it is looked at anyway.
const RETRY: Duration = Duration::from_millis(500);

/// Runs until the server stops.
pub async fn run(server: ApiServer) {
    let mut keeper = Keeper::default();
    while !server.is_stopping() {
        if let Err(status) = keeper.follow(&server).await {
            tracing::warn!(%status, "registered API servers are not looked after");
        }
        server.pause(AGAIN).await;
    }
}

#[derive(Default)]
struct Keeper {
    /// By the names of their APIServices.
    tasks: BTreeMap<String, Task>,
}

struct Task {
    server: Arc<Kept>,
    running: JoinHandle<()>,
}

/// What the task of a server shares with who wakes it.
struct Kept {
    name: String,
    registered: Mutex<Arc<Registered>>,
    /// What was found last, which the APIService should say.
    found: AtomicBool,
    changed: Notify,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Keeper {
    /// Looks at everything once, then at what changes.
    async fn follow(&mut self, server: &ApiServer) -> Result<(), Status> {
        let mut services = Watches::open(server, &[keys::API_SERVICES])?;
        // Services and endpoints are watched only where they matter.
        let mut surroundings = None;
        let mut names = self.everything(server).await?;
        loop {
            if surroundings.is_none() && !server.registry.catalogue.current().await.registrations().is_empty() {
                surroundings = Some(Watches::open(server, &[keys::SERVICES, keys::ENDPOINT_SLICES])?);
            }
            for name in std::mem::take(&mut names) {
                self.settle(server, &name).await?;
            }
            if self.tasks.is_empty() {
                surroundings = None;
            }
            let around = async {
                match &mut surroundings {
                    Some(watches) => watches.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = server.stopping() => return Ok(()),
                events = services.next() => {
                    let events = events?;
                    names.extend(events.iter().filter_map(|event| keys::rest(&event.entry.key, keys::API_SERVICES)).map(str::to_owned));
                }
                events = around => events?.iter().for_each(|event| self.wake(event)),
            }
        }
    }

    async fn everything(&self, server: &ApiServer) -> Result<BTreeSet<String>, Status> {
        let catalogue = server.registry.catalogue.current().await;
        let known = catalogue.registrations().all().map(|(name, _)| name.clone());
        Ok(known.chain(self.tasks.keys().cloned()).collect())
    }

    /// Starts, wakes or ends the task of an APIService that changed.
    async fn settle(&mut self, server: &ApiServer, name: &str) -> Result<(), Status> {
        let catalogue = server.registry.catalogue.current().await;
        let Some(registered) = catalogue.registrations().get(name) else {
            if self.tasks.remove(name).is_some() {
                server.registry.catalogue.amend(|catalogue| catalogue.tell(name, None)).await;
            }
            return availability::write_local(server, name).await;
        };
        match self.tasks.get(name) {
            Some(task) => task.server.is_now(registered),
            None => {
                let kept = Arc::new(Kept {
                    name: name.to_owned(),
                    registered: Mutex::new(registered.clone()),
                    found: AtomicBool::new(false),
                    changed: Notify::new(),
                });
                let running = tokio::spawn(keep(server.clone(), kept.clone()));
                self.tasks.insert(name.to_owned(), Task { server: kept, running });
            }
        }
        Ok(())
    }

    /// Wakes those whose Service or endpoints changed.
    fn wake(&self, event: &Event) {
        // A slice that was given to another Service is missing at the one that it was of.
        for entry in std::iter::once(&event.entry).chain(&event.previous) {
            let (namespace, name) = match keys::rest(&entry.key, keys::SERVICES).and_then(|rest| rest.split_once('/')) {
                Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
                None => {
                    let slice = codec::decode(&entry.value);
                    let service = object::text(&slice, &["metadata", "labels", SERVICE_NAME]).to_owned();
                    (object::namespace(&slice).to_owned(), service)
                }
            };
            for task in self.tasks.values() {
                let registered = task.server.registered();
                if registered.service.namespace == namespace && registered.service.name == name {
                    task.server.changed.notify_one();
                }
            }
        }
    }
}

impl Kept {
    fn registered(&self) -> Arc<Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the task itself wrote is no reason to look again.
    fn is_now(&self, registered: &Arc<Registered>) {
        let before =
            std::mem::replace(&mut *self.registered.lock().unwrap_or_else(PoisonError::into_inner), registered.clone());
        if !before.leads_where(registered) || registered.is_available != self.found.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }
}

/// Looks after one server until it is not registered any more.
async fn keep(server: ApiServer, kept: Arc<Kept>) {
    let mut retry = RETRY;
    let mut read: Option<(Instant, Arc<Registered>)> = None;
    loop {
        let registered = kept.registered();
        let found = look(&server, &kept, &registered).await;
        let is_due = read.as_ref().is_none_or(|(at, of)| at.elapsed() >= REFRESH || !of.leads_where(&registered));
        if is_due || !found {
            let is_current = tell(&server, &kept, &registered, found).await;
            read = is_current.then(|| (Instant::now(), registered.clone()));
        }
        let pause = if read.is_some() { RESYNC } else { retry };
        retry = if read.is_some() { RETRY } else { (2 * retry).min(RESYNC) };
        tokio::select! {
            biased;
            () = kept.changed.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Whether the server can be asked; its APIService says so then.
async fn look(server: &ApiServer, kept: &Kept, registered: &Registered) -> bool {
    let written = async {
        let finding = availability::check(server, registered).await?;
        kept.found.store(finding.is_good(), Ordering::Release);
        availability::write(server, &kept.name, &finding).await?;
        Ok::<bool, Status>(finding.is_good())
    };
    written.await.unwrap_or_else(|status| {
        tracing::warn!(service = kept.name, %status, "whether a registered API server is available is not known");
        false
    })
}

/// Reads what a server serves, for this server's own documents. False if it could not be read.
async fn tell(server: &ApiServer, kept: &Kept, registered: &Registered, is_available: bool) -> bool {
    let known = server.registry.catalogue.latest();
    let before = known.registrations().told(&registered.group, &registered.version).cloned().unwrap_or_default();
    let stale = || Told { resources: "[]".to_owned(), is_stale: true, documents: before.documents.clone() };
    let told = match is_available {
        false => stale(),
        true => match discovery::resources(server, registered).await {
            Ok(resources) => {
                let documents = openapi::documents(server, registered, &before.documents).await;
                Told { resources, is_stale: false, documents }
            }
            Err(error) => {
                tracing::info!(service = kept.name, %error, "what a registered API server serves is not known");
                stale()
            }
        },
    };
    let is_current = !told.is_stale;
    if *before != told {
        let told = Arc::new(told);
        server.registry.catalogue.amend(|catalogue| catalogue.tell(&kept.name, Some(&told))).await;
    }
    is_current
}
