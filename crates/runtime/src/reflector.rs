//! Mirrors one kind from the server: lists it in pages, then watches from there, for ever.
//!
//! - The sink sees one `Replaced` with everything, then single changes in the server's order.
//! - A broken watch resumes at the last resourceVersion seen, bookmarks included.
//! - 410 Gone means that the server no longer keeps that version: the kind is listed again.
//! - Errors are waited out with jittered backoff; the reflector never gives up.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use pintle_meta::Random;
use serde::de::DeserializeOwned;

use crate::backoff::Backoff;

/// Objects a page of a list.
const PAGE: u32 = 500;

/// What a reflector asks for beside the kind: selectors, as the API writes them; empty ones pick everything.
///
/// One namespace is `Selection::fields("metadata.namespace=x")`.
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

/// A change as the server tells it.
#[derive(Clone, Debug)]
pub enum Delta<K> {
    /// Everything there is: what is not in it is gone.
    Replaced(Vec<K>),
    Applied(K),
    Deleted(K),
}

/// Lists and watches until the future is dropped. The sink must not block.
pub async fn reflect<K>(api: Api<K>, selection: Selection, random: Random, mut sink: impl FnMut(Delta<K>))
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let url = api.resource_url().to_owned();
    let mut failures = 0;
    loop {
        match list(&api, &selection).await {
            Ok((objects, version)) => {
                failures = 0;
                sink(Delta::Replaced(objects));
                watch(&api, &selection, &random, version, &mut sink).await;
            }
            Err(error) => {
                tracing::warn!(%url, %error, "cannot list; trying again");
                tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, &random)).await;
                failures += 1;
            }
        }
    }
}

/// Every page of the list, and the version it stands for.
async fn list<K>(api: &Api<K>, selection: &Selection) -> Result<(Vec<K>, String), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
    params.label_selector = selection.label_selector();
    params.field_selector = selection.field_selector();
    let mut objects = Vec::new();
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok((objects, page.metadata.resource_version.unwrap_or_default())),
        }
    }
}

/// Watches from a version on; returns when the kind must be listed again.
async fn watch<K>(
    api: &Api<K>,
    selection: &Selection,
    random: &Random,
    mut version: String,
    sink: &mut impl FnMut(Delta<K>),
) where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let url = api.resource_url();
    let mut failures = 0;
    loop {
        let params = WatchParams {
            label_selector: selection.label_selector(),
            field_selector: selection.field_selector(),
            // Spread, so that watches opened together do not end together; below the client's 295 s read limit.
            timeout: Some(240 + u32::try_from(random.below(50)).unwrap_or(0)),
            ..WatchParams::default()
        };
        match watch_once(api, &params, &mut version, sink).await {
            Ended::Gone => return,
            Ended::Quietly { useful: true } => failures = 0,
            Ended::Quietly { useful: false } => {
                // A server that hangs up at once must not be asked in a tight loop.
                tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, random)).await;
                failures += 1;
            }
            Ended::Broken(error) => {
                tracing::warn!(%url, %error, "watch broke; resuming");
                tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, random)).await;
                failures += 1;
            }
        }
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

async fn watch_once<K>(
    api: &Api<K>,
    params: &WatchParams,
    version: &mut String,
    sink: &mut impl FnMut(Delta<K>),
) -> Ended
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let started = tokio::time::Instant::now();
    let mut seen = false;
    let stream = match api.watch(params, version).await {
        Ok(stream) => stream,
        Err(error) => return gone_or_broken(error),
    };
    let mut stream = pin!(stream);
    while let Some(event) = stream.next().await {
        let delta = match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                advance(version, object.resource_version());
                Delta::Applied(object)
            }
            Ok(WatchEvent::Deleted(object)) => {
                advance(version, object.resource_version());
                Delta::Deleted(object)
            }
            Ok(WatchEvent::Bookmark(bookmark)) => {
                advance(version, Some(bookmark.metadata.resource_version));
                seen = true;
                continue;
            }
            Ok(WatchEvent::Error(status)) => return gone_or_broken(kube::Error::Api(status)),
            Err(error) => return gone_or_broken(error),
        };
        seen = true;
        sink(delta);
    }
    Ended::Quietly { useful: seen || started.elapsed() >= Duration::from_secs(1) }
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
