//! What changes between the look and the commit of a write, forced by a store that lets somebody in first.

use crate::authn::User;
use crate::pki::Pki;
use crate::request::{Peer, Request};
use crate::{ApiServer, Pace, Parts, keys};
use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use pintle_meta::{Clock, Random};
use pintle_store::{
    CommitError, Committed, Entry, Interest, MemoryStore, Op, Page, Range, ReadError, Revision, Store, Txn, Watch,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Before the next object of a namespace is committed, the namespace begins to go.
struct Meddling {
    store: MemoryStore,
    armed: AtomicBool,
}

impl Meddling {
    async fn end_namespace(&self) {
        let key = keys::named(keys::NAMESPACES, "shop");
        let entry = self.store.get(&key).await.ok().flatten();
        let Some(entry) = entry else { return };
        let mut namespace = crate::codec::decode(&entry.value);
        namespace["status"]["phase"] = "Terminating".into();
        namespace["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let put = Op::Put { key: key.as_str().into(), value: crate::codec::encode(&namespace), expires_at: None };
        let _ = self.store.commit(Txn { ops: vec![put], ..Txn::default() }).await;
    }
}

#[async_trait]
impl Store for Meddling {
    fn revision(&self) -> Revision {
        self.store.revision()
    }

    async fn reach(&self, revision: Revision) -> Result<(), ReadError> {
        self.store.reach(revision).await
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, ReadError> {
        self.store.get(key).await
    }

    async fn range(&self, range: Range) -> Result<Page, ReadError> {
        self.store.range(range).await
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let of_shop = |op: &Op| matches!(op, Op::Put { key, .. } if key.contains("/configmaps/shop/"));
        if txn.ops.iter().any(of_shop) && self.armed.swap(false, Ordering::AcqRel) {
            self.end_namespace().await;
        }
        self.store.commit(txn).await
    }

    fn subscribe(&self, interest: &Interest, after: Revision) -> Result<Watch, ReadError> {
        self.store.subscribe(interest, after)
    }

    async fn expire(&self, now_ms: i64) -> Result<usize, CommitError> {
        self.store.expire(now_ms).await
    }

    fn compact(&self, keep_after: Revision) {
        self.store.compact(keep_after);
    }

    fn health(&self) -> Result<(), String> {
        self.store.health()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

async fn create(server: &ApiServer, path: &str, object: Value) -> (u16, Value) {
    let (mut head, ()) = http::Request::new(()).into_parts();
    (head.method, head.uri) = (Method::POST, path.parse().unwrap());
    let peer = Peer::Internal(Arc::new(User::internal("test")));
    let request = Request::new(head, Bytes::from(object.to_string()), peer);
    let (head, body) = server.handle(request).await.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_began_to_go_a_moment_ago() {
    let clock = Clock::system();
    let token_key = Pki::generate(clock.now()).unwrap().token_key;
    let store = Arc::new(Meddling { store: MemoryStore::new(), armed: AtomicBool::new(false) });
    let (random, pace) = (Random::seeded(1), Pace::default());
    let parts = Parts { store: store.clone(), clock, random, token_key, pace, seats: 32 };
    let server = ApiServer::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    assert_eq!(create(&server, "/api/v1/namespaces", namespace).await.0, 201);
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let path = "/api/v1/namespaces/shop/configmaps";
    assert_eq!(create(&server, path, map("before")).await.0, 201);
    store.armed.store(true, Ordering::Release);
    let (code, status) = create(&server, path, map("late")).await;
    assert_eq!((code, store.armed.load(Ordering::Acquire)), (403, false), "{status}");
    assert!(status["message"].as_str().unwrap().contains("because it is being terminated"), "{status}");
    let late = keys::in_namespace(&keys::builtin("", "configmaps"), "shop", "late");
    assert!(store.get(&late).await.unwrap().is_none());
}
