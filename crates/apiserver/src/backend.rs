//! Who answers for the resources of a group's version in place of the registry.
//!
//! A backend is added to the catalogue, and is served from then on: the chain finds its resources there like all others, and
//! discovery and OpenAPI tell of them without knowing that they are a backend's.

mod mirror;

pub use mirror::{Mirror, Place};

use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::request::Sent;
use crate::strategy::Strategy;
use futures::future::BoxFuture;
use http::Response;
use pintle_meta::Status;
use serde_json::Value;

pub trait Backend: Send + Sync + 'static {
    fn group(&self) -> &str;

    fn version(&self) -> &str;

    fn resources(&self) -> Vec<Offered>;

    /// Answers a call of one of its resources, whose user may make it.
    fn answer<'a>(
        &'a self,
        server: &'a ApiServer,
        call: &'a Call,
        sent: Sent,
        notes: &'a Notes,
    ) -> BoxFuture<'a, Result<Response<Body>, Status>>;
}

/// A resource of a backend.
pub enum Offered {
    /// The backend answers every call by itself.
    Listed(Listed),
    /// A CustomResourceDefinition, of which only `spec` counts: columns, schema and short names are its. The backend may have
    /// the registry answer ([`crate::verbs::dispatch`]), as [`Mirror`] does.
    Defined(Value),
}

/// What discovery and OpenAPI say about a resource.
pub struct Listed {
    /// The plural name that stands in paths.
    pub name: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    /// For OpenAPI.
    pub schema: Value,
}

/// What the catalogue knows about such a kind: its schema. All else is the backend's.
pub struct Answered(pub Value);

impl Strategy for Answered {
    fn open_api(&self) -> Option<Value> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::User;
    use crate::nodes::{self, NodeAnswer, Nodes};
    use crate::pki::Pki;
    use crate::request::{Peer, Request};
    use crate::{Pace, Parts};
    use bytes::Bytes;
    use http_body_util::BodyExt;
    use pintle_meta::{Clock, Random};
    use pintle_store::MemoryStore;
    use std::sync::Arc;

    struct NoNodes;

    impl Nodes for NoNodes {
        fn send(
            &self,
            _: nodes::Place,
            _: http::Request<crate::body::Payload>,
        ) -> BoxFuture<'static, Result<NodeAnswer, String>> {
            Box::pin(async { Err("there is none".to_owned()) })
        }
    }

    async fn get(server: &ApiServer, path: &str, accept: &str) -> (u16, Value) {
        let request = http::Request::get(path).header("accept", accept).body(()).unwrap();
        let peer = Peer::Internal(Arc::new(User::internal("admin")));
        let answer = server.handle(Request::new(request.into_parts().0, Bytes::new(), peer)).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn what_a_backend_offers_is_served_and_told_everywhere_once_it_is_added() {
        let clock = Clock::system();
        let token_key = Pki::generate(clock.now()).unwrap().token_key;
        let store = Arc::new(MemoryStore::new());
        let parts = Parts { store, clock, random: Random::seeded(1), token_key, pace: Pace::default(), seats: 100 };
        let server = ApiServer::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
        const JSON: &str = "application/json";
        const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let has_group = |list: &Value, at: &[&str]| {
            let of = |group: &Value| at.iter().fold(group.clone(), |value, key| value[*key].clone());
            let groups = list.get("groups").or_else(|| list.get("items")).and_then(Value::as_array);
            groups.into_iter().flatten().any(|group| of(group) == "metrics.k8s.io")
        };
        assert_eq!(get(&server, "/apis/metrics.k8s.io/v1beta1/pods", JSON).await.0, 404);
        assert!(!has_group(&get(&server, "/apis", AGGREGATED).await.1, &["metadata", "name"]));
        server.set_nodes(Arc::new(NoNodes)).await;
        let (code, list) = get(&server, "/apis/metrics.k8s.io/v1beta1/pods", JSON).await;
        assert_eq!((code, &list["kind"]), (200, &"PodMetricsList".into()));
        assert_eq!(get(&server, "/apis/metrics.k8s.io/v1beta1/namespaces/a/nodes", JSON).await.0, 404);
        assert!(has_group(&get(&server, "/apis", AGGREGATED).await.1, &["metadata", "name"]));
        assert!(has_group(&get(&server, "/apis", JSON).await.1, &["name"]));
        let resources = get(&server, "/apis/metrics.k8s.io/v1beta1", JSON).await.1;
        let names: Vec<&str> =
            resources["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
        assert_eq!(names, ["nodes", "pods"]);
        let schemas = get(&server, "/openapi/v3/apis/metrics.k8s.io/v1beta1", JSON).await.1;
        let node = &schemas["components"]["schemas"]["io.k8s.metrics.v1beta1.NodeMetrics"];
        assert_eq!(node["properties"]["usage"]["type"], "object", "{schemas}");
        let older = get(&server, "/openapi/v2", JSON).await.1;
        assert!(older["definitions"]["io.k8s.metrics.v1beta1.PodMetrics"].is_object());
    }
}
