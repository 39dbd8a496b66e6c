//! `GET /…/pods`: a snapshot of many objects, whole or in chunks that belong together.

use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::catalogue::Resource;
use crate::codec;
use crate::flow::Line;
use crate::flow::level::Seat;
use crate::notation::{Items, List, ListWriter, Notation};
use crate::notes::Notes;
use crate::registry::{reach, read_error, selected};
use crate::request::{ListOptions, ReadAt};
use crate::response::{self, Shape, Wanted};
use crate::table::{self, Rows};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::Stream;
use http::Response;
use pintle_meta::Status;
use pintle_store::{Entry, Range};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How many keys are looked at in one go when a selector leaves most of them out.
const STRIDE: usize = 4096;

pub struct Listed {
    pub entries: Vec<Arc<Entry>>,
    pub revision: u64,
    /// Where the next chunk starts, and how many objects are left if that is known.
    pub next: Option<String>,
    pub remaining: Option<usize>,
}

pub async fn list(server: &ApiServer, call: &Call, notes: &Notes) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query)?;
    let mut listed = match select(server, call, &options).await {
        Err(status) if status.code == 410 && !options.cursor.is_empty() => return expired(call, &status, &options),
        listed => listed?,
    };
    let (resource, wanted) = (call.resource()?, call.wanted()?);
    // Metadata is the same in every version.
    if wanted.shape != Shape::PartialMetadata {
        listed.entries = server.registry.entries_in(resource, listed.entries).await?;
    }
    let bytes = listed.entries.iter().map(|e| e.value.len() + 1).sum();
    if listed.next.is_none() && options.cursor.is_empty() {
        server.flow.listed(&resource.scope(call.namespace()), listed.entries.len(), bytes);
    }
    let mut metadata = json!({"resourceVersion": listed.revision.to_string()});
    if let Some(next) = &listed.next {
        metadata["continue"] = next.clone().into();
        if let Some(remaining) = listed.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    let form = match wanted.shape {
        Shape::Table => Form::Table(Rows::new(&call.query, server.registry.clock.now())),
        Shape::PartialMetadata => Form::Metadata,
        _ => Form::Objects,
    };
    match wanted.notation {
        Notation::Json if bytes <= PIECE => {
            Ok(response::json(200, encode(server, resource, form, &listed.entries, &metadata)?))
        }
        Notation::Json => {
            let writer = form.writer(wanted.notation, resource, &metadata, PIECE)?;
            let line = notes.line().cloned();
            let pieces = pieces(server.clone(), resource.clone(), form, listed.entries, writer, line);
            Ok(response::streamed(200, wanted, pieces))
        }
        _ => whole(server, resource, form, listed.entries, bytes, &metadata, wanted).await,
    }
}

/// What a list shows of its objects.
#[derive(Clone, Copy)]
pub enum Form {
    Objects,
    Metadata,
    Table(Rows),
}

/// A list's bytes are handed on in pieces of about this size, so that a long one is never in memory twice.
const PIECE: usize = 128 * 1024;
/// How long a piece that was made is counted as work.
const ON_ITS_WAY: Duration = Duration::from_millis(10);

/// The list as JSON, in one piece.
pub fn encode(
    server: &ApiServer,
    resource: &Resource,
    form: Form,
    entries: &[Arc<Entry>],
    metadata: &Value,
) -> Result<Bytes, Status> {
    let size: usize = entries.iter().map(|e| e.value.len() + 1).sum();
    let mut writer = form.writer(Notation::Json, resource, metadata, size)?;
    for entry in entries {
        form.write(&mut writer, server, resource, entry)?;
    }
    Ok(writer.finish()?.concat().into())
}

/// A list of which all must be there before the first byte is sent. Other requests have their turn in between.
async fn whole(
    server: &ApiServer,
    resource: &Resource,
    form: Form,
    entries: Vec<Arc<Entry>>,
    bytes: usize,
    metadata: &Value,
    wanted: Wanted,
) -> Result<Response<Body>, Status> {
    let mut writer = form.writer(wanted.notation, resource, metadata, bytes)?;
    let mut since_yield = 0;
    for entry in entries {
        form.write(&mut writer, server, resource, &entry)?;
        since_yield += entry.value.len();
        if since_yield >= PIECE {
            since_yield = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(response::pieces(200, wanted, writer.finish()?))
}

/// The list piece by piece as the client takes it. Each piece has a seat while it is made and while it is on its way, since that is
/// work too; one who does not take it holds none for long.
fn pieces(
    server: ApiServer,
    resource: Arc<Resource>,
    form: Form,
    entries: Vec<Arc<Entry>>,
    writer: ListWriter,
    line: Option<Line>,
) -> impl Stream<Item = Bytes> + Send {
    let start = (Some((writer, entries.into_iter())), Held::default());
    futures::stream::unfold(start, move |(state, held)| {
        let (server, resource, line) = (server.clone(), resource.clone(), line.clone());
        async move {
            drop(held);
            let (mut writer, mut entries) = state?;
            let held = match &line {
                Some(line) => Held::on_its_way(line.again().await),
                None => Held::default(),
            };
            for entry in entries.by_ref() {
                form.write(&mut writer, &server, &resource, &entry).ok()?;
                if let Some(piece) = writer.take(PIECE) {
                    return Some((piece, (Some((writer, entries)), held)));
                }
            }
            Some((writer.finish().ok()?.concat().into(), (None, held)))
        }
    })
}

/// A seat that is given back when the next piece is asked for, and after a moment in any case.
#[derive(Default)]
struct Held(Option<JoinHandle<()>>);

impl Held {
    fn on_its_way(seat: Seat) -> Self {
        Held(Some(tokio::spawn(async move {
            tokio::time::sleep(ON_ITS_WAY).await;
            drop(seat);
        })))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl Form {
    fn writer(
        self,
        notation: Notation,
        resource: &Resource,
        metadata: &Value,
        capacity: usize,
    ) -> Result<ListWriter, Status> {
        let (kind, api_version) = match self {
            Form::Objects => (resource.list_kind.as_str(), resource.api_version()),
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
            Form::Table(_) => ("Table", "meta.k8s.io/v1".to_owned()),
        };
        let columns;
        let items = match self {
            Form::Objects => {
                // Items of built-in kinds are shown without their kind and version, as Kubernetes shows them.
                let cut = if resource.custom { 0 } else { codec::head(&resource.kind, &resource.api_version()).len() };
                Items::Objects { type_name: resource.type_name(), cut }
            }
            Form::Metadata => Items::Objects { type_name: "meta.v1.PartialObjectMetadata", cut: 0 },
            Form::Table(rows) => {
                columns = rows.columns(resource).into();
                Items::Rows { columns: &columns }
            }
        };
        ListWriter::new(notation, &List { kind, api_version: &api_version, metadata, items }, capacity)
    }

    fn write(
        self,
        writer: &mut ListWriter,
        server: &ApiServer,
        resource: &Resource,
        entry: &Arc<Entry>,
    ) -> Result<(), Status> {
        match self {
            Form::Objects => writer.item(&server.registry.bytes_in(resource, entry)),
            // Metadata is the same in every version.
            Form::Metadata => writer.item(&table::partial_bytes(&entry.value)),
            Form::Table(rows) => writer.item(&rows.encoded(resource, &server.registry.bytes_in(resource, entry))),
        }
    }
}

/// The snapshot of a chunked list is gone. Who can do with a list that is not of one moment goes on with the token given here.
fn expired(call: &Call, status: &Status, options: &ListOptions) -> Result<Response<Body>, Status> {
    let token = Cursor { revision: None, remaining: None, ..Cursor::decode(&options.cursor)? }.encode();
    let mut answer = status.to_value();
    answer["metadata"] = json!({"continue": token});
    answer["message"] = EXPIRED.into();
    Ok(response::value(status.code, call.wanted()?, &answer))
}

const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// The objects that the request selects.
pub async fn select(server: &ApiServer, call: &Call, options: &ListOptions) -> Result<Listed, Status> {
    let resource = call.resource()?;
    check_fields(resource, options)?;
    let store = &server.registry.store;
    let scope = resource.scope(call.namespace());
    let mut range = Range::prefix(&scope);
    let mut at = None;
    match options.at {
        ReadAt::Latest => {}
        ReadAt::Any => range.cached = true,
        ReadAt::NotOlderThan(revision) => {
            reach(&**store, revision).await?;
            range.cached = true;
        }
        ReadAt::Exact(revision) => {
            reach(&**store, revision).await?;
            at = Some(revision);
        }
    }
    if !options.cursor.is_empty() {
        let cursor = Cursor::decode(&options.cursor)?;
        range.start = format!("{scope}{}\0", cursor.after);
        range.total = cursor.remaining;
        at = cursor.revision;
    }
    // One name is one key.
    if (!call.namespace().is_empty() || !resource.namespaced)
        && let Some(name) = options.fields.required("metadata.name")
    {
        range = Range { start: format!("{scope}{name}"), end: format!("{scope}{name}\0"), ..range };
    }
    range.at = at;
    let everything = options.labels.is_everything() && options.fields.is_everything();
    let mut found: Vec<Arc<Entry>> = Vec::new();
    loop {
        range.limit = match (options.limit, everything) {
            (0, _) => 0,
            (limit, true) => limit,
            (_, false) => STRIDE,
        };
        let page = store.range(Range { ..range.clone() }).await.map_err(read_error)?;
        let last_key = page.entries.last().map(|e| e.key.clone());
        let revision = page.revision;
        range.at = Some(revision);
        range.total = Some(page.remaining);
        // Where a webhook converts, selectors look at what it makes of the objects.
        let entries =
            if everything { page.entries } else { server.registry.entries_in(resource, page.entries).await? };
        let mut matching = entries.into_iter().filter(|e| selected(resource, e, &options.labels, &options.fields));
        if options.limit == 0 {
            found.extend(matching);
            return Ok(Listed { entries: found, revision, next: None, remaining: None });
        }
        found.extend(matching.by_ref().take(options.limit - found.len()));
        let more_here = matching.next().is_some();
        if found.len() == options.limit && (more_here || page.remaining > 0) {
            let after = found.last().map(|e| e.key[scope.len().min(e.key.len())..].to_owned()).unwrap_or_default();
            let remaining = everything.then_some(page.remaining);
            let next = Cursor { revision: Some(revision), after, remaining }.encode();
            return Ok(Listed { entries: found, revision, next: Some(next), remaining });
        }
        match last_key {
            Some(key) if page.remaining > 0 => range.start = format!("{key}\0"),
            _ => return Ok(Listed { entries: found, revision, next: None, remaining: None }),
        }
    }
}

/// A field selector may ask only for what the kind offers.
pub fn check_fields(resource: &Resource, options: &ListOptions) -> Result<(), Status> {
    let offered = resource.strategy.selectable_fields();
    for term in &options.fields.terms {
        let known = matches!(term.field.as_str(), "metadata.name" | "metadata.namespace")
            || offered.contains(&term.field.as_str())
            || resource.strategy.declared_fields().contains(&term.field);
        if !known {
            return Err(Status::bad_request(resource.strategy.unknown_field(&term.field)));
        }
    }
    Ok(())
}

/// Where a chunked list goes on, as the continue token says it.
struct Cursor {
    /// None after the revision of the first chunk is gone: what is left is read as it is now.
    revision: Option<u64>,
    after: String,
    /// How many keys follow, so that they are counted once for all pages.
    remaining: Option<usize>,
}

impl Cursor {
    fn encode(&self) -> String {
        let left = self.remaining;
        let revision = self.revision.map_or_else(|| json!(-1), Value::from);
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.after, "left": left});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(token: &str) -> Result<Self, Status> {
        let refused =
            |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|e| refused(&e.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = String::from_utf8_lossy(&bytes).chars().next().unwrap_or(' ');
            refused(&format!("invalid character '{first}' looking for beginning of value"))
        })?;
        let revision = value.get("rv").and_then(Value::as_i64).filter(|r| *r != 0).map(|r| u64::try_from(r).ok());
        let after = value.get("start").and_then(Value::as_str).filter(|s| !s.is_empty() && !s.contains(".."));
        match (revision, after) {
            (Some(revision), Some(after)) => {
                let left = value.get("left").and_then(Value::as_u64);
                let remaining = left.and_then(|left| usize::try_from(left).ok()).filter(|left| *left > 0);
                Ok(Cursor { revision, after: after.to_owned(), remaining })
            }
            _ => Err(refused("incorrect encoded resourceVersion or start key")),
        }
    }
}
