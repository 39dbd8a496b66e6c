//! Traces of reconciles: the spans that a loop's work becomes, and where they go.
//!
//! - A reconcile belongs to the trace of what woke it: the annotation `tracing.k8s.io/traceparent` of an object that changed,
//!   which is where KEP-5915 has writers leave it. Without one a reconcile that did something begins a trace of its own.
//! - Inside a reconcile every write sends `traceparent`, and every object that the executor creates carries the
//!   annotation on, so that the next loop finds it. Where nothing is traced, nothing is sent and nothing is annotated.
//! - Spans go to a [`Spans`] of the process's choice ([`Context::export_to`](crate::Context::export_to)); with the feature `otlp` there is
//!   one that sends them to a collector ([`otlp`]).

#[cfg(feature = "otlp")]
pub mod otlp;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_meta::trace::ANNOTATION;
pub use pintle_meta::trace::TraceParent;
use serde_json::Value;

use crate::key::Key;

/// A reconcile that has ended.
#[derive(Clone, Debug)]
pub struct Span {
    pub controller: Arc<str>,
    pub key: Key,
    /// 1 for the first try since the last success.
    pub attempt: u32,
    /// The identity of this span.
    pub trace: TraceParent,
    /// What it continues, if something that woke it was traced.
    pub parent: Option<TraceParent>,
    pub started: Timestamp,
    pub ended: Timestamp,
    /// What went wrong.
    pub error: Option<String>,
}

/// Where spans go. It must not block: a loop waits for it.
pub trait Spans: Send + Sync {
    fn ended(&self, span: Span);
}

/// The trace that an object's last writer left in it.
pub fn of(meta: &ObjectMeta) -> Option<TraceParent> {
    TraceParent::parse(meta.annotations.as_ref()?.get(ANNOTATION)?)
}

/// Leaves a trace in an object for the loops that will see it; a trace that is there stays.
pub fn annotate(meta: &mut ObjectMeta, trace: TraceParent) {
    let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
    annotations.entry(ANNOTATION.to_owned()).or_insert_with(|| trace.to_string());
}

/// The same for an object whose kind is not known.
pub(crate) fn annotate_value(object: &mut Value, trace: TraceParent) {
    let annotations = &mut object["metadata"]["annotations"];
    if annotations.is_null() || annotations.is_object() && annotations.get(ANNOTATION).is_none() {
        annotations[ANNOTATION] = trace.to_string().into();
    }
}

/// Identifies one reconcile in logs and traces: shown as a UUID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReconcileId(pub(crate) u64, pub(crate) u64);

impl ReconcileId {
    /// The span of this reconcile: of the trace that it continues, or of one of its own.
    pub(crate) fn span(self, parent: Option<TraceParent>) -> TraceParent {
        match parent {
            Some(parent) => parent.child(self.1),
            None => TraceParent::root(u128::from(self.0) << 64 | u128::from(self.1), self.0 ^ self.1.rotate_left(32)),
        }
    }
}

impl fmt::Display for ReconcileId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let high = (self.0 & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000;
        let low = (self.1 & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000;
        let (a, b, c) = (high >> 32, (high >> 16) & 0xFFFF, high & 0xFFFF);
        write!(formatter, "{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xFFFF_FFFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_keeps_the_trace_that_its_owner_gave_it() {
        let (one, two) = (TraceParent::root(1, 1), TraceParent::root(2, 2));
        let mut meta = ObjectMeta::default();
        annotate(&mut meta, one);
        annotate(&mut meta, two);
        assert_eq!(of(&meta), Some(one));
        let mut object = json!({"metadata": {"name": "web", "annotations": {"a": "b"}}});
        annotate_value(&mut object, two);
        annotate_value(&mut object, one);
        assert_eq!(object["metadata"]["annotations"], json!({"a": "b", ANNOTATION: two.to_string()}));
    }

    #[test]
    fn a_reconcile_is_named_by_a_uuid_and_continues_what_woke_it() {
        let id = ReconcileId(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        assert_eq!(id.to_string(), "01234567-89ab-4def-bedc-ba9876543210");
        let parent = TraceParent::root(7, 7);
        assert_eq!(id.span(Some(parent)).trace_id(), parent.trace_id());
        assert_ne!(id.span(None).trace_id(), parent.trace_id());
    }
}
