//! HTTPS in front of a node: who has a certificate of the cluster's, or a token, and may ask is answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use pintle_container::Connection;
use pintle_runtime::Shutdown;
use pintle_runtime::accept::accept;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::authorize::{Access, User};
use super::{Answer, Failure, Serving, whole};

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);

/// Connections at once; others wait.
const CONNECTIONS: usize = 1000;

/// One node's server.
#[derive(Clone)]
pub struct NodeServer {
    pub serving: Serving,
    pub node: String,
    /// Verifies the certificates that clients show.
    pub tls: Arc<rustls::ServerConfig>,
    /// Asked whose token it is, and whether a client may.
    pub client: kube::Client,
    /// Answers this machine and its own Pods alone.
    pub only_own: bool,
}

impl NodeServer {
    /// Serves until the shutdown.
    pub async fn serve(self, listener: TcpListener, shutdown: Shutdown) {
        let acceptor = TlsAcceptor::from(self.tls.clone());
        let access = Arc::new(Access::new(self.client.clone(), self.node.clone()));
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.fired() => return,
                accepted = accept(&listener, &free) => accepted,
            };
            let Some((stream, permit)) = accepted else { continue };
            if self.only_own && !self.is_own(&stream) {
                continue;
            }
            let (server, acceptor, shutdown) = (self.clone(), acceptor.clone(), shutdown.clone());
            let access = access.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = shutdown.fired() => {}
                    () = server.connection(acceptor, access, stream) => {}
                }
                drop(permit);
            });
        }
    }

    /// Whether a process of this machine asks, or a Pod of this node: nobody else gets an answer to their address here.
    fn is_own(&self, stream: &TcpStream) -> bool {
        let (Ok(peer), Ok(local)) = (stream.peer_addr(), stream.local_addr()) else { return false };
        let peer = peer.ip().to_canonical();
        peer.is_loopback() || peer == local.ip().to_canonical() || self.serving.has_pod_at(&self.node, peer)
    }

    async fn connection(self, acceptor: TlsAcceptor, access: Arc<Access>, stream: TcpStream) {
        // Keys that someone types are to arrive one by one.
        let _ = stream.set_nodelay(true);
        let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => return tracing::debug!("a TLS handshake took too long"),
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let user = certificate.and_then(|certificate| User::of(certificate));
        let service = service_fn(move |request| {
            let (server, access, user) = (self.clone(), access.clone(), user.clone());
            async move { Ok::<_, Infallible>(server.answer(&access, user, request).await) }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
        if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn answer(
        &self,
        access: &Access,
        certificate: Option<User>,
        mut request: Request<Incoming>,
    ) -> Response<Body> {
        let allowed = match access.user(certificate, request.headers()).await {
            Ok(user) => access.check(&user, request.method(), request.uri().path()).await,
            Err(refused) => Err(refused),
        };
        if let Err(Failure(code, message)) = allowed {
            return body(whole(code, "text/plain; charset=utf-8", message)).0;
        }
        let upgrade = hyper::upgrade::on(&mut request);
        // No request to a node has a body.
        let (response, connection) = body(self.serving.answer(&self.node, &request.map(|_| ())).await);
        if let Some(mut connection) = connection {
            tokio::spawn(async move {
                match upgrade.await {
                    Ok(client) => {
                        // However it ends, both sides see it.
                        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut connection).await;
                    }
                    Err(error) => tracing::debug!(%error, "a connection was not handed over"),
                }
            });
        }
        response
    }
}

/// An answer as hyper wants it, and the node's end of a connection that changes its protocol.
fn body(response: Response<Answer>) -> (Response<Body>, Option<Connection>) {
    let (head, answer) = response.into_parts();
    let (body, connection) = match answer {
        Answer::Upgraded(connection) => (Answer::Whole(Bytes::new()), Some(connection)),
        other => (other, None),
    };
    (Response::from_parts(head, Body(body)), connection)
}

struct Body(Answer);

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Answer::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Answer::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Answer::Stream(stream) => stream.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Answer::Upgraded(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Answer::Whole(bytes) if bytes.is_empty())
    }
}
