//! Why every write happened: who wrote what when, and what woke the loop that wrote it.
//!
//! - `registry` calls [`Causes::note`] after every commit; nothing else writes here.
//! - A loop says why it writes in the header `Pintle-Cause` ([`header`]); one that cannot be read is dropped and
//!   counted, and the request goes on.
//! - A write belongs to the trace that its `traceparent` names, or else to that of the first write that caused it. So one
//!   traced request shows all that loops did for it, though loops pass no headers on to each other.
//! - What is kept is bounded in number, bytes and time ([`ring`]), lives in memory, and is gone after a restart. Where
//!   several servers share a store, each knows the writes that went through it.
//! - Paths and names are kept, values never: a Secret's content cannot be read here.

pub mod header;
mod hot;
mod paths;
pub mod record;
mod ring;
pub mod serve;
#[cfg(test)]
mod tests;
pub mod walk;

use crate::call::Call;
use crate::catalogue::Resource;
use crate::verb::Verb;
use crate::verbs::patch;
use jiff::Timestamp;
use pintle_meta::{TraceParent, object, trace};
use pintle_schema::diff::Diff;
use record::{Effect, Fields, Record};
use ring::Ring;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use header::HEADER;
pub use ring::LONGEST;

/// A write that was committed.
#[derive(Clone, Copy)]
pub struct Commit<'a> {
    pub call: &'a Call,
    /// In the version that is stored.
    pub resource: &'a Resource,
    pub manager: &'a str,
    pub effect: Effect,
    pub object: &'a Value,
    /// What it changed; nothing where the object is new or gone.
    pub diff: &'a Diff,
    pub revision: u64,
    pub now: Timestamp,
}

/// The writes of the last hour and their causes.
#[derive(Default)]
pub struct Causes {
    ring: Mutex<Ring>,
    dropped: AtomicU64,
}

impl Causes {
    /// Notes a write that was committed.
    pub fn note(&self, commit: &Commit<'_>) {
        let Commit { call, resource, manager, effect, object, diff, revision, now } = *commit;
        if is_left_out(resource) {
            return;
        }
        let cause = self.cause(call);
        let trace = self.trace(call, cause).map(|trace| trace.to_string());
        let fields = Fields {
            subresource: &call.path.subresource,
            group: &resource.group,
            kind: &resource.kind,
            resource: &resource.name,
            namespace: call.namespace(),
            name: object::name(object),
            uid: object::uid(object),
            user: &call.user.name,
            agent: manager,
            paths: &paths::changed(diff),
            cause,
            trace: trace.as_deref().unwrap_or_default(),
        };
        self.ring().push(Arc::new(Record::new(revision, now, verb(call), effect, &fields)));
    }

    /// The cause as it was sent, if it can be read.
    fn cause<'a>(&self, call: &'a Call) -> &'a str {
        let Some(value) = call.headers.get(HEADER) else { return "" };
        match value.to_str().ok().filter(|text| header::is_sound(text)) {
            Some(text) => text,
            None => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                ""
            }
        }
    }

    /// The trace that a write belongs to. The cause is parsed only while something that is kept is traced.
    fn trace(&self, call: &Call, cause: &str) -> Option<TraceParent> {
        let sent = call.headers.get(trace::HEADER).and_then(|sent| TraceParent::parse(sent.to_str().ok()?));
        if sent.is_some() || cause.is_empty() || !self.ring().is_traced() {
            return sent;
        }
        let because = header::read(cause)?.because;
        let ring = self.ring();
        because.iter().find_map(|because| ring.trace_of(because.revision.parse().ok()?))
    }

    /// Forgets what is too old, also while nobody writes.
    pub fn expire(&self, now: Timestamp) {
        self.ring().expire(now);
    }

    /// What is kept, in the order of revisions.
    pub fn records(&self, now: Timestamp) -> Vec<Arc<Record>> {
        let mut records = {
            let mut ring = self.ring();
            ring.expire(now);
            ring.records()
        };
        // Two commits may be noted in the other order.
        records.sort_by_key(|record| record.revision);
        records
    }

    /// Who wrote one object again and again within the last minute.
    pub fn hot(&self, now: Timestamp) -> Vec<Value> {
        hot::hot(&self.records(now), now)
    }

    /// How many headers could not be read.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many writes are kept, and their size in bytes.
    pub fn size(&self) -> (usize, usize) {
        let ring = self.ring();
        (ring.len(), ring.bytes())
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the write was asked for.
fn verb(call: &Call) -> &'static str {
    match call.verb {
        Verb::Create => "create",
        Verb::Patch if patch::is_apply(call) => "apply",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
        _ => "update",
    }
}

/// Leases and Events are written all the time and cause nothing.
fn is_left_out(resource: &Resource) -> bool {
    match resource.name.as_str() {
        "leases" => resource.group == "coordination.k8s.io",
        "events" => matches!(resource.group.as_str(), "" | "events.k8s.io"),
        _ => false,
    }
}
