//! TLS connections to a cluster in virtual time: every request passes the faults, or is one to the control itself.
//!
//! Not the listener of the API server, for that one has timeouts: here an hour may pass between two bytes of a client
//! that did nothing wrong. Nothing in this file waits for time.

use super::Served;
use super::links::Link;
use crate::faults::asked::Asked;
use crate::faults::{Answer, Broken};
use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use pintle_apiserver::body::read;
use pintle_apiserver::request::{Peer, Request};
use pintle_apiserver::response;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Streams of one HTTP/2 connection; client-go opens one a watch.
const STREAMS: u32 = 1000;

/// Serves until the cluster's server stops.
pub(super) async fn serve(served: Arc<Served>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
    let acceptor = TlsAcceptor::from(tls);
    let server = served.cluster.server.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = server.stopping() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (served, acceptor, server) = (served.clone(), acceptor.clone(), server.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = server.stopping() => {}
                        () = connection(served, acceptor, stream) => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Out of file descriptors, most likely: others will close theirs.
                served.time.really_wait(super::time::BEAT).await;
            }
        }
    }
}

async fn connection(served: Arc<Served>, acceptor: TlsAcceptor, stream: TcpStream) {
    // Answers are small and written whole.
    let _ = stream.set_nodelay(true);
    let stream = match acceptor.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "a TLS handshake failed"),
    };
    let peer = served.cluster.server.authenticator.peer(stream.get_ref().1.peer_certificates());
    let link = Arc::new(served.links.open());
    let service = {
        let link = link.clone();
        service_fn(move |request: http::Request<Incoming>| answer(served.clone(), link.clone(), peer.clone(), request))
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().header_read_timeout(None);
    builder.http2().max_concurrent_streams(STREAMS).keep_alive_interval(None);
    tokio::select! {
        biased;
        () = link.cut() => {}
        ended = builder.serve_connection(TokioIo::new(stream), service) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
    }
}

async fn answer(
    served: Arc<Served>,
    link: Arc<Link>,
    peer: Peer,
    request: http::Request<Incoming>,
) -> Result<Response<Answer>, io::Error> {
    let (head, body) = request.into_parts();
    let body = match read(body).await {
        Ok(body) => body,
        Err(status) => return Ok(boxed(response::failure(&status))),
    };
    if is_control(head.uri.path()) {
        return Ok(boxed(served.handle(Request::new(head, body, peer)).await));
    }
    let asked = Asked::of(&head);
    link.note(&asked);
    let server = &served.cluster.server;
    let passed = served.cluster.faults.request(http::Request::from_parts(head, body), |request| async move {
        let (head, body) = request.into_parts();
        Ok::<_, Infallible>(server.handle(Request::new(head, body, peer)).await)
    });
    match passed.await {
        Ok(response) => Ok(response),
        Err(broken) => {
            if let Broken::Severed = broken {
                served.links.sever(&asked.agent);
            }
            // Over HTTP/1.1 this closes the connection, over HTTP/2 the stream.
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

fn is_control(path: &str) -> bool {
    path.strip_prefix("/control").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn boxed(response: Response<pintle_apiserver::body::Body>) -> Response<Answer> {
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
