//! Connections that are kept after an answer, for the next request to the same program.

use super::{Destination, Failure, Outbound, Place};
use crate::registry::Registry;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A connection that one request uses at a time.
pub(super) type Line = SendRequest<Full<Bytes>>;

const MAX_KEPT_EACH: usize = 16;
const MAX_KEPT: usize = 256;

/// A connection that was not used for so long is closed.
const KEPT_FOR: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Pool(Mutex<HashMap<(Place, u64), Vec<Kept>>>);

struct Kept {
    line: Line,
    since: Instant,
}

impl Pool {
    /// Sends a request over a connection that was kept, or over a new one. A kept connection that the other side has closed
    /// meanwhile is no failure.
    pub(super) async fn send(
        &self,
        outbound: &Outbound,
        registry: Option<&Registry>,
        to: &Destination,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Line), Failure> {
        while let Some(mut line) = self.take(to) {
            match line.try_send_request(request).await {
                Ok(response) => return Ok((response, line)),
                Err(mut error) => match error.take_message() {
                    // It never left.
                    Some(unsent) => request = unsent,
                    None => return Err(failure(&error.into_error())),
                },
            }
        }
        let connection = outbound.open(registry, to).await?;
        let (mut line, connection) = http1::handshake(TokioIo::new(connection)).await.map_err(|e| failure(&e))?;
        tokio::spawn(async move {
            // Whoever sends the request learns of its end.
            let _ = connection.await;
        });
        let response = line.send_request(request).await.map_err(|error| failure(&error))?;
        Ok((response, line))
    }

    fn take(&self, to: &Destination) -> Option<Line> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kept.get_mut(&(to.place.clone(), to.trust.id()))?;
        while let Some(Kept { line, since }) = lines.pop() {
            if since.elapsed() < KEPT_FOR && !line.is_closed() {
                return Some(line);
            }
        }
        None
    }

    /// For the next request. Its answer was read to the end.
    pub(super) fn keep(&self, to: &Destination, line: Line) {
        if line.is_closed() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values().map(Vec::len).sum::<usize>() >= MAX_KEPT {
            kept.retain(|_, lines| {
                lines.retain(|kept| kept.since.elapsed() < KEPT_FOR && !kept.line.is_closed());
                !lines.is_empty()
            });
        }
        let is_full = kept.values().map(Vec::len).sum::<usize>() >= MAX_KEPT;
        let lines = kept.entry((to.place.clone(), to.trust.id())).or_default();
        if !is_full && lines.len() < MAX_KEPT_EACH {
            lines.push(Kept { line, since: Instant::now() });
        }
    }
}

fn failure(error: &hyper::Error) -> Failure {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    match (error, source) {
        (_, Some(io::ErrorKind::ConnectionReset)) => Failure::Reset,
        // A connection that ends without the farewell of TLS.
        (_, Some(io::ErrorKind::UnexpectedEof)) => Failure::Closed,
        (error, _) if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => Failure::Closed,
        (error, _) if error.is_parse() => Failure::Http(format!("malformed HTTP response: {error}")),
        (error, _) => Failure::Http(error.to_string()),
    }
}
