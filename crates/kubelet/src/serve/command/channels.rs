//! Exec and attach over WebSocket: a channel for each stream of a process.
//!
//! The first byte of every message is its channel, or its first digit where the content is in base64. How the versions of the
//! protocol differ:
//!
//! - without a number: the error channel says in words why the command failed, and nothing if it succeeded
//! - 4: the error channel has a Status, also of success
//! - 5: a client ends its input with a message on channel 255 that names channel 0; before, only the end of the connection does

use base64::Engine;
use pintle_container::Wanted;
use serde_json::Value;
use tokio::io::{AsyncRead, DuplexStream};

use super::{GOODBYE, Hear, Heard, Output, Start, Tell, run, size};
use crate::serve::websocket::{self, Incoming, Sender};

pub(in crate::serve) const V4: &str = "v4.channel.k8s.io";

const V4_BASE64: &str = "v4.base64.channel.k8s.io";
const BASE64: &str = "base64.channel.k8s.io";

/// The last one is that of clients that name none.
pub(super) const PROTOCOLS: [&str; 6] = ["v5.channel.k8s.io", V4, V4_BASE64, "channel.k8s.io", BASE64, ""];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

pub(super) async fn connect(
    connection: DuplexStream,
    protocol: &'static str,
    wanted: Wanted,
    what: &'static str,
    start: Start,
) {
    let (reader, writer) = tokio::io::split(connection);
    let (sender, outgoing) = websocket::outgoing();
    let text = matches!(protocol, V4_BASE64 | BASE64);
    let talking = async move {
        let incoming = Incoming::new(reader, sender.clone());
        let mut channels = Channels { incoming, text, message: Vec::new() };
        let speaker = Speaker { sender, text };
        // Tells the client that the connection stands before the process says anything.
        if let Some((channel, _)) = [(STDOUT, wanted.stdout), (STDERR, wanted.stderr)].into_iter().find(|(_, is)| *is) {
            speaker.send(channel, &[]).await;
        }
        let Some(status) = run(what, start, &mut channels, &speaker).await else { return };
        let last_word = match protocol.starts_with('v') {
            true => Some(status.to_string()),
            false => failure(&status),
        };
        if let Some(last_word) = last_word {
            speaker.send(ERROR, last_word.as_bytes()).await;
        }
        speaker.sender.close().await;
        drop(speaker);
        let _ = tokio::time::timeout(GOODBYE, async { while channels.incoming.next().await.is_some() {} }).await;
    };
    tokio::join!(talking, outgoing.write(writer));
}

/// What a client of the first version is told: why it failed, in words.
fn failure(status: &Value) -> Option<String> {
    let failed = status["status"] != "Success";
    failed.then(|| status["message"].as_str().unwrap_or_default().to_owned())
}

struct Channels<R> {
    incoming: Incoming<R>,
    /// Messages are digits and base64.
    text: bool,
    /// The one that was heard last.
    message: Vec<u8>,
}

impl<R: AsyncRead + Unpin + Send> Hear for Channels<R> {
    async fn next(&mut self) -> Option<Heard<'_>> {
        loop {
            self.message = self.incoming.next().await?;
            if self.text {
                // What is not base64 is no message.
                let Some(message) = decoded(&self.message) else { continue };
                self.message = message;
            }
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

fn decoded(message: &[u8]) -> Option<Vec<u8>> {
    let (digit, rest) = message.split_first()?;
    let channel = digit.checked_sub(b'0').filter(|channel| *channel <= 9)?;
    let content = base64::engine::general_purpose::STANDARD.decode(rest).ok()?;
    Some(std::iter::once(channel).chain(content).collect())
}

struct Speaker {
    sender: Sender,
    text: bool,
}

impl Speaker {
    async fn send(&self, channel: u8, content: &[u8]) -> bool {
        match self.text {
            true => self.sender.send_text(channel, content).await,
            false => self.sender.send(channel, content).await,
        }
    }
}

impl Tell for Speaker {
    async fn tell(&self, output: Output, content: &[u8]) -> bool {
        let channel = match output {
            Output::Stdout => STDOUT,
            Output::Stderr => STDERR,
        };
        self.send(channel, content).await
    }
}
