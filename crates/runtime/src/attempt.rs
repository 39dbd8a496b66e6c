//! One call of a reconciler: why it runs, how often it was tried, and what it may use; writes inside it tell their cause.
//!
//! The attempt is found by the client through the task that polls it. A reconciler that spawns a task of its own, and
//! wants the writes there to tell their cause as well, wraps it in [`Attempt::scope`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::HeaderValue;
use jiff::Timestamp;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::Api;
use kube::{Client, Resource};
use serde::Deserialize;

use crate::cause::{Causes, header};
use crate::context::{ClusterId, Context};
use crate::key::Key;

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
    context: Arc<Context>,
    header: OnceLock<Option<HeaderValue>>,
    written: Mutex<Written>,
}

/// The highest revision that was written, by cluster and the path of the collection: clusters count apart.
pub(crate) type Written = BTreeMap<(ClusterId, String), u64>;

impl Attempt {
    pub fn new(controller: Arc<str>, key: Key, number: u32, causes: Causes, context: Arc<Context>) -> Arc<Self> {
        let (header, written) = (OnceLock::new(), Mutex::default());
        Arc::new(Attempt { controller, key, number, causes, context, header, written })
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
    pub(crate) fn wrote(&self, cluster: ClusterId, path: &str, answer: &[u8]) {
        let Some(version) = version_in(answer) else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = written.entry((cluster, collection_of(path))).or_default();
        *highest = version.max(*highest);
    }

    /// What was written until now.
    pub(crate) fn written(&self) -> Written {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The version of the object in an answer; a Status has none.
fn version_in(answer: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "resourceVersion")]
        version: String,
    }
    let object: Object = serde_json::from_slice(answer).ok()?;
    object.metadata.version.parse().ok()
}

/// `/apis/apps/v1/namespaces/shop/replicasets/web/status` is in `/apis/apps/v1/replicasets`.
fn collection_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let root = if parts.first() == Some(&"api") { 2 } else { 3 };
    let namespaced = parts.get(root) == Some(&"namespaces") && parts.len() > root + 2;
    // `/api/v1/namespaces/x/finalize` is about the Namespace itself.
    let namespaced = namespaced && !["status", "finalize"].contains(&parts[root + 2]);
    let resource = parts.get(if namespaced { root + 2 } else { root }).copied().unwrap_or_default();
    format!("/{}/{resource}", parts[..root.min(parts.len())].join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_looked_for_in_the_cache_of_its_kind() {
        for (path, collection) in [
            ("/api/v1/namespaces/shop/pods", "/api/v1/pods"),
            ("/api/v1/namespaces/shop/pods/web/status", "/api/v1/pods"),
            ("/api/v1/namespaces/shop", "/api/v1/namespaces"),
            ("/api/v1/namespaces/shop/finalize", "/api/v1/namespaces"),
            ("/api/v1/nodes/n1", "/api/v1/nodes"),
            ("/apis/apps/v1/namespaces/shop/replicasets/web", "/apis/apps/v1/replicasets"),
            ("/apis/storage.k8s.io/v1/csinodes/n1", "/apis/storage.k8s.io/v1/csinodes"),
            ("/version", "/version/"),
        ] {
            assert_eq!(collection_of(path), collection, "{path}");
        }
    }

    #[test]
    fn an_answer_tells_its_version_only_if_it_is_an_object() {
        assert_eq!(version_in(br#"{"kind":"Pod","metadata":{"name":"x","resourceVersion":"17"}}"#), Some(17));
        assert_eq!(version_in(br#"{"kind":"Status","metadata":{},"status":"Success"}"#), None);
        assert_eq!(version_in(b"nonsense"), None);
    }
}
