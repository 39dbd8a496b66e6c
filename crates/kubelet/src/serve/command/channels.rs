//! Exec and attach over WebSocket: a channel for each stream of a process.
//!
//! The first byte of every message is its channel. In version 5 of the protocol a client ends its input with a message on
//! channel 255 that names channel 0; in version 4 only the end of the connection does.

use pintle_container::Wanted;
use tokio::io::{AsyncRead, DuplexStream};

use super::{GOODBYE, Hear, Heard, Output, Start, Tell, run, size};
use crate::serve::websocket::{self, Incoming, Sender};

pub(in crate::serve) const V4: &str = "v4.channel.k8s.io";

pub(super) const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", V4];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

pub(super) async fn connect(connection: DuplexStream, wanted: Wanted, what: &'static str, start: Start) {
    let (reader, writer) = tokio::io::split(connection);
    let (sender, outgoing) = websocket::outgoing();
    let talking = async move {
        let mut channels = Channels { incoming: Incoming::new(reader, sender.clone()), message: Vec::new() };
        // Tells the client that the connection stands before the process says anything.
        if let Some((channel, _)) = [(STDOUT, wanted.stdout), (STDERR, wanted.stderr)].into_iter().find(|(_, is)| *is) {
            sender.send(channel, &[]).await;
        }
        let Some(status) = run(what, start, &mut channels, &sender).await else { return };
        sender.send(ERROR, status.to_string().as_bytes()).await;
        sender.close().await;
        drop(sender);
        let _ = tokio::time::timeout(GOODBYE, async { while channels.incoming.next().await.is_some() {} }).await;
    };
    tokio::join!(talking, outgoing.write(writer));
}

struct Channels<R> {
    incoming: Incoming<R>,
    /// The one that was heard last.
    message: Vec<u8>,
}

impl<R: AsyncRead + Unpin + Send> Hear for Channels<R> {
    async fn next(&mut self) -> Option<Heard<'_>> {
        loop {
            self.message = self.incoming.next().await?;
            match self.message.first() {
                Some(&STDIN) => return Some(Heard::Input(self.message.get(1..).unwrap_or_default())),
                Some(&RESIZE) => {
                    let value = serde_json::from_slice(self.message.get(1..).unwrap_or_default());
                    if let Some(size) = value.ok().as_ref().and_then(size) {
                        return Some(Heard::Resized(size));
                    }
                }
                Some(&CLOSE) if self.message.get(1) == Some(&STDIN) => return Some(Heard::InputEnded),
                _ => {}
            }
        }
    }
}

impl Tell for Sender {
    async fn tell(&self, output: Output, content: &[u8]) -> bool {
        let channel = match output {
            Output::Stdout => STDOUT,
            Output::Stderr => STDERR,
        };
        self.send(channel, content).await
    }
}
