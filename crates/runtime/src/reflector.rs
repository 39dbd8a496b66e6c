//! Mirrors one kind from the server: lists it in pages, then watches from there, for ever.
//!
//! - The sink sees one `Replaced` with everything, then single changes in the server's order. A list of more than one
//!   page is told a few objects at a time, in no order, so that it is never in memory as a whole.
//! - A broken watch resumes at the last resourceVersion seen, bookmarks included.
//! - 410 Gone means that the server no longer keeps that version: the kind is listed again.
//! - Errors are waited out with jittered backoff; the reflector never gives up.
//! - An object that cannot be decoded is told by its name and skipped; all others of its kind go on.

mod anew;
mod event;
mod page;
mod streaming;
mod unreadable;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ListParams, WatchParams};
use kube::core::Request;
use pintle_kinds::{Codec, Kind, Object, text};
use pintle_meta::Random;

use crate::backoff::Backoff;
use crate::key::Key;
pub(crate) use anew::Anew;
use event::{Event, Lines};
use page::{Decoding, Told};
use streaming::Streamed;
pub use unreadable::Unreadable;

/// Objects a page of a list.
const PAGE: u32 = 500;

/// Pages that are decoded while the next is asked for.
const AHEAD: usize = 2;

/// Seconds that a watch lasts at least.
const SHORTEST: u64 = 1800;

/// What the client's parameters are told instead.
const PLACEHOLDER: u32 = 290;

/// A watch that says nothing for so long is taken for dead. Servers send a bookmark every minute.
pub const SILENCE: Duration = Duration::from_secs(280);

/// What a reflector asks for beside the kind: selectors, as the API writes them; empty ones pick everything.
///
/// One namespace is a context of its own: [`Context::in_namespace`](crate::Context::in_namespace).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    pub labels: String,
    pub fields: String,
}

impl Selection {
    pub fn everything() -> Self {
        Selection::default()
    }

    pub fn labels(selector: impl Into<String>) -> Self {
        Selection { labels: selector.into(), ..Selection::default() }
    }

    pub fn fields(selector: impl Into<String>) -> Self {
        Selection { fields: selector.into(), ..Selection::default() }
    }

    fn label_selector(&self) -> Option<String> {
        Some(self.labels.clone()).filter(|selector| !selector.is_empty())
    }

    fn field_selector(&self) -> Option<String> {
        Some(self.fields.clone()).filter(|selector| !selector.is_empty())
    }
}

/// An object as the server tells it, and who wrote it last, if its managed fields say so.
#[derive(Clone, Debug)]
pub struct Seen {
    pub object: Arc<dyn Object>,
    pub writer: Option<Box<str>>,
}

impl Seen {
    /// One that is at hand.
    pub fn of<K: Kind>(object: K) -> Self {
        let managed = object.meta().managed_fields.iter().flatten();
        let newest = managed.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
        let writer = newest.and_then(|entry| entry.manager.as_deref().map(Box::from));
        Seen { object: Arc::new(object), writer }
    }

    pub(crate) fn meta(&self) -> &ObjectMeta {
        self.object.metadata()
    }
}

/// A change as the server tells it.
#[derive(Clone, Debug)]
pub enum Delta {
    /// Everything there is: what is not in it is gone.
    Replaced(Vec<Seen>),
    Applied(Seen),
    Deleted(Seen),
    /// A list begins that comes in several pages, of about so many objects; 0 if the server does not tell.
    Listing(usize),
    Page(Vec<Seen>),
    /// The list ended, at this version: what was in none of its pages is gone.
    Listed(String),
    /// Everything up to this version has been told.
    Bookmark(String),
    /// An object that cannot be decoded: what was told of it before is behind, until it is written anew.
    Unreadable(Unreadable),
    /// One that cannot be decoded is gone.
    Gone(Key),
    /// The kind must be listed again and cannot be, for this reason: what was told is behind, until the next list.
    Lost(String),
}

/// The same of objects that are at hand.
impl Delta {
    pub fn replaced<K: Kind>(objects: Vec<K>) -> Self {
        Delta::Replaced(objects.into_iter().map(Seen::of).collect())
    }

    pub fn page<K: Kind>(objects: Vec<K>) -> Self {
        Delta::Page(objects.into_iter().map(Seen::of).collect())
    }

    pub fn applied<K: Kind>(object: K) -> Self {
        Delta::Applied(Seen::of(object))
    }

    pub fn deleted<K: Kind>(object: K) -> Self {
        Delta::Deleted(Seen::of(object))
    }
}

/// Who is told. Objects of one list are told by several tasks at once, all other changes one after the other.
pub type Sink = Arc<dyn Fn(Delta) + Send + Sync>;

/// How objects are read off the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) codec: &'static Codec,
    /// Managed fields still say who wrote, but are not a part of the object.
    pub(crate) drops_fields: bool,
}

impl Reading {
    pub(crate) fn read(self, text: &str) -> Result<Seen, kube::Error> {
        let (text, writer) = match self.drops_fields {
            true => text::without_managed_fields(text),
            false => (Cow::Borrowed(text), text::writer(text)),
        };
        let object = self.codec.decode(&text).map_err(kube::Error::SerdeError)?;
        Ok(Seen { object, writer: writer.map(Box::from) })
    }
}

/// A collection on a server, or what a selection leaves of it.
pub struct Source {
    client: Client,
    path: String,
    selection: Selection,
    /// Whether only metadata is asked for.
    is_metadata: bool,
    reading: Reading,
    /// A watch that has been silent for this long is opened anew.
    silence: Duration,
    /// Whether lists are asked for as watches.
    streams: bool,
    anew: Arc<Anew>,
    random: Random,
}

impl Source {
    pub fn new<K: Kind>(api: Api<K>, selection: Selection, silence: Duration, random: Random) -> Self {
        let path = api.resource_url().to_owned();
        Source::of::<K>((api.into_client(), path), selection, silence, random)
    }

    pub(crate) fn of<K: Kind>(
        (client, path): (Client, String),
        selection: Selection,
        silence: Duration,
        random: Random,
    ) -> Self {
        let reading = Reading { codec: K::CODEC, drops_fields: false };
        Source {
            path,
            client,
            selection,
            is_metadata: K::metadata_api(),
            reading,
            silence,
            streams: false,
            anew: Arc::default(),
            random,
        }
    }

    /// The same, listed anew whenever somebody wants it.
    pub(crate) fn anew_when(mut self, anew: Arc<Anew>) -> Self {
        self.anew = anew;
        self
    }

    /// The same, listed by a watch where the server can do that.
    pub(crate) fn streaming(mut self, streams: bool) -> Self {
        self.streams = streams;
        self
    }

    /// The same; managed fields still say who wrote, but not which fields, which are skipped unread.
    pub fn without_managed_fields(mut self) -> Self {
        self.reading.drops_fields = true;
        self
    }

    /// Lists and watches until the future is dropped. The sink must not block.
    pub async fn reflect(&self, sink: Sink) {
        let (mut failures, mut streams) = (0, self.streams);
        loop {
            self.anew.begin();
            let listed = match streams {
                true => match self.stream(&sink).await {
                    Streamed::Whole(version, lines) => Ok((version, Some(lines))),
                    Streamed::Broken(error) => Err(error),
                    Streamed::Unsupported => {
                        tracing::debug!(url = %self.path, "the server does not stream lists; listing in pages");
                        streams = false;
                        continue;
                    }
                },
                false => self.list(&sink).await.map(|version| (version, None)),
            };
            match listed {
                Ok((version, lines)) => {
                    self.anew.finish();
                    failures = 0;
                    self.watch(version, lines, &sink).await;
                }
                Err(error) => {
                    tracing::warn!(url = %self.path, %error, "cannot list; trying again");
                    sink(Delta::Lost(error.to_string()));
                    tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, &self.random)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Tells every page of the list, and returns the version it stands for. When it returns, nothing of it is told any more.
    async fn list(&self, sink: &Sink) -> Result<String, kube::Error> {
        let mut decoding = VecDeque::new();
        let listed = self.pages(sink, &mut decoding).await;
        for page in decoding {
            page.cancelled().await;
        }
        listed
    }

    async fn pages(&self, sink: &Sink, decoding: &mut VecDeque<Decoding>) -> Result<String, kube::Error> {
        let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
        params.label_selector = self.selection.label_selector();
        params.field_selector = self.selection.field_selector();
        let mut spare = Vec::new();
        loop {
            let is_first = params.continue_token.is_none();
            let mut text = spare.pop().unwrap_or_default();
            page::read(&self.client, self.page(&params)?, &mut text).await?;
            let head = page::head(&text)?;
            let version = head.resource_version.unwrap_or_default();
            params.continue_token = head.continue_.filter(|token| !token.is_empty());
            let is_last = params.continue_token.is_none();
            if is_first && is_last {
                let (mut all, mut unreadable) = (Vec::new(), Vec::new());
                page::objects(&text, self.reading, |found| {
                    match found {
                        Told::Objects(few) => all.extend(few),
                        Told::Unreadable(one) => unreadable.push(one),
                    }
                    true
                })?;
                if unreadable.is_empty() {
                    sink(Delta::Replaced(all));
                    sink(Delta::Bookmark(version.clone()));
                } else {
                    sink(Delta::Listing(all.len()));
                    sink(Delta::Page(all));
                    unreadable.into_iter().for_each(|one| sink(Delta::Unreadable(one)));
                    sink(Delta::Listed(version.clone()));
                }
                return Ok(version);
            }
            if is_first {
                let more = head.remaining_item_count.and_then(|count| usize::try_from(count).ok());
                sink(Delta::Listing(more.map_or(0, |count| count + PAGE as usize)));
            }
            let told = sink.clone();
            decoding.push_back(Decoding::start(text, self.reading, move |found| {
                told(match found {
                    Told::Objects(few) => Delta::Page(few),
                    Told::Unreadable(one) => Delta::Unreadable(one),
                });
            }));
            while decoding.len() > if is_last { 0 } else { AHEAD }
                && let Some(page) = decoding.pop_front()
            {
                spare.push(page.finished().await?);
            }
            if is_last {
                sink(Delta::Listed(version.clone()));
                return Ok(version);
            }
        }
    }

    fn page(&self, params: &ListParams) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let request = Request::new(&self.path);
        let request = if self.is_metadata { request.list_metadata(params) } else { request.list(params) };
        request.map_err(kube::Error::BuildRequest)
    }

    /// Watches from a version on; returns when the kind must be listed again.
    async fn watch(&self, mut version: String, mut lines: Option<Lines>, sink: &Sink) {
        let mut failures = 0;
        loop {
            match self.watch_once(&mut version, lines.take(), sink).await {
                Ended::Gone => return,
                Ended::Quietly { useful: true } => failures = 0,
                Ended::Quietly { useful: false } => {
                    // A server that hangs up at once must not be asked in a tight loop.
                    tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, &self.random)).await;
                    failures += 1;
                }
                Ended::Broken(error) => {
                    tracing::warn!(url = %self.path, %error, "watch broke; resuming");
                    tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, &self.random)).await;
                    failures += 1;
                }
            }
        }
    }

    async fn open(&self, version: &str) -> Result<Lines, kube::Error> {
        let params = WatchParams {
            label_selector: self.selection.label_selector(),
            field_selector: self.selection.field_selector(),
            timeout: Some(PLACEHOLDER),
            ..WatchParams::default()
        };
        let request = Request::new(&self.path);
        let request = match self.is_metadata {
            true => request.watch_metadata(&params, version),
            false => request.watch(&params, version),
        };
        Lines::open(&self.client, self.for_long(request.map_err(kube::Error::BuildRequest)?)).await
    }

    /// One watch: on lines that are open already, or on new ones.
    async fn watch_once(&self, version: &mut String, lines: Option<Lines>, sink: &Sink) -> Ended {
        let started = tokio::time::Instant::now();
        let mut lines = match lines {
            Some(lines) => lines,
            None => match self.open(version).await {
                Ok(lines) => lines,
                Err(error) => return gone_or_broken(error),
            },
        };
        let mut seen = false;
        loop {
            let line = tokio::select! {
                biased;
                () = self.anew.wanted() => {
                    tracing::info!(url = %self.path, "the watch is behind; listing anew");
                    return Ended::Gone;
                }
                line = tokio::time::timeout(self.silence, lines.next()) => line,
            };
            let event = match line {
                Ok(Ok(Some(line))) => Event::read(line, self.reading),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => Err(error),
                // The connection may be dead without anyone having said so.
                Err(_) => return Ended::Quietly { useful: true },
            };
            let delta = match event {
                Ok(Event::Applied(object)) => {
                    advance(version, object.meta().resource_version.clone());
                    Delta::Applied(object)
                }
                Ok(Event::Deleted(object)) => {
                    advance(version, object.meta().resource_version.clone());
                    Delta::Deleted(object)
                }
                Ok(Event::Unreadable { object, is_deleted }) => {
                    advance(version, Some(object.version.clone()));
                    if is_deleted { Delta::Gone(object.key) } else { Delta::Unreadable(object) }
                }
                Ok(Event::Bookmark { version: reached, .. }) => {
                    advance(version, Some(reached));
                    Delta::Bookmark(version.clone())
                }
                Ok(Event::Failed(status)) => return gone_or_broken(kube::Error::Api(status)),
                Err(error) => return gone_or_broken(error),
            };
            seen = true;
            sink(delta);
        }
        Ended::Quietly { useful: seen || started.elapsed() >= Duration::from_secs(1) }
    }
}

impl Source {
    /// The same request for half an hour to an hour: spread, so that watches opened together do not end together. The
    /// client's own parameters allow no more than five minutes.
    fn for_long<B>(&self, mut request: http::Request<B>) -> http::Request<B> {
        let asked = format!("timeoutSeconds={PLACEHOLDER}");
        let longer = format!("timeoutSeconds={}", SHORTEST + self.random.below(SHORTEST));
        if let Ok(uri) = request.uri().to_string().replace(&asked, &longer).parse() {
            *request.uri_mut() = uri;
        }
        request
    }
}

enum Ended {
    Gone,
    /// The server closed the stream, which it does at the requested timeout.
    Quietly {
        useful: bool,
    },
    Broken(kube::Error),
}

fn advance(version: &mut String, seen: Option<String>) {
    if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
        *version = seen;
    }
}

fn gone_or_broken(error: kube::Error) -> Ended {
    match error {
        kube::Error::Api(status) if status.code == 410 || status.reason == "Expired" || status.reason == "Gone" => {
            Ended::Gone
        }
        other => Ended::Broken(other),
    }
}
