//! `GET /…/pods?watch=1`: every change, in order, until one side has enough.

use super::list;
use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::notation::{EVENT_BYTES, Notation};
use crate::registry::{reach, selected};
use crate::request::{ListOptions, Query};
use crate::response::{self, Shape};
use crate::{codec, table};
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::Response;
use pintle_meta::Status;
use pintle_store::{Entry, Event, EventKind, ReadError, Watch};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A watch without a timeout ends between this and twice this, so that not all clients come back at once.
const SHORTEST_DEFAULT: u64 = 1800;
/// Initial objects are sent in pieces of about this many bytes.
const PIECE: usize = 64 * 1024;

pub async fn watch(server: &ApiServer, call: &Call) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query)?;
    let (resource, wanted) = (call.resource()?, call.wanted()?);
    list::check_fields(resource, &options)?;
    let store = server.registry.store.clone();
    let asked = options.resource_version.unwrap_or(0);
    reach(&*store, asked).await?;
    let scope = resource.scope(call.namespace());
    let mut initial = None;
    // Without a version the watch starts with all that is there; with one, right behind it.
    let after = if options.initial_events || asked == 0 {
        let snapshot =
            ListOptions { limit: 0, cursor: String::new(), at: crate::request::ReadAt::Latest, ..options.clone() };
        let send = options.initial_events || !call.query.has("sendInitialEvents");
        let listed = list::select(server, call, &snapshot).await?;
        let revision = listed.revision;
        if send {
            initial = Some(listed.entries);
        }
        revision
    } else {
        asked
    };
    let watch = store.watch(&scope, after);
    let timeout =
        options.timeout_seconds.unwrap_or_else(|| SHORTEST_DEFAULT + server.registry.random.below(SHORTEST_DEFAULT));
    let end = Instant::now() + Duration::from_secs(timeout);
    let writer = Writer {
        server: server.clone(),
        resource: resource.clone(),
        shape: wanted.shape,
        notation: wanted.notation,
        query: call.query.clone(),
        plain: wanted.shape == Shape::Object && resource.api_version() == resource.stored_api_version,
        columns_sent: false,
    };
    let marks_end = options.initial_events && options.bookmarks;
    let feed = Feed {
        writer,
        options,
        initial,
        marks_end,
        start: after,
        watch,
        end,
        next_bookmark: Instant::now() + server.pace.bookmarks,
        over: false,
    };
    let events = stream::unfold(feed, |mut feed| async move {
        let bytes = feed.next().await?;
        Some((bytes, feed))
    });
    response::watch(wanted.notation, events)
}

struct Feed {
    writer: Writer,
    options: ListOptions,
    initial: Option<Vec<Arc<Entry>>>,
    /// The end of the initial objects is marked by a bookmark of its own.
    marks_end: bool,
    start: u64,
    watch: Result<Watch, ReadError>,
    end: Instant,
    next_bookmark: Instant,
    over: bool,
}

impl Feed {
    /// The next piece of the stream; nothing at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if let Some(entries) = self.initial.take() {
            let piece = self.initial_piece(entries);
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        loop {
            let watch = match &mut self.watch {
                Ok(watch) => watch,
                Err(error) => {
                    let status = expired(error, self.start);
                    return Some(self.fail(&status));
                }
            };
            tokio::select! {
                biased;
                () = self.writer.server.stopping() => return None,
                () = tokio::time::sleep_until(self.end) => return None,
                next = watch.next() => match next {
                    Ok(events) => {
                        let mut out = BytesMut::new();
                        if self.writer.plain && self.options.labels.is_everything() && self.options.fields.is_everything() {
                            out.reserve(events.iter().map(|e| e.entry.value.len() + EVENT_BYTES).sum());
                        }
                        for event in &events {
                            self.writer.event(&mut out, event, &self.options);
                        }
                        if !out.is_empty() {
                            return Some(out.freeze());
                        }
                    }
                    Err(error) => {
                        let status = expired(&error, self.start);
                        return Some(self.fail(&status));
                    }
                },
                () = tokio::time::sleep_until(self.next_bookmark), if self.options.bookmarks => {
                    let revision = watch.progress();
                    self.next_bookmark = Instant::now() + self.writer.server.pace.bookmarks;
                    return Some(self.writer.bookmark(revision, false));
                }
            }
        }
    }

    fn initial_piece(&mut self, mut entries: Vec<Arc<Entry>>) -> Bytes {
        let mut out = BytesMut::new();
        let mut taken = 0;
        for entry in &entries {
            self.writer.put(&mut out, "ADDED", entry);
            taken += 1;
            if out.len() >= PIECE {
                break;
            }
        }
        entries.drain(..taken);
        if !entries.is_empty() {
            self.initial = Some(entries);
        } else if self.marks_end {
            let mark = self.writer.bookmark(self.start, true);
            out.put_slice(&mark);
        }
        out.freeze()
    }

    fn fail(&mut self, status: &Status) -> Bytes {
        self.over = true;
        self.writer.notation.watch_event("ERROR", status.to_value().to_string().as_bytes())
    }
}

fn expired(error: &ReadError, asked: u64) -> Status {
    match error {
        ReadError::Compacted { oldest } => Status::gone(format!("too old resource version: {asked} ({oldest})")),
        other => Status::unavailable(other.to_string()),
    }
}

/// Turns events into what the client reads.
struct Writer {
    server: ApiServer,
    resource: Arc<Resource>,
    shape: Shape,
    notation: Notation,
    query: Query,
    /// The stored bytes are what the client wants.
    plain: bool,
    columns_sent: bool,
}

impl Writer {
    /// A change as this watcher's selectors see it: coming into view is an addition, leaving it a deletion.
    fn event(&mut self, out: &mut BytesMut, event: &Event, options: &ListOptions) {
        let seen = |entry: &Entry| selected(&self.resource, entry, &options.labels, &options.fields);
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
                self.put_value(out, kind, value);
            }
            return;
        }
        self.put(out, kind, &event.entry);
    }

    fn put(&mut self, out: &mut BytesMut, kind: &str, entry: &Entry) {
        if self.plain && !self.resource.may_lack_defaults(entry.mod_revision) {
            self.notation.put_watch_event(out, kind, &entry.value);
        } else if self.shape == Shape::PartialMetadata {
            self.notation.put_watch_event(out, kind, &table::partial_bytes(&entry.value));
        } else {
            self.put_value(out, kind, codec::decode(&entry.value));
        }
    }

    fn put_value(&mut self, out: &mut BytesMut, kind: &str, value: Value) {
        let value = self.server.registry.value_in(&self.resource, value);
        let shown = match self.shape {
            Shape::Table => {
                let about = json!({"resourceVersion": pintle_meta::object::resource_version(&value)});
                let mut table = table::table(&self.server, &self.resource, &[value], &self.query, about);
                // Columns are told once a watch.
                if std::mem::replace(&mut self.columns_sent, true) {
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
    fn bookmark(&self, revision: u64, ends_initial: bool) -> Bytes {
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
}
