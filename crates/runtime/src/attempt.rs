//! One call of a reconciler: why it runs, how often it was tried, and what it may use; writes inside it tell their cause.
//!
//! The attempt is found by the client through the task that polls it. A reconciler that spawns a task of its own, and
//! wants the writes there to tell their cause as well, wraps it in [`Attempt::scope`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::{HeaderValue, Method};
use jiff::Timestamp;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::Api;
use kube::{Client, Resource};
use serde::Deserialize;

use crate::cause::{Causes, header};
use crate::context::{ClusterId, Context};
use crate::key::Key;
use crate::trace::TraceParent;

tokio::task_local! {
    static CURRENT: Arc<Attempt>;
}

/// What a reconciler is given beside its key.
#[derive(Debug)]
pub struct Attempt {
    /// The loop's name.
    pub controller: Arc<str>,
    pub key: Key,
    /// 1 for the first try since the last success.
    pub number: u32,
    /// What woke the key.
    pub causes: Causes,
    /// The trace that its writes belong to, if what woke the key is traced.
    pub trace: Option<TraceParent>,
    context: Arc<Context>,
    header: OnceLock<Option<HeaderValue>>,
    written: Mutex<Written>,
}

/// A collection by its path. Revisions of two clusters have nothing to do with each other.
pub(crate) type Collection = (ClusterId, String);

/// What an attempt wrote, as far as the server answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// The highest revision in each collection.
    pub(crate) versions: BTreeMap<Collection, u64>,
    pub(crate) gone: Vec<Gone>,
}

/// An object that was deleted: gone, or on its way.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    pub(crate) collection: Collection,
    pub(crate) key: Key,
    pub(crate) uid: String,
}

impl Written {
    pub(crate) fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.gone.is_empty()
    }
}

impl Attempt {
    pub fn new(controller: Arc<str>, key: Key, number: u32, causes: Causes, context: Arc<Context>) -> Arc<Self> {
        let trace = causes.trace();
        Attempt::traced(controller, key, number, causes, (context, trace))
    }

    /// The same in a span of its own.
    pub(crate) fn traced(
        controller: Arc<str>,
        key: Key,
        number: u32,
        causes: Causes,
        (context, trace): (Arc<Context>, Option<TraceParent>),
    ) -> Arc<Self> {
        let (header, written) = (OnceLock::new(), Mutex::default());
        Arc::new(Attempt { controller, key, number, causes, trace, context, header, written })
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// A client whose writes tell the cause.
    pub fn client(&self) -> Client {
        self.context.client.clone()
    }

    pub fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    /// A namespaced kind, in the key's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), self.key.namespace())
    }

    /// A kind of the whole cluster.
    pub fn cluster_api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Api::all(self.client())
    }

    /// Runs a future so that its writes tell this attempt's cause.
    pub async fn scope<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    /// The attempt whose task is running.
    pub fn current() -> Option<Arc<Attempt>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// What a write tells the server; made once.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let actor = if self.context.name.is_empty() { &*self.controller } else { self.context.name.as_str() };
        self.header.get_or_init(|| header::value(actor, &self.key, self.number, &self.causes)).clone()
    }

    /// Notes what the server answered to a write, so that the next attempt can wait until the caches show it.
    pub(crate) fn wrote(&self, cluster: ClusterId, method: &Method, path: &str, answer: &[u8]) {
        let Some(answer) = Answer::read(answer) else { return };
        let (collection, key) = place_of(path);
        let collection = (cluster, collection);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if method == Method::DELETE {
            let gone = key.zip(answer.uid()).map(|(key, uid)| Gone { collection, key, uid });
            written.gone.extend(gone);
        } else if let Some(version) = answer.version() {
            let highest = written.versions.entry(collection).or_default();
            *highest = version.max(*highest);
        }
    }

    /// What was written until now.
    pub(crate) fn written(&self) -> Written {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What an answer tells of its object: the object itself, or a Status about one that is gone.
#[derive(Deserialize)]
struct Answer {
    metadata: Identity,
    #[serde(default)]
    details: Option<Identity>,
}

#[derive(Deserialize)]
struct Identity {
    #[serde(default)]
    uid: Option<String>,
    #[serde(default, rename = "resourceVersion")]
    version: Option<String>,
}

impl Answer {
    fn read(answer: &[u8]) -> Option<Answer> {
        serde_json::from_slice(answer).ok()
    }

    fn version(&self) -> Option<u64> {
        self.metadata.version.as_deref()?.parse().ok()
    }

    fn uid(self) -> Option<String> {
        self.metadata.uid.or_else(|| self.details?.uid)
    }
}

/// `/apis/apps/v1/namespaces/shop/replicasets/web/status` is of `shop/web` in `/apis/apps/v1/replicasets`.
fn place_of(path: &str) -> (String, Option<Key>) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let root = if parts.first() == Some(&"api") { 2 } else { 3 };
    let namespaced = parts.get(root) == Some(&"namespaces") && parts.len() > root + 2;
    // `/api/v1/namespaces/x/finalize` is about the Namespace itself.
    let namespaced = namespaced && !["status", "finalize"].contains(&parts[root + 2]);
    let resource = if namespaced { root + 2 } else { root };
    let namespace = if namespaced { parts[root + 1] } else { "" };
    let key = parts.get(resource + 1).map(|name| Key::new(namespace, name));
    let resource = parts.get(resource).copied().unwrap_or_default();
    (format!("/{}/{resource}", parts[..root.min(parts.len())].join("/")), key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_looked_for_in_the_cache_of_its_kind() {
        for (path, collection, key) in [
            ("/api/v1/namespaces/shop/pods", "/api/v1/pods", None),
            ("/api/v1/namespaces/shop/pods/web/status", "/api/v1/pods", Some(("shop", "web"))),
            ("/api/v1/namespaces/shop", "/api/v1/namespaces", Some(("", "shop"))),
            ("/api/v1/namespaces/shop/finalize", "/api/v1/namespaces", Some(("", "shop"))),
            ("/api/v1/nodes/n1", "/api/v1/nodes", Some(("", "n1"))),
            ("/apis/apps/v1/namespaces/shop/replicasets/web", "/apis/apps/v1/replicasets", Some(("shop", "web"))),
            ("/apis/storage.k8s.io/v1/csinodes/n1", "/apis/storage.k8s.io/v1/csinodes", Some(("", "n1"))),
            ("/version", "/version/", None),
        ] {
            let key = key.map(|(namespace, name)| Key::new(namespace, name));
            assert_eq!(place_of(path), (collection.to_owned(), key), "{path}");
        }
    }

    #[test]
    fn an_answer_tells_which_object_was_written_or_is_gone() {
        let read = |text: &str| Answer::read(text.as_bytes());
        let pod = r#"{"kind":"Pod","metadata":{"name":"x","uid":"u","resourceVersion":"17"}}"#;
        assert_eq!(read(pod).and_then(|answer| answer.version()), Some(17));
        assert_eq!(read(pod).and_then(Answer::uid).as_deref(), Some("u"));
        let gone = r#"{"kind":"Status","metadata":{},"status":"Success","details":{"name":"x","uid":"u"}}"#;
        assert_eq!(read(gone).and_then(|answer| answer.version()), None);
        assert_eq!(read(gone).and_then(Answer::uid).as_deref(), Some("u"));
        assert!(read("nonsense").is_none());
    }
}
