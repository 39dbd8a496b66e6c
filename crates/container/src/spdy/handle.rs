//! What a caller holds of a connection: when the last part is dropped, the connection is closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

/// How long the reason of a connection's end may come after it.
const REASON: Duration = Duration::from_millis(500);

/// The task that moves a connection's bytes. Dropping it ends it.
pub(super) struct Running(JoinHandle<()>);

impl Running {
    pub(super) fn start(work: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Running(tokio::spawn(work)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One stream.
pub(super) struct Held {
    pub(super) stream: DuplexStream,
    pub(super) _running: Arc<Running>,
}

impl AsyncRead for Held {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Held {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection to a port, both ways.
pub(super) struct Both {
    reader: DuplexStream,
    writer: DuplexStream,
    /// Why the port could not be reached, if it could not.
    failure: oneshot::Receiver<Vec<u8>>,
    /// Runs from the end of what is read.
    patience: Option<Pin<Box<Sleep>>>,
    _running: Arc<Running>,
}

impl Both {
    pub(super) fn new(
        reader: DuplexStream,
        writer: DuplexStream,
        failure: oneshot::Receiver<Vec<u8>>,
        running: Arc<Running>,
    ) -> Self {
        Both { reader, writer, failure, patience: None, _running: running }
    }

    /// Waits a moment for the reason why it has ended: a server may tell it after the end, and tells none of a good one
    /// before both directions have ended.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(REASON)));
        if !self.failure.is_terminated()
            && let Poll::Ready(text) = Pin::new(&mut self.failure).poll(cx)
        {
            return Poll::Ready(match text {
                Ok(text) if !text.is_empty() => Err(io::Error::other(String::from_utf8_lossy(&text).into_owned())),
                _ => Ok(()),
            });
        }
        if self.failure.is_terminated() { Poll::Ready(Ok(())) } else { patience.as_mut().poll(cx).map(Ok) }
    }
}

impl AsyncRead for Both {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buffer))?;
        let ended = buffer.filled().len() == before && buffer.remaining() > 0;
        if ended { self.poll_end(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl AsyncWrite for Both {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
