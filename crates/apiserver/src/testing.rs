//! What tests of this crate have in common: a server with a namespace, and programs outside that it is to ask.

pub(crate) mod hooks;

use crate::authn::User;
use crate::pki::Pki;
use crate::request::{Peer, Request};
use crate::setup::Setup;
use crate::{ApiServer, Pace, Parts};
use bytes::Bytes;
use hooks::Hooks;
use http_body_util::BodyExt;
use pintle_meta::{Clock, Random};
use pintle_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) hooks: Hooks,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        Cluster::start_with(|_| Setup::default()).await
    }

    /// With everything that an operator can say; the programs outside are there before.
    pub(crate) async fn start_with(setup: impl FnOnce(&Hooks) -> Setup) -> Self {
        let clock = Clock::system();
        let token_key = Pki::generate(clock.now()).unwrap().token_key;
        let store = Arc::new(MemoryStore::new());
        let parts = Parts { store, clock, random: Random::seeded(1), token_key, pace: Pace::default(), seats: 100 };
        let hooks = Hooks::start(&["127.0.0.1", "hook.a.svc"]).await;
        let server = ApiServer::start_with(parts, setup(&hooks)).await.unwrap_or_else(|error| panic!("{error}"));
        let cluster = Cluster { server, hooks };
        let name = |name: &str| json!({"metadata": {"name": name}});
        assert_eq!(cluster.post("/api/v1/namespaces", name("a")).await.code, 201);
        assert_eq!(cluster.post("/api/v1/namespaces/a/serviceaccounts", name("default")).await.code, 201);
        cluster
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value, media: &str) -> Answer {
        self.send_as(User::internal("admin"), &[("content-type", media)], method, path, body).await
    }

    pub(crate) async fn send_as(
        &self,
        user: User,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).unwrap();
        let peer = Peer::Internal(Arc::new(user));
        let answer = self.server.handle(Request::new(request.into_parts().0, bytes, peer)).await;
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap_or_default().to_owned()).collect();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Answer { code, body: serde_json::from_slice(&body).unwrap_or_default(), warnings }
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &body, "application/json").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &Value::Null, "application/json").await
    }
}
