//! TLS connections: accepted, upgraded to HTTP/1.1 or HTTP/2, handed to the chain, and ended cleanly.
//!
//! A stranger cannot use up memory or files: connections are bounded, and each has deadlines and small buffers. Bodies
//! stay in the socket until the chain has authorized the request.

pub mod connections;

use crate::ApiServer;
use crate::body::{Body, Payload};
use crate::request::{Peer, Request};
use connections::{Connection, Connections};
use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fs::File;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
/// A peer that does not answer a ping within this is gone.
const PING: Duration = Duration::from_secs(30);
/// How long requests under way may take once the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// Streams of one HTTP/2 connection, as many as Kubernetes allows; client-go opens one per watch.
const STREAMS: u32 = 250;
/// Request lines and headers.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Bodies that a client may send ahead, for one stream and for the whole connection.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 128 * 1024;
/// What waits to be sent, for each stream.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Serves until the server stops.
pub async fn serve(server: ApiServer, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
    let acceptor = TlsAcceptor::from(tls);
    let connections = Connections::new();
    let mut spare = Spare::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = server.stopping() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => match connections.admit() {
                Some(place) => {
                    place.is_from(address.ip());
                    tokio::spawn(connection(server.clone(), acceptor.clone(), stream, place));
                }
                None => tracing::debug!("a connection was refused: there are too many"),
            },
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                spare.refuse_one(&listener).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(GRACE, connections.ended()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

/// A file that is given up when there are no others, so that a newcomer can be told so instead of waiting for ever.
struct Spare(Option<File>);

impl Spare {
    fn new() -> Self {
        Spare(File::open("/dev/null").ok())
    }

    async fn refuse_one(&mut self, listener: &TcpListener) {
        drop(self.0.take());
        // Whatever is accepted now is closed at once.
        let _ = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        *self = Spare::new();
    }
}

async fn connection(server: ApiServer, acceptor: TlsAcceptor, stream: TcpStream, place: Arc<Connection>) {
    // Answers are small and written whole.
    let _ = stream.set_nodelay(true);
    let shaken = tokio::select! {
        biased;
        () = place.has_to_leave() => return,
        shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => shaken,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let peer = server.authenticator.peer(stream.get_ref().1.peer_certificates());
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        speak_http2(server, stream, peer, place).await;
    } else {
        speak_http1(server, stream, peer, place).await;
    }
}

async fn speak_http2(server: ApiServer, stream: TlsStream<TcpStream>, peer: Peer, place: Arc<Connection>) {
    let service = service(server.clone(), peer, place.clone());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(Some(PING))
        .keep_alive_timeout(PING);
    let connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    until_it_leaves(connection, |connection| connection.graceful_shutdown(), &server, &place).await;
}

async fn speak_http1(server: ApiServer, stream: TlsStream<TcpStream>, peer: Peer, place: Arc<Connection>) {
    let service = service(server.clone(), peer, place.clone());
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(MAX_HEADER_BYTES);
    let connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    until_it_leaves(connection, |connection| connection.graceful_shutdown(), &server, &place).await;
}

/// Serves a connection until its end, or until it has to go and its requests have had time to finish.
async fn until_it_leaves<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    shut_down: impl FnOnce(Pin<&mut C>),
    server: &ApiServer,
    place: &Connection,
) {
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = leaving(server, place) => {
            shut_down(connection.as_mut());
            tokio::time::timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn leaving(server: &ApiServer, place: &Connection) {
    tokio::select! {
        biased;
        () = server.stopping() => {}
        () = place.has_to_leave() => {}
    }
}

fn service(
    server: ApiServer,
    peer: Peer,
    place: Arc<Connection>,
) -> impl hyper::service::Service<
    http::Request<Incoming>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> {
    service_fn(move |request| {
        let (server, peer, place) = (server.clone(), peer.clone(), place.clone());
        async move { Ok(answer(server, peer, place, request).await) }
    })
}

async fn answer(
    server: ApiServer,
    peer: Peer,
    place: Arc<Connection>,
    mut request: http::Request<Incoming>,
) -> Response<Body> {
    let under_way = place.request();
    let asked = request.headers().contains_key(http::header::UPGRADE);
    let upgrade = asked.then(|| hyper::upgrade::on(&mut request));
    let (head, body) = request.into_parts();
    let request = Request::new(head, Payload::Arriving(body), peer).over(place, upgrade);
    server.handle(request).await.map(|body| body.with_guard(under_way))
}
