//! Exec and attach over SPDY: the client opens a stream for each of the process's, and one for how it ended.
//!
//! The process starts when all streams that were asked for are there. Versions of the protocol differ in two things: from 3
//! on a terminal has a stream for its sizes, and from 4 on the last word is a Status and not a sentence.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::pin::pin;
use std::time::Duration;

use pintle_container::spdy::server::{self, Event, Incoming, Sender};
use pintle_container::{Size, Wanted};
use serde_json::Value;
use tokio::io::{AsyncRead, DuplexStream};

use super::{GOODBYE, Hear, Heard, Output, Start, Tell, run, size};

const V4: &str = "v4.channel.k8s.io";
const V3: &str = "v3.channel.k8s.io";

pub(super) const PROTOCOLS: [&str; 4] = [V4, V3, "v2.channel.k8s.io", "channel.k8s.io"];

/// How long a client may take to open its streams.
const OPENING: Duration = Duration::from_secs(30);

/// The most that is kept of what a client says before all of its streams are there.
const EARLY: usize = 64 * 1024;

/// The longest that a size may be written.
const SIZE: usize = 4 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Stdin,
    Stdout,
    Stderr,
    Resize,
    Error,
}

pub(super) async fn connect(
    connection: DuplexStream,
    protocol: &'static str,
    wanted: Wanted,
    what: &'static str,
    start: Start,
) {
    let (reader, writer) = tokio::io::split(connection);
    let (sender, outgoing) = server::outgoing();
    let mut writing = pin!(outgoing.write(writer));
    let mut streams = Streams::new(Incoming::from_client(reader, sender.clone()));
    let talking = async {
        let told = Told { streams: streams.opened(&expected(protocol, wanted)).await?, sender };
        let status = run(what, start, &mut streams, &told).await?;
        told.end(&last_word(protocol, &status)).await;
        Some(())
    };
    let ended = tokio::select! {
        biased;
        ended = talking => ended,
        () = &mut writing => None,
    };
    if ended.is_none() {
        // The client is gone, or is none of this protocol.
        return;
    }
    // It is told the rest as slowly as it reads, and then given a moment to go.
    let mut draining = pin!(streams.incoming.drain());
    tokio::select! {
        biased;
        () = &mut writing => {
            let _ = tokio::time::timeout(GOODBYE, draining).await;
        }
        () = &mut draining => writing.await,
    }
}

/// The streams that a client has to open.
fn expected(protocol: &str, wanted: Wanted) -> BTreeSet<Kind> {
    let resize = wanted.tty && matches!(protocol, V4 | V3);
    let kinds = [
        (Kind::Stdin, wanted.stdin),
        (Kind::Stdout, wanted.stdout),
        (Kind::Stderr, wanted.stderr),
        (Kind::Resize, resize),
        (Kind::Error, true),
    ];
    kinds.into_iter().filter(|(_, wanted)| *wanted).map(|(kind, _)| kind).collect()
}

fn last_word(protocol: &str, status: &Value) -> String {
    match protocol {
        V4 => status.to_string(),
        // No word is a good one.
        _ => status["message"].as_str().unwrap_or_default().to_owned(),
    }
}

/// What is told to a client, and where.
struct Told {
    streams: BTreeMap<Kind, u32>,
    sender: Sender,
}

impl Tell for Told {
    async fn tell(&self, output: Output, content: &[u8]) -> bool {
        let kind = match output {
            Output::Stdout => Kind::Stdout,
            Output::Stderr => Kind::Stderr,
        };
        match self.streams.get(&kind) {
            Some(stream) => self.sender.send(*stream, false, content).await,
            None => true,
        }
    }
}

impl Told {
    /// Ends all streams, the one with the last word as the last.
    async fn end(self, last_word: &str) {
        for (kind, stream) in &self.streams {
            let content = if *kind == Kind::Error { last_word.as_bytes() } else { &[] };
            self.sender.send(*stream, true, content).await;
        }
    }
}

/// What a client says on its streams.
struct Streams<R> {
    incoming: Incoming<R>,
    /// Those that it speaks on.
    kinds: BTreeMap<u32, Kind>,
    /// What it said before all were there; nothing where a stream ended.
    early: VecDeque<(Kind, Option<Vec<u8>>)>,
    /// The one of those that was heard last.
    said: Vec<u8>,
    sizes: Sizes,
}

impl<R: AsyncRead + Unpin> Streams<R> {
    fn new(incoming: Incoming<R>) -> Self {
        let sizes = Sizes { text: Vec::new(), readable: true };
        Streams { incoming, kinds: BTreeMap::new(), early: VecDeque::new(), said: Vec::new(), sizes }
    }

    /// Waits until the client has opened its streams, in whatever order. Nothing if it does not.
    async fn opened(&mut self, expected: &BTreeSet<Kind>) -> Option<BTreeMap<Kind, u32>> {
        match tokio::time::timeout(OPENING, self.open(expected)).await {
            Ok(Ok(streams)) => return streams,
            Ok(Err(error)) => tracing::debug!(%error, "a client broke the rules of SPDY"),
            Err(_) => tracing::debug!(opened = ?self.kinds, "a client has not opened all streams that it asked for"),
        }
        None
    }

    async fn open(&mut self, expected: &BTreeSet<Kind>) -> io::Result<Option<BTreeMap<Kind, u32>>> {
        let (mut streams, mut kept) = (BTreeMap::new(), 0);
        while streams.len() < expected.len() {
            let Some(event) = self.incoming.next().await? else { return Ok(None) };
            let (stream, content) = match event {
                Event::Opened { stream, headers } => {
                    let kind = kind(&headers).filter(|kind| expected.contains(kind) && !streams.contains_key(kind));
                    // Others are granted too, but nobody speaks or listens there.
                    if let Some(kind) = kind {
                        streams.insert(kind, stream);
                        self.kinds.insert(stream, kind);
                    }
                    continue;
                }
                Event::Data { stream, content } => (stream, Some(content.to_vec())),
                Event::Ended { stream } => (stream, None),
            };
            let Some(kind) = self.kinds.get(&stream) else { continue };
            kept += content.as_ref().map_or(1, Vec::len);
            if kept > EARLY {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "much is said before all streams are there"));
            }
            self.early.push_back((*kind, content));
        }
        Ok(Some(streams))
    }

    /// On which stream the client says something next, or ends it. What it says is in `said`.
    async fn advance(&mut self) -> io::Result<Option<(Kind, bool)>> {
        if let Some((kind, content)) = self.early.pop_front() {
            let ended = content.is_none();
            self.said = content.unwrap_or_default();
            return Ok(Some((kind, ended)));
        }
        while let Some(event) = self.incoming.next().await? {
            let (stream, content) = match event {
                Event::Data { stream, content } => (stream, Some(content)),
                Event::Ended { stream } => (stream, None),
                Event::Opened { .. } => continue,
            };
            if let Some(kind) = self.kinds.get(&stream) {
                self.said.clear();
                self.said.extend_from_slice(content.unwrap_or_default());
                return Ok(Some((*kind, content.is_none())));
            }
        }
        Ok(None)
    }
}

fn kind(headers: &BTreeMap<String, String>) -> Option<Kind> {
    Some(match headers.get("streamtype")?.as_str() {
        "stdin" => Kind::Stdin,
        "stdout" => Kind::Stdout,
        "stderr" => Kind::Stderr,
        "resize" => Kind::Resize,
        "error" => Kind::Error,
        _ => return None,
    })
}

impl<R: AsyncRead + Unpin + Send> Hear for Streams<R> {
    async fn next(&mut self) -> Option<Heard<'_>> {
        loop {
            let heard = self.advance().await;
            if let Err(error) = &heard {
                tracing::debug!(%error, "a client broke the rules of SPDY");
            }
            match heard.ok()?? {
                (Kind::Stdin, true) => return Some(Heard::InputEnded),
                (Kind::Stdin, false) => return Some(Heard::Input(&self.said)),
                (Kind::Resize, false) => {
                    if let Some(size) = self.sizes.add(&self.said) {
                        return Some(Heard::Resized(size));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Sizes as they are written one after another, each a JSON object, in pieces of any length.
struct Sizes {
    text: Vec<u8>,
    /// Until something comes that is no JSON.
    readable: bool,
}

impl Sizes {
    /// The last size that is whole by now; those before it do not count any more.
    fn add(&mut self, piece: &[u8]) -> Option<Size> {
        if !self.readable {
            return None;
        }
        self.text.extend_from_slice(piece);
        let (mut last, mut whole) = (None, 0);
        let mut values = serde_json::Deserializer::from_slice(&self.text).into_iter::<Value>();
        while let Some(value) = values.next() {
            match value {
                Ok(value) => {
                    last = size(&value).or(last);
                    whole = values.byte_offset();
                }
                Err(error) => {
                    self.readable = error.is_eof();
                    break;
                }
            }
        }
        self.text.drain(..whole);
        self.readable &= self.text.len() <= SIZE;
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_pieces_of_any_length() {
        let mut sizes = Sizes { text: Vec::new(), readable: true };
        let read = |sizes: &mut Sizes, piece: &str| sizes.add(piece.as_bytes()).map(|size| (size.width, size.height));
        assert_eq!(read(&mut sizes, "{\"Width\":80,\"Height\":24}\n{\"Wid"), Some((80, 24)));
        assert_eq!(read(&mut sizes, "th\":1,\"Height\":2"), None);
        assert_eq!(read(&mut sizes, "}{\"Width\":3,\"Height\":4}"), Some((3, 4)), "the last one counts");
        assert_eq!(read(&mut sizes, "{\"Width\":70000,\"Height\":4} {}"), None);
        assert_eq!(read(&mut sizes, "{\"Width\":5,\"Height\":6} x"), Some((5, 6)));
        assert_eq!(read(&mut sizes, "{\"Width\":7,\"Height\":8}"), None, "after what is no JSON nothing is read");
        let mut sizes = Sizes { text: Vec::new(), readable: true };
        assert_eq!(read(&mut sizes, &" ".repeat(SIZE)), None);
        assert_eq!(read(&mut sizes, &format!("\"{}", "x".repeat(SIZE))), None);
        assert!(!sizes.readable, "what has no end is not kept");
    }
}
