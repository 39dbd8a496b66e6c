//! HTTPS in front of a node: who has a certificate of the cluster's and may ask is answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
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

use super::authorize::{self, User};
use super::{Answer, Serving, whole};

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
    /// Asked whether a client may.
    pub client: kube::Client,
}

impl NodeServer {
    /// Serves until the shutdown.
    pub async fn serve(self, listener: TcpListener, shutdown: Shutdown) {
        let acceptor = TlsAcceptor::from(self.tls.clone());
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.fired() => return,
                accepted = accept(&listener, &free) => accepted,
            };
            let Some((stream, permit)) = accepted else { continue };
            let (server, acceptor, shutdown) = (self.clone(), acceptor.clone(), shutdown.clone());
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = shutdown.fired() => {}
                    () = server.connection(acceptor, stream) => {}
                }
                drop(permit);
            });
        }
    }

    async fn connection(self, acceptor: TlsAcceptor, stream: TcpStream) {
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
            let (server, user) = (self.clone(), user.clone());
            async move { Ok::<_, Infallible>(server.answer(user, request).await) }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
        if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn answer(&self, user: Option<User>, mut request: Request<Incoming>) -> Response<Body> {
        let Some(user) = user else {
            return body(whole(StatusCode::UNAUTHORIZED, "text/plain", "Unauthorized")).0;
        };
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if !authorize::allows(&self.client, &self.node, &user, &method, &path).await {
            return body(whole(StatusCode::FORBIDDEN, "text/plain", "Forbidden")).0;
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
