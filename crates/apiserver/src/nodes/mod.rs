//! The way to the nodes: what is asked of the server and answered by a node's agent.
//!
//! A node of this process is asked without a socket; whoever puts the process together hands in how ([`Nodes`]). All others
//! are asked over HTTPS ([`remote`]).

pub mod remote;

use crate::ApiServer;
use crate::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use pintle_meta::{Status, object};
use serde_json::Value;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// The bytes of a connection that has changed its protocol.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What a node answers: a response, and with 101 the connection that follows it.
pub struct NodeAnswer {
    pub response: Response<Body>,
    pub connection: Option<Box<dyn Duplex>>,
}

/// Which node, and where its Node object says that its agent listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    /// An address and a port; nothing if the node tells none.
    pub endpoint: Option<(String, u16)>,
}

/// Brings a request to a node. The error says why it could not be brought.
pub trait Nodes: Send + Sync + 'static {
    fn send(&self, place: Place, request: Request<Bytes>) -> BoxFuture<'static, Result<NodeAnswer, String>>;
}

impl Place {
    /// The addresses that need no lookup come first.
    pub fn of(node: &Value) -> Self {
        let addresses = object::list(node, &["status", "addresses"]);
        let of_type = |kind: &str| addresses.iter().find(|address| address["type"] == kind);
        let kinds = ["InternalIP", "ExternalIP", "InternalDNS", "Hostname", "ExternalDNS"];
        let address = kinds.into_iter().find_map(of_type).map(|address| object::text(address, &["address"]).to_owned());
        let port = object::integer(node, &["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        Place { name: object::name(node).to_owned(), endpoint: address.zip(port) }
    }
}

impl ApiServer {
    /// From now on nodes are reached so.
    pub fn set_nodes(&self, nodes: Arc<dyn Nodes>) {
        self.nodes.store(Some(Arc::new(nodes)));
    }

    /// Whether there is a way to nodes.
    pub fn knows_nodes(&self) -> bool {
        self.nodes.load().is_some()
    }

    /// Sends a request to the node of that name.
    pub async fn ask_node(&self, name: &str, request: Request<Bytes>) -> Result<NodeAnswer, Status> {
        let catalogue = self.registry.catalogue.latest();
        let resource = catalogue.get("", "v1", "nodes").ok_or_else(Status::no_such_resource)?;
        let node = crate::codec::decode(&self.registry.get(resource, "", name).await?.value);
        let Some(nodes) = self.nodes.load_full() else {
            return Err(Status::new(501, "NotImplemented", "this server has no way to its nodes"));
        };
        nodes.send(Place::of(&node), request).await.map_err(|why| Status::internal(format!("node {name}: {why}")))
    }
}

/// The most that is read of an answer which is passed on as a whole.
const WHOLE: usize = 32 * 1024 * 1024;

/// Reads an answer that is not a stream.
pub async fn read(mut body: Body) -> Result<Bytes, Status> {
    let mut whole = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        whole.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        if whole.len() > WHOLE {
            return Err(Status::internal("a node's answer is too long"));
        }
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_reached_where_it_says() {
        let node = json!({"metadata": {"name": "a"}, "status": {
            "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}});
        assert_eq!(Place::of(&node).endpoint, Some(("10.0.0.1".to_owned(), 10250)));
        assert_eq!(Place::of(&json!({"metadata": {"name": "a"}})), Place { name: "a".to_owned(), endpoint: None });
    }
}
