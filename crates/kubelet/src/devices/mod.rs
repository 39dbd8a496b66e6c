//! Device plugins: programs on the node that offer its devices to Pods, as a resource such as `example.com/lamp`.
//!
//! # Layout
//!
//! - `messages`: the protocol, v1beta1
//! - `server`: where plugins register
//! - `plugin`: what a plugin is asked; `offer`: the plugin's own side
//! - `books`: what devices there are and who has which; `checkpoint`: the same on the disk
//! - `allot`: which devices a container gets; `give`: what comes with them

mod allot;
mod books;
mod checkpoint;
mod give;
pub mod messages;
pub mod offer;
mod plugin;
#[cfg(test)]
pub(crate) mod scripted;
mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ResourceStatus;
use pintle_meta::Clock;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use allot::Refused;
pub(crate) use books::Amounts;
use books::Books;
pub(crate) use give::may_ask;
use messages::{Device, DevicePluginOptions};
pub use plugin::{Lists, Plugin};
pub use tonic::Status;

/// The socket of the node agent, beside those of the plugins.
const SOCKET: &str = "kubelet.sock";

/// How soon it is tried again to serve a directory that cannot be served.
const SERVE_AGAIN: Duration = Duration::from_secs(10);

/// Plugins that have registered and are not watched yet.
const ARRIVALS: usize = 16;

/// The devices of one node.
pub(crate) struct Devices {
    directory: PathBuf,
    checkpoint: PathBuf,
    clock: Clock,
    state: Mutex<State>,
    // Lock order: turn before written before state.
    /// Containers are served one after the other: nothing is chosen twice while a plugin is asked.
    turn: tokio::sync::Mutex<()>,
    /// The checkpoint as it is on the disk.
    written: tokio::sync::Mutex<String>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    books: Books,
    plugins: BTreeMap<String, Registered>,
    registrations: u64,
    /// What was remembered is lost: the Node may offer what nobody has.
    doubtful: bool,
}

/// The plugin that counts for a resource.
struct Registered {
    plugin: Arc<dyn Plugin>,
    options: DevicePluginOptions,
    /// Dropped when another takes its place, which ends the watch.
    _place: oneshot::Sender<()>,
}

/// A plugin whose devices are to be followed.
struct Watch {
    resource: String,
    registration: u64,
    plugin: Arc<dyn Plugin>,
    replaced: oneshot::Receiver<()>,
}

impl Devices {
    /// Remembers what was given before; plugins can register as soon as it runs.
    pub(crate) fn new(directory: PathBuf, checkpoint: PathBuf, clock: Clock) -> Self {
        let read = checkpoint::read(&checkpoint);
        let doubtful = read.is_err();
        let read = read.unwrap_or_else(|why| {
            let file = checkpoint.display();
            tracing::error!(%file, why, "nobody knows which Pods have which devices: the file is begun anew");
            None
        });
        let (held, registered) = read.unwrap_or_default();
        let books = Books::recalled(held, registered, clock.now());
        Devices {
            directory,
            checkpoint,
            clock,
            state: Mutex::new(State { books, doubtful, ..State::default() }),
            turn: tokio::sync::Mutex::default(),
            written: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Serves plugins and follows their devices until dropped.
    pub(crate) async fn run(self: &Arc<Self>) {
        let mut said = None;
        let open = loop {
            match server::open(&self.directory) {
                Ok(open) => break open,
                Err(message) => {
                    // Once, not every ten seconds.
                    if said.as_ref() != Some(&message) {
                        tracing::warn!("{message}");
                        said = Some(message);
                    }
                    tokio::time::sleep(SERVE_AGAIN).await;
                }
            }
        };
        let (arrivals, mut arriving) = mpsc::channel(ARRIVALS);
        let registration = server::Registration { devices: self.clone(), arrivals };
        let mut serve = std::pin::pin!(pintle_container::grpc::server::serve(open.listener, registration));
        let mut watches = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = &mut serve => return,
                Some(watch) = arriving.recv() => watches.push(self.watch(watch)),
                Some(()) = watches.next() => {}
            }
        }
    }

    /// Changes whenever devices do.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Hears which resources the Node names. After what was remembered is lost, those that could be of plugins count as such:
    /// there is nothing of them until a plugin says so.
    pub(crate) fn hear<'a>(&self, named: impl Iterator<Item = &'a String>) {
        let now = self.clock.now();
        let mut state = self.state();
        if std::mem::take(&mut state.doubtful) {
            named.filter(|name| server::is_extended(name)).for_each(|name| state.books.recall(name, now));
        }
    }

    /// What the Node is to say now.
    pub(crate) async fn amounts(&self) -> Amounts {
        let expired = self.state().books.expire(self.clock.now());
        if expired {
            self.remember().await;
        }
        self.state().books.amounts()
    }

    /// The Pods that have devices of a resource, by UID.
    pub(crate) fn holders(&self, resource: &str) -> Vec<String> {
        self.state().books.holders(resource).into_iter().collect()
    }

    /// All Pods that have devices, by UID.
    pub(crate) fn pods(&self) -> Vec<String> {
        self.state().books.held().keys().cloned().collect()
    }

    pub(crate) fn statuses(&self, pod: &str, container: &str) -> Vec<ResourceStatus> {
        self.state().books.statuses(pod, container)
    }

    /// The Pod has ended, or has never begun: others may have what it had.
    pub(crate) async fn release(&self, pod: &str) {
        let released = self.state().books.release(pod);
        if released {
            self.remember().await;
        }
    }

    /// Puts a plugin in its place. From then on it is the one that is asked.
    async fn take_on(&self, resource: &str, plugin: Arc<dyn Plugin>) -> Result<Watch, Status> {
        let options = plugin.options().await.map_err(|status| {
            Status::new(status.code(), format!("failed to get device plugin options: {}", status.message()))
        })?;
        let (place, replaced) = oneshot::channel();
        let registration = {
            let mut state = self.state();
            state.registrations += 1;
            let registration = state.registrations;
            state.books.register(resource, registration);
            let registered = Registered { plugin: plugin.clone(), options, _place: place };
            state.plugins.insert(resource.to_owned(), registered);
            registration
        };
        self.remember().await;
        Ok(Watch { resource: resource.to_owned(), registration, plugin, replaced })
    }

    /// Follows what a plugin says of its devices until it ends or another takes its place.
    async fn watch(&self, watch: Watch) {
        let Watch { resource, registration, plugin, replaced } = watch;
        let follow = async {
            let mut lists = plugin.list_and_watch().await?;
            while let Some(list) = lists.next().await {
                self.report(&resource, registration, list?.devices);
            }
            Ok::<_, Status>(())
        };
        tokio::select! {
            biased;
            _ = replaced => {}
            ended = follow => {
                let why = ended.err().map_or_else(|| "it has ended".to_owned(), |status| status.message().to_owned());
                tracing::warn!(resource, why, "the device plugin is away; its devices cannot be had until it registers again");
                self.state().books.leave(&resource, registration, self.clock.now());
                self.tell();
            }
        }
    }

    fn report(&self, resource: &str, registration: u64, devices: Vec<Device>) {
        if self.state().books.report(resource, registration, devices) {
            self.tell();
        }
    }

    fn tell(&self) {
        self.changes.send_modify(|change| *change = change.wrapping_add(1));
    }

    /// Writes down who has what, if that has changed, and says so if it cannot.
    async fn remember(&self) {
        if let Err(message) = self.save().await {
            tracing::error!("{message}");
        }
    }

    async fn save(&self) -> Result<(), String> {
        let mut written = self.written.lock().await;
        let text = checkpoint::text(&self.state().books);
        if *written == text {
            return Ok(());
        }
        let (path, content) = (self.checkpoint.clone(), text.clone());
        let done = tokio::task::spawn_blocking(move || checkpoint::write(&path, &content)).await;
        let why = match done {
            Ok(Ok(())) => {
                *written = text;
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(format!("failed to write checkpoint file {:?}: {why}", self.checkpoint.display().to_string()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
