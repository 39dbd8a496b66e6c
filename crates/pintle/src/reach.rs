//! How the API server reaches nodes: those of this process without a socket, all others over HTTPS; and the HTTPS of this
//! machine's own node.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

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

/// Lets others ask this machine's node where the API server itself listens: metrics-server, Prometheus, and API servers of other
/// processes. At the address that the Node tells, this machine and its Pods may ask in any case. Without its port it goes on: the
/// API server of this process needs none.
pub(crate) async fn listen(
    server: &ApiServer,
    serving: Serving,
    (name, address): (&str, IpAddr),
    listening: IpAddr,
    pki: &Pki,
    clock: &Clock,
    shutdown: Shutdown,
) -> Result<(), PkiError> {
    let mut named = vec![address, IpAddr::V4(Ipv4Addr::LOCALHOST)];
    named.extend((!listening.is_unspecified()).then_some(listening));
    named.sort_unstable();
    named.dedup();
    let tls = pki.node_tls(name, &named, clock.now())?;
    for (address, only_own) in places(address, listening) {
        let at = SocketAddr::new(address, PORT);
        let listener = match TcpListener::bind(at).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%at, %error, "others cannot ask this node: its port is not free");
                continue;
            }
        };
        let client = server.client(User::internal(&format!("system:node:{name}")));
        let node = NodeServer { serving: serving.clone(), node: name.to_owned(), tls: tls.clone(), client, only_own };
        tokio::spawn(node.serve(listener, shutdown.clone()));
    }
    Ok(())
}

/// Where a node of this address listens, and whether only its own machine and Pods are answered there.
fn places(address: IpAddr, listening: IpAddr) -> Vec<(IpAddr, bool)> {
    let elsewhere = !listening.is_unspecified() && listening != address;
    let own = elsewhere.then_some((address, true));
    std::iter::once((listening, false)).chain(own).collect()
}

#[cfg(test)]
mod tests;
