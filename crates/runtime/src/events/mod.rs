//! Events about objects, for the people who read `kubectl describe`.
//!
//! - Recording never blocks and never fails: a full queue drops the event.
//! - Equal events become one with a count; many alike become one that says so; a chatty source is cut off.
//! - One task writes them, in order.

mod correlator;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use pintle_meta::{Clock, Random};
use serde_json::json;
use tokio::sync::mpsc;

use crate::error::ApiError;
use crate::shutdown::Shutdown;
use correlator::{Correlator, Outcome};

/// Events that may wait to be written.
const CAPACITY: usize = 1000;

/// How often a write is tried while the server cannot be reached.
const ATTEMPTS: u32 = 12;

/// Records events in the name of one component. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: String,
    host: String,
    clock: Clock,
    sender: mpsc::Sender<Event>,
}

impl Recorder {
    /// The node from which the events come, where it matters (kubelet).
    pub fn on_host(mut self, host: impl Into<String>) -> Self {
        self.host = host.into();
        self
    }

    /// Something expected happened.
    pub fn normal<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, message: impl Into<String>) {
        self.record(&reference(object), "Normal", reason, message.into());
    }

    /// Something went wrong.
    pub fn warning<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, message: impl Into<String>) {
        self.record(&reference(object), "Warning", reason, message.into());
    }

    /// An event about an object of which only the reference is at hand.
    pub fn record(&self, involved: &ObjectReference, kind: &str, reason: &str, message: String) {
        let event = self.make(involved, kind, reason, message);
        if let Err(mpsc::error::TrySendError::Full(event)) = self.sender.try_send(event) {
            let (reason, object) = (event.reason, event.involved_object.name);
            tracing::debug!(?reason, ?object, "event dropped: too many wait");
        }
    }

    fn make(&self, involved: &ObjectReference, kind: &str, reason: &str, message: String) -> Event {
        let now = Time(self.clock.now());
        let namespace = involved.namespace.clone().unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta { namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: involved.clone(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            type_: Some(kind.to_owned()),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: Some(self.host.clone()).filter(|host| !host.is_empty()),
            }),
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.host.clone()),
            ..Event::default()
        }
    }
}

/// A reference to an object as events carry it.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference { resource_version: object.meta().resource_version.clone(), ..object.object_ref(&()) }
}

/// Where recorders send their events; one a context.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    clock: Clock,
    sender: mpsc::Sender<Event>,
}

impl Sink {
    pub(crate) fn start(client: Client, clock: Clock, random: Random, shutdown: Shutdown) -> Self {
        let (sender, mut receiver) = mpsc::channel(CAPACITY);
        let mut writer = Writer { client, random, correlator: Correlator::new(clock.clone()), last_name: 0 };
        tokio::spawn(async move {
            let write_all = async {
                while let Some(event) = receiver.recv().await {
                    writer.write(event).await;
                }
            };
            tokio::select! {
                biased;
                () = write_all => {}
                () = shutdown.fired() => {}
            }
        });
        Sink { clock, sender }
    }

    pub(crate) fn recorder(&self, component: &str) -> Recorder {
        let (clock, sender) = (self.clock.clone(), self.sender.clone());
        Recorder { component: component.to_owned(), host: String::new(), clock, sender }
    }
}

struct Writer {
    client: Client,
    random: Random,
    correlator: Correlator,
    last_name: i128,
}

impl Writer {
    async fn write(&mut self, event: Event) {
        let Some(outcome) = self.correlator.correlate(event) else { return };
        for attempt in 0..ATTEMPTS {
            match self.write_once(&outcome).await {
                Ok(()) => return,
                // The server has answered; asking again would give the same answer.
                Err(error @ kube::Error::Api(_)) => {
                    tracing::debug!(%error, "event refused");
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, attempt, "event not written; trying again");
                    let wait = std::time::Duration::from_millis(10_000 + self.random.below(1000));
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    async fn write_once(&mut self, outcome: &Outcome) -> Result<(), kube::Error> {
        let namespace = outcome.event.metadata.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if let Some(name) = &outcome.known_as {
            let counted = json!({
                "count": outcome.event.count,
                "lastTimestamp": outcome.event.last_timestamp,
                "message": outcome.event.message,
            });
            match api.patch(name, &PatchParams::default(), &Patch::Strategic(counted)).await {
                Ok(_) => return Ok(()),
                // It has expired: write it anew.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let mut event = outcome.event.clone();
        event.metadata.name = Some(self.name_for(&event));
        let created = match api.create(&PostParams::default(), &event).await {
            Err(error) if error.is_already_exists() => {
                // Another process named one at the same nanosecond.
                self.last_name += i128::from(self.random.below(1 << 30));
                event.metadata.name = Some(self.name_for(&event));
                api.create(&PostParams::default(), &event).await?
            }
            other => other?,
        };
        self.correlator.written(outcome, created.metadata.name);
        Ok(())
    }

    /// The object's name and the time in nanoseconds, which never repeats here, even while virtual time stands still.
    fn name_for(&mut self, event: &Event) -> String {
        let time = event.last_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        self.last_name = time.as_nanosecond().max(self.last_name + 1);
        format!("{}.{:x}", event.involved_object.name.as_deref().unwrap_or_default(), self.last_name)
    }
}
