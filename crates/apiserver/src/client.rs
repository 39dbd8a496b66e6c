//! Callers in this process: the same `kube::Client` that works over HTTPS, without a socket.

use crate::ApiServer;
use crate::authn::User;
use crate::body::Body;
use crate::request::{Peer, Request};
use futures::future::BoxFuture;
use http::Response;
use http_body_util::BodyExt;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;

impl ApiServer {
    /// A client that acts as `user`. Requests are handled on the caller's task.
    pub fn client(&self, user: User) -> kube::Client {
        kube::Client::new(InProcess { server: self.clone(), user: Arc::new(user) }, "default")
    }
}

#[derive(Clone)]
struct InProcess {
    server: ApiServer,
    user: Arc<User>,
}

impl Service<http::Request<kube::client::Body>> for InProcess {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
        let (server, peer) = (self.server.clone(), Peer::Internal(self.user.clone()));
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // A body that breaks off is an incomplete object, which the decoder refuses.
            let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            Ok(server.handle(Request::new(head, body, peer)).await)
        })
    }
}
