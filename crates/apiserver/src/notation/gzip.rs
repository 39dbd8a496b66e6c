//! Long answers, compressed for clients that accept it. Watches never are: they would wait for a block to fill.

use crate::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt};
use http::{HeaderMap, header};
use std::io::Write;

/// Answers up to this size are sent as they are.
pub const THRESHOLD_BYTES: usize = 128 * 1024;

/// The least CPU time; higher levels are hardly smaller.
const LEVEL: u32 = 1;

/// Whether the client takes gzip.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|token| token.trim() == "gzip")
}

/// The body, compressed piece by piece as the client takes it.
pub fn compress(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    let encoder = GzEncoder::new(Vec::with_capacity(THRESHOLD_BYTES / 4), Compression::new(LEVEL));
    let state = Some((Box::pin(pieces), encoder));
    let compressed = futures::stream::unfold(state, |state| async {
        let (mut pieces, mut encoder) = state?;
        while let Some(piece) = pieces.next().await {
            // Writing into memory does not fail.
            let _ = encoder.write_all(&piece);
            let ready = std::mem::take(encoder.get_mut());
            if !ready.is_empty() {
                return Some((Bytes::from(ready), Some((pieces, encoder))));
            }
        }
        Some((encoder.finish().unwrap_or_default().into(), None))
    });
    Body::Stream(Box::pin(compressed))
}

/// Bytes in pieces, so that one answer does not hold up others while it is compressed.
pub fn in_pieces(bytes: Bytes) -> impl Stream<Item = Bytes> + Send + 'static {
    let starts = (0..bytes.len()).step_by(THRESHOLD_BYTES);
    futures::stream::iter(starts.map(move |start| bytes.slice(start..bytes.len().min(start + THRESHOLD_BYTES))))
}
