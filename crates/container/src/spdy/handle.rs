//! What a caller holds of a connection: when the last part is dropped, the connection is closed.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::task::JoinHandle;

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
    pub(super) reader: DuplexStream,
    pub(super) writer: DuplexStream,
    /// Why the port could not be reached, known before the reader's end is.
    pub(super) failure: Arc<OnceLock<String>>,
    pub(super) _running: Arc<Running>,
}

impl AsyncRead for Both {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buffer))?;
        let ended = buffer.filled().len() == before && buffer.remaining() > 0;
        match self.failure.get() {
            Some(why) if ended => Poll::Ready(Err(io::Error::other(why.clone()))),
            _ => Poll::Ready(Ok(())),
        }
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
