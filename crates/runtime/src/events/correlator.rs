//! Decides what becomes of an event: written anew, counted on one already written, merged with its like, or dropped.
//!
//! The limits are client-go's: 10 alike within 10 minutes are merged; a source may say 25 things about an object at
//! once and one every 5 minutes after that; 4096 are remembered.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_meta::Clock;

const REMEMBERED: usize = 4096;
const ALIKE: usize = 10;
const ALIKE_WITHIN: SignedDuration = SignedDuration::from_mins(10);
const BURST: f64 = 25.0;
const REFILL_A_SECOND: f64 = 1.0 / 300.0;

pub(super) struct Correlator {
    clock: Clock,
    written: Recent<Written>,
    alike: Recent<Alike>,
    buckets: Recent<Bucket>,
}

/// What to do with an event.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) event: Event,
    /// The name of the written event to count this on.
    pub(super) known_as: Option<String>,
    identity: Identity,
}

type Identity = Vec<String>;

struct Written {
    name: String,
    count: i32,
    first: Option<Time>,
}

struct Alike {
    messages: BTreeSet<String>,
    last: Timestamp,
}

struct Bucket {
    tokens: f64,
    filled: Timestamp,
}

impl Correlator {
    pub(super) fn new(clock: Clock) -> Self {
        Correlator { clock, written: Recent::new(), alike: Recent::new(), buckets: Recent::new() }
    }

    /// `None` if the source has said too much about this object.
    pub(super) fn correlate(&mut self, mut event: Event) -> Option<Outcome> {
        let group = group_of(&event);
        let message = event.message.clone().unwrap_or_default();
        let mut identity = group.clone();
        if self.are_many(group, &message) {
            event.message = Some(format!("(combined from similar events): {message}"));
        } else {
            identity.push(message);
        }
        if !self.may_speak(speaker_of(&event)) {
            return None;
        }
        let known = self.written.get_mut(&identity);
        let known_as = known.map(|written| {
            written.count += 1;
            event.count = Some(written.count);
            event.first_timestamp = written.first.clone();
            written.name.clone()
        });
        Some(Outcome { event, known_as, identity })
    }

    /// The server has it under this name.
    pub(super) fn written(&mut self, outcome: &Outcome, name: Option<String>) {
        let Some(name) = name else { return };
        let (count, first) = (outcome.event.count.unwrap_or(1), outcome.event.first_timestamp.clone());
        self.written.insert(outcome.identity.clone(), Written { name, count, first });
    }

    fn are_many(&mut self, group: Identity, message: &str) -> bool {
        let now = self.clock.now();
        self.alike.update(group, Alike { messages: BTreeSet::new(), last: now }, |alike| {
            if now.duration_since(alike.last) > ALIKE_WITHIN {
                alike.messages.clear();
            }
            alike.last = now;
            // Equal messages are counted, not merged, so only different ones add up.
            if alike.messages.len() < ALIKE {
                alike.messages.insert(message.to_owned());
            }
            alike.messages.len() >= ALIKE
        })
    }

    fn may_speak(&mut self, speaker: Identity) -> bool {
        let now = self.clock.now();
        self.buckets.update(speaker, Bucket { tokens: BURST, filled: now }, |bucket| {
            let passed = now.duration_since(bucket.filled).as_secs_f64();
            bucket.tokens = (bucket.tokens + passed * REFILL_A_SECOND).min(BURST);
            bucket.filled = now;
            let may = bucket.tokens >= 1.0;
            if may {
                bucket.tokens -= 1.0;
            }
            may
        })
    }
}

/// Events that differ only in their message.
fn group_of(event: &Event) -> Identity {
    let mut group = speaker_of(event);
    group.push(event.reason.clone().unwrap_or_default());
    group
}

/// Who speaks about what, in which tone.
fn speaker_of(event: &Event) -> Identity {
    let (source, involved) = (event.source.clone().unwrap_or_default(), &event.involved_object);
    let parts = [
        &source.component,
        &source.host,
        &involved.kind,
        &involved.namespace,
        &involved.name,
        &involved.uid,
        &involved.api_version,
        &event.type_,
        &involved.field_path,
    ];
    parts.into_iter().map(|part| part.clone().unwrap_or_default()).collect()
}

/// A map that forgets what was used longest ago.
struct Recent<V> {
    entries: BTreeMap<Identity, (u64, V)>,
    by_use: BTreeMap<u64, Identity>,
    uses: u64,
}

impl<V> Recent<V> {
    fn new() -> Self {
        Recent { entries: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    fn get_mut(&mut self, identity: &Identity) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(identity)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, identity.clone());
        Some(value)
    }

    fn insert(&mut self, identity: Identity, value: V) {
        self.uses += 1;
        self.by_use.insert(self.uses, identity.clone());
        if let Some((used, _)) = self.entries.insert(identity, (self.uses, value)) {
            self.by_use.remove(&used);
        }
        if self.entries.len() > REMEMBERED
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    /// Changes the value of an identity, which is made fresh if it is not remembered.
    fn update<T>(&mut self, identity: Identity, fresh: V, change: impl FnOnce(&mut V) -> T) -> T {
        let mut value = match self.entries.remove(&identity) {
            Some((used, value)) => {
                self.by_use.remove(&used);
                value
            }
            None => fresh,
        };
        let result = change(&mut value);
        self.insert(identity, value);
        result
    }
}
