//! Frames on their way out of a connection.

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::frame;

/// Frames that wait for the socket: content, and what the connection itself needs.
const QUEUED: usize = 4;
const QUEUED_CONTROL: usize = 64;

/// Where frames are put to be sent. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    content: mpsc::Sender<Vec<u8>>,
    control: mpsc::Sender<Vec<u8>>,
}

/// The frames themselves.
pub struct Outgoing {
    queued: mpsc::Receiver<Vec<u8>>,
    urgent: mpsc::Receiver<Vec<u8>>,
}

pub fn outgoing() -> (Sender, Outgoing) {
    let (content, queued) = mpsc::channel(QUEUED);
    let (control, urgent) = mpsc::channel(QUEUED_CONTROL);
    (Sender { content, control }, Outgoing { queued, urgent })
}

impl Sender {
    /// Says something on a stream; with `fin` it was the last. False if the connection is gone.
    pub async fn send(&self, stream: u32, fin: bool, content: &[u8]) -> bool {
        self.content.send(frame::data(stream, fin, content)).await.is_ok()
    }

    /// Grants a stream, before anything is said on it. False if the connection is gone.
    pub(super) async fn grant(&self, stream: u32, headers: &[u8]) -> bool {
        self.content.send(frame::syn_reply(stream, headers)).await.is_ok()
    }

    /// Answers a ping. A peer that does not read its answers does not get all of them.
    pub(super) fn pong(&self, id: u32) {
        let _ = self.control.try_send(frame::ping(id));
    }
}

impl Outgoing {
    /// Writes frames, urgent ones first, until nobody is left to send any; then this direction has ended.
    pub async fn write(mut self, mut writer: impl AsyncWrite + Unpin) {
        loop {
            let frame = tokio::select! {
                biased;
                Some(frame) = self.urgent.recv() => frame,
                Some(frame) = self.queued.recv() => frame,
                else => break,
            };
            if writer.write_all(&frame).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    }
}
