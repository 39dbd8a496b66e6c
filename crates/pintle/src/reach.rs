//! How the API server reaches nodes: those of this process without a socket, all others over HTTPS; and the HTTPS of this
//! machine's own node.

use std::net::{IpAddr, SocketAddr};

use futures::future::BoxFuture;
use http::{Request, Response};
use pintle_apiserver::ApiServer;
use pintle_apiserver::authn::User;
use pintle_apiserver::body::{Body, Payload};
use pintle_apiserver::nodes::remote::Remote;
use pintle_apiserver::nodes::{NodeAnswer, Nodes, Place};
use pintle_apiserver::pki::{Pki, PkiError};
use pintle_kubelet::Serving;
use pintle_kubelet::serve::{Answer, listener::NodeServer};
use pintle_meta::Clock;
use pintle_runtime::Shutdown;
use tokio::net::TcpListener;

/// Where a node's agent listens.
pub(crate) const PORT: u16 = 10250;

/// Nodes of this process and elsewhere.
pub(crate) struct Reach {
    pub(crate) serving: Serving,
    pub(crate) remote: Remote,
}

impl Nodes for Reach {
    fn send(&self, place: Place, request: Request<Payload>) -> BoxFuture<'static, Result<NodeAnswer, String>> {
        if !self.serving.has(&place.name) {
            return self.remote.send(place, request);
        }
        let serving = self.serving.clone();
        // None of the paths that a node of ours answers takes a body.
        let request = request.map(|_| ());
        Box::pin(async move { Ok(passed_on(serving.answer(&place.name, &request).await)) })
    }
}

fn passed_on(answer: Response<Answer>) -> NodeAnswer {
    let (head, answer) = answer.into_parts();
    let (body, connection) = match answer {
        Answer::Whole(bytes) => (Body::from(bytes), None),
        Answer::Stream(mut lines) => {
            (Body::Stream(Box::pin(futures::stream::poll_fn(move |cx| lines.poll_recv(cx)))), None)
        }
        Answer::Upgraded(connection) => (Body::empty(), Some(Box::new(connection) as _)),
    };
    NodeAnswer { response: Response::from_parts(head, body), connection }
}

/// Lets others ask this machine's node: Prometheus, and API servers of other processes. Without its port it goes on: the
/// API server of this process needs none.
pub(crate) async fn listen(
    server: &ApiServer,
    serving: Serving,
    (name, address): (&str, IpAddr),
    pki: &Pki,
    clock: &Clock,
    shutdown: Shutdown,
) -> Result<(), PkiError> {
    let at = SocketAddr::new(address, PORT);
    let listener = match TcpListener::bind(at).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%at, %error, "others cannot ask this node: its port is not free");
            return Ok(());
        }
    };
    let tls = pki.node_tls(name, &[address], clock.now())?;
    let client = server.client(User::internal(&format!("system:node:{name}")));
    let node = NodeServer { serving, node: name.to_owned(), tls, client };
    tokio::spawn(node.serve(listener, shutdown));
    Ok(())
}

#[cfg(test)]
mod tests;
