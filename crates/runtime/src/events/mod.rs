//! Events about objects, for the people who read `kubectl describe`.
//!
//! - Recording never blocks and never fails: a full queue drops the event, and counts it (`pintle_events_dropped_total`).
//! - Equal events become one with a count; many alike become one that says so; a chatty source is cut off.
//! - A few tasks write them, each those of its objects: an object's events are in order, and a request that hangs holds up no
//!   events of other tasks.

mod correlator;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use pintle_meta::{Clock, Random};
use serde_json::json;
use tokio::sync::mpsc;

use crate::error::ApiError;
use crate::serve::Metrics;
use crate::shutdown::Shutdown;
use correlator::{Correlator, Outcome};

/// Tasks that write.
const WRITERS: usize = 4;

/// Events that may wait for each of them.
const CAPACITY: usize = 1000;

/// How often a write is tried while the server cannot be reached.
const ATTEMPTS: u32 = 12;

/// Records events in the name of one component. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: String,
    host: String,
    sink: Sink,
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

    /// Something expected happened to an object because of another one; `what` is the reason and the action.
    pub fn normal_because<K, L>(&self, object: &K, other: &L, what: (&str, &str), message: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
        L: Resource<DynamicType = ()>,
    {
        let (reason, action) = what;
        let event = self.make(&reference(object), "Normal", reason, message.into());
        self.send(Event { related: Some(reference(other)), action: Some(action.to_owned()), ..event });
    }

    /// An event about an object of which only the reference is at hand.
    pub fn record(&self, involved: &ObjectReference, kind: &str, reason: &str, message: String) {
        self.send(self.make(involved, kind, reason, message));
    }

    fn send(&self, event: Event) {
        let writer = &self.sink.writers[writer_of(&event.involved_object)];
        if let Err(mpsc::error::TrySendError::Full(event)) = writer.try_send(event) {
            let (reason, object) = (event.reason, event.involved_object.name);
            self.sink.dropped.event_dropped();
            tracing::debug!(?reason, ?object, "event dropped: too many wait");
        }
    }

    fn make(&self, involved: &ObjectReference, kind: &str, reason: &str, message: String) -> Event {
        let now = Time(self.sink.clock.now());
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

/// Where recorders send their events; one per context.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    clock: Clock,
    writers: [mpsc::Sender<Event>; WRITERS],
    dropped: Metrics,
}

impl Sink {
    pub(crate) fn start(client: &Client, clock: Clock, random: &Random, metrics: Metrics, shutdown: &Shutdown) -> Self {
        let names = Names::default();
        let writers = [(); WRITERS].map(|()| {
            let (sender, mut receiver) = mpsc::channel(CAPACITY);
            let (client, random, names) = (client.clone(), random.clone(), names.clone());
            let mut writer = Writer { client, random, correlator: Correlator::new(clock.clone()), names };
            let shutdown = shutdown.clone();
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
            sender
        });
        Sink { clock, writers, dropped: metrics }
    }

    pub(crate) fn recorder(&self, component: &str) -> Recorder {
        Recorder { component: component.to_owned(), host: String::new(), sink: self.clone() }
    }
}

/// Always the same one for an object.
fn writer_of(involved: &ObjectReference) -> usize {
    let parts = [&involved.namespace, &involved.name, &involved.kind];
    let bytes = parts.into_iter().flatten().flat_map(|part| part.bytes());
    // FNV-1a: few bytes, and no seed that differs from run to run.
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    usize::try_from(hash % WRITERS as u64).unwrap_or(0)
}

/// The number in the name of the last event. Numbers never repeat here, even while virtual time stands still.
#[derive(Clone, Debug, Default)]
struct Names(Arc<Mutex<i128>>);

impl Names {
    fn next(&self, time: Timestamp, skipped: u64) -> i128 {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = time.as_nanosecond().max(*last + 1 + i128::from(skipped));
        *last
    }
}

struct Writer {
    client: Client,
    random: Random,
    correlator: Correlator,
    names: Names,
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
        event.metadata.name = Some(self.name_for(&event, 0));
        let created = match api.create(&PostParams::default(), &event).await {
            Err(error) if error.is_already_exists() => {
                // Another process named one at the same nanosecond.
                event.metadata.name = Some(self.name_for(&event, self.random.below(1 << 30)));
                api.create(&PostParams::default(), &event).await?
            }
            other => other?,
        };
        self.correlator.written(outcome, created.metadata.name);
        Ok(())
    }

    /// The object's name and the time in nanoseconds.
    fn name_for(&self, event: &Event, skipped: u64) -> String {
        let time = event.last_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let number = self.names.next(time, skipped);
        format!("{}.{number:x}", event.involved_object.name.as_deref().unwrap_or_default())
    }
}
