//! What a watcher sees: events as lines, in the version, shape and selection that it asked for.

use super::ring::Batch;
use crate::ApiServer;
use crate::catalogue::Resource;
use crate::notation::{EVENT_BYTES, Notation};
use crate::registry::selected;
use crate::request::Query;
use crate::response::{Shape, Wanted};
use crate::{codec, table};
use bytes::{Bytes, BytesMut};
use pintle_meta::Status;
use pintle_meta::labels::{FieldSelector, Selector};
use pintle_store::{Entry, Event, EventKind, Revision};
use serde_json::{Value, json};
use std::sync::Arc;

/// A long run of events is rendered in batches of about this many bytes, so that each can be let go by itself.
const BATCH_BYTES: usize = 256 * 1024;

pub struct View {
    server: ApiServer,
    resource: Arc<Resource>,
    shape: Shape,
    notation: Notation,
    query: Query,
    labels: Selector,
    fields: FieldSelector,
    /// The stored bytes are what the client wants.
    plain: bool,
}

/// Whether a watcher of tables has been told their columns: once a watch.
#[derive(Debug, Default)]
pub struct Columns {
    pub sent: bool,
}

impl View {
    pub fn new(
        server: &ApiServer,
        resource: &Arc<Resource>,
        (wanted, query): (Wanted, &Query),
        (labels, fields): (Selector, FieldSelector),
    ) -> Self {
        let Wanted { shape, notation, .. } = wanted;
        let plain = shape == Shape::Object;
        let (server, resource, query) = (server.clone(), resource.clone(), query.clone());
        View { server, resource, shape, notation, query, labels, fields, plain }
    }

    /// Views with the same key render every event to the same bytes. Tables have none: their first row is told with
    /// its columns, so each watcher has rows of its own.
    pub fn key(&self) -> Option<String> {
        if self.shape == Shape::Table {
            return None;
        }
        let terms =
            self.fields.terms.iter().map(|t| format!("{}{}{}", t.field, if t.equal { "=" } else { "!=" }, t.value));
        let fields = terms.collect::<Vec<_>>().join(",");
        // The view of a pump keeps its resource, so no other can be at the same place while the pump is there.
        let (resource, shown) = (Arc::as_ptr(&self.resource), (self.shape, self.notation));
        Some(format!("{resource:p} {shown:?} {} {fields}", self.labels))
    }

    /// Does a webhook convert what is seen? Metadata is the same in every version.
    pub fn converts(&self) -> bool {
        self.resource.converter().is_some() && self.shape != Shape::PartialMetadata
    }

    /// Events as clients of this version see them, where a webhook has to say.
    pub async fn converted(&self, events: Vec<Arc<Event>>) -> Result<Vec<Arc<Event>>, Status> {
        if !self.converts() {
            return Ok(events);
        }
        let both = events.iter().flat_map(|event| std::iter::once(&event.entry).chain(&event.previous)).cloned();
        let entries = self.server.registry.entries_in(&self.resource, both.collect()).await?;
        let mut entries = entries.into_iter();
        let shown = events.iter().map(|event| {
            let entry = entries.next().unwrap_or_else(|| event.entry.clone());
            let previous = event.previous.as_ref().and_then(|_| entries.next());
            Arc::new(Event { kind: event.kind, entry, previous, revision: event.revision })
        });
        Ok(shown.collect())
    }

    /// Renders events, leaving out those that are not in view.
    pub fn batches(&self, events: &[Arc<Event>], columns: &mut Columns) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut out = BytesMut::new();
        if self.plain && self.labels.is_everything() && self.fields.is_everything() {
            let size: usize = events.iter().map(|e| e.entry.value.len() + EVENT_BYTES).sum();
            out.reserve(size.min(BATCH_BYTES + BATCH_BYTES / 8));
        }
        let mut marks = Vec::with_capacity(events.len());
        for (at, event) in events.iter().enumerate() {
            let before = out.len();
            self.event(&mut out, event, columns);
            if out.len() > before {
                marks.push((event.revision, out.len()));
            }
            if !out.is_empty() && (out.len() >= BATCH_BYTES || at + 1 == events.len()) {
                let revision = event.revision;
                batches.push(Batch { bytes: out.split().freeze(), marks: std::mem::take(&mut marks), revision });
            }
        }
        batches
    }

    /// A change as these selectors see it: coming into view is an addition, leaving it a deletion.
    pub fn event(&self, out: &mut BytesMut, event: &Event, columns: &mut Columns) {
        let seen = |entry: &Entry| selected(&self.resource, entry, &self.labels, &self.fields);
        let was = event.previous.as_ref().is_some_and(|p| seen(p));
        let kind = match event.kind {
            EventKind::Delete => {
                if was {
                    "DELETED"
                } else {
                    return;
                }
            }
            EventKind::Put => match (was, seen(&event.entry)) {
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
                (false, false) => return,
            },
        };
        // What leaves the view is shown as it was, with the revision of the change.
        if event.kind == EventKind::Put && kind == "DELETED" {
            if let Some(previous) = &event.previous {
                let mut value = codec::decode(&previous.value);
                pintle_meta::object::set(&mut value, &["metadata", "resourceVersion"], event.revision.to_string());
                self.put_value(out, kind, value, columns);
            }
            return;
        }
        self.put(out, kind, &event.entry, columns);
    }

    /// One object as one line.
    pub fn put(&self, out: &mut BytesMut, kind: &str, entry: &Entry, columns: &mut Columns) {
        if self.plain && self.resource.reads(entry) {
            self.notation.put_watch_event(out, kind, &entry.value);
        } else if self.shape == Shape::PartialMetadata {
            self.notation.put_watch_event(out, kind, &table::partial_bytes(&entry.value));
        } else {
            self.put_value(out, kind, codec::decode(&entry.value), columns);
        }
    }

    fn put_value(&self, out: &mut BytesMut, kind: &str, value: Value, columns: &mut Columns) {
        let value = self.server.registry.value_in(&self.resource, value);
        let shown = match self.shape {
            Shape::Table => {
                let about = json!({"resourceVersion": pintle_meta::object::resource_version(&value)});
                let mut table = table::table(&self.server, &self.resource, &[value], &self.query, about);
                if std::mem::replace(&mut columns.sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table.to_string().into()
            }
            Shape::PartialMetadata => table::partial(&value).to_string().into(),
            _ => crate::registry::shown(&value),
        };
        self.notation.put_watch_event(out, kind, &shown);
    }

    /// Written by hand: every quiet watch gets one again and again. No name of a kind or version needs quoting.
    pub fn bookmark(&self, revision: Revision, ends_initial: bool) -> Bytes {
        let (kind, api_version) = match self.shape {
            Shape::Table => ("Table", "meta.k8s.io/v1".to_owned()),
            Shape::PartialMetadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            _ => (self.resource.kind.as_str(), self.resource.api_version()),
        };
        let head = codec::head(kind, &api_version);
        let ends = if ends_initial { r#""annotations":{"k8s.io/initial-events-end":"true"},"# } else { "" };
        let object = match self.shape {
            Shape::Table => format!(
                r#"{head}"metadata":{{{ends}"resourceVersion":"{revision}"}},"columnDefinitions":null,"rows":[]}}"#
            ),
            _ => format!(r#"{head}"metadata":{{{ends}"creationTimestamp":null,"resourceVersion":"{revision}"}}}}"#),
        };
        self.notation.watch_event("BOOKMARK", object.as_bytes())
    }

    /// Why the watch ends, as its last line.
    pub fn failure(&self, status: &Status) -> Bytes {
        self.notation.watch_event("ERROR", status.to_value().to_string().as_bytes())
    }
}
