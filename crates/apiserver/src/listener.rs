//! TLS connections: accepted, upgraded to HTTP/1.1 or HTTP/2, handed to the chain, and ended in peace.

use crate::ApiServer;
use crate::body::{Body, LIMIT};
use crate::request::{Peer, Request};
use crate::response;
use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use pintle_meta::Status;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
/// How long requests under way may take once the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// Streams of one HTTP/2 connection; client-go opens one a watch.
const STREAMS: u32 = 1000;

/// How much of a body that is too large is read before the connection is given up.
const HEARD_OUT: usize = 16 * LIMIT;

/// Serves until the server stops.
pub async fn serve(server: ApiServer, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = server.stopping() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let watcher = graceful.watcher();
                tokio::spawn(connection(server.clone(), acceptor.clone(), stream, watcher));
            }
            Err(error) => {
                // Out of file descriptors, most likely: others will close theirs.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

async fn connection(
    server: ApiServer,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Answers are small and written whole.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let peer = certificate.map_or(Peer::Unknown, |der| Peer::Certificate(der.to_vec()));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (server, peer) = (server.clone(), peer.clone());
        async move { Ok::<_, Infallible>(answer(server, peer, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(server: ApiServer, peer: Peer, mut request: http::Request<Incoming>) -> Response<Body> {
    let asked = request.headers().contains_key(http::header::UPGRADE);
    let upgrade = asked.then(|| hyper::upgrade::on(&mut request));
    let (head, body) = request.into_parts();
    let body = match read(body).await {
        Ok(body) => body,
        Err(status) => return response::failure(&status),
    };
    server.handle(Request { method: head.method, uri: head.uri, headers: head.headers, body, peer, upgrade }).await
}

/// Reads the body. One that is too large is read to its end, within reason, so that its sender hears the answer.
pub async fn read(mut body: Incoming) -> Result<Bytes, Status> {
    let (mut whole, mut size) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        // Most bodies are one frame, and need no copy.
        if size == data.len() && body.is_end_stream() && size <= LIMIT {
            return Ok(data);
        }
        if size <= LIMIT {
            whole.extend_from_slice(&data);
        } else if size > HEARD_OUT {
            break;
        }
    }
    if size > LIMIT {
        return Err(Status::too_large(format!("Request entity too large: limit is {LIMIT}")));
    }
    Ok(whole.freeze())
}
