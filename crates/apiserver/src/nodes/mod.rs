//! The way to the nodes: what is asked of the server and answered by a node's agent.
//!
//! A node of this process is asked without a socket; the program that assembles the process says how ([`Nodes`]). All others
//! are asked over HTTPS ([`remote`]). Which addresses may be connected to at all is decided in [`network`], for Pods too.

pub mod network;
pub mod remote;

use crate::ApiServer;
use crate::backend::Backend;
use crate::body::{Body, Payload};
use crate::serve::usage::Usage;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use network::Network;
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
    fn send(&self, place: Place, request: Request<Payload>) -> BoxFuture<'static, Result<NodeAnswer, String>>;
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
    /// From now on nodes are reached so, and what they use can be asked.
    pub async fn set_nodes(&self, nodes: Arc<dyn Nodes>) {
        self.nodes.store(Some(Arc::new(nodes)));
        let usage: Arc<dyn Backend> = Arc::new(Usage);
        self.registry.catalogue.amend(|catalogue| catalogue.add(&usage)).await;
    }

    /// From now on Pods are reached so.
    pub fn set_network(&self, network: Arc<dyn Network>) {
        self.network.store(Some(Arc::new(network)));
    }

    /// The network of the Pods, if this server is in it.
    pub fn network(&self) -> Option<Arc<dyn Network>> {
        self.network.load_full().map(|network| network.as_ref().clone())
    }

    /// Sends a request to the node of that name.
    pub async fn ask_node(&self, name: &str, request: Request<Payload>) -> Result<NodeAnswer, Status> {
        let place = self.find_node(name).await?;
        self.ask_at(place, request).await?.map_err(|why| Status::internal(format!("node {name}: {why}")))
    }

    /// Where the node of that name is.
    pub async fn find_node(&self, name: &str) -> Result<Place, Status> {
        let catalogue = self.registry.catalogue.latest();
        let resource = catalogue.get("", "v1", "nodes").ok_or_else(Status::no_such_resource)?;
        Ok(Place::of(&crate::codec::decode(&self.registry.get(resource, "", name).await?.value)))
    }

    /// Sends a request to a node that was found. The inner error says why it did not get there.
    pub async fn ask_at(&self, place: Place, request: Request<Payload>) -> Result<Result<NodeAnswer, String>, Status> {
        let Some(nodes) = self.nodes.load_full() else {
            return Err(Status::new(501, "NotImplemented", "this server has no way to its nodes"));
        };
        Ok(nodes.send(place, request).await)
    }
}

/// Sends one request over a connection, which then belongs to its answer.
pub async fn exchange(connection: impl Duplex + 'static, request: Request<Payload>) -> hyper::Result<NodeAnswer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
    tokio::spawn(async move {
        // Whoever reads the answer learns of its end.
        let _ = connection.with_upgrades().await;
    });
    let mut response = sender.send_request(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(&mut response).await?;
        let connection: Box<dyn Duplex> = Box::new(TokioIo::new(upgraded));
        return Ok(NodeAnswer { response: response.map(|_| Body::empty()), connection: Some(connection) });
    }
    Ok(NodeAnswer { response: response.map(Body::from), connection: None })
}

/// The most that is read of an answer which is passed on as a whole.
const WHOLE: usize = 32 * 1024 * 1024;

/// Reads an answer that is not a stream.
pub async fn read(mut body: Body) -> Result<Bytes, Status> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::internal(format!("a node's answer broke off: {error}")))?;
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
