//! The server's side of WebSocket (RFC 6455): the handshake, and frames in both directions.
//!
//! Written here, since what a node needs of it is less than a crate for it brings along.

use std::io;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use http::{HeaderMap, Response, StatusCode, header};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::upgrade;

/// Frames that wait to be written.
const QUEUED: usize = 4;

/// The longest message that is taken.
const LONGEST: usize = 4 * 1024 * 1024;

/// What the protocol adds to a client's key before it is hashed.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Whether a client asks for it.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    upgrade::is_asked(headers, "websocket")
}

/// The first of our protocols that the client speaks too. A client that names none speaks the one without a name.
pub(super) fn protocol<'a>(headers: &HeaderMap, ours: &[&'a str]) -> Option<&'a str> {
    let theirs: Vec<&str> = upgrade::listed(headers, header::SEC_WEBSOCKET_PROTOCOL).collect();
    ours.iter().find(|ours| theirs.contains(*ours) || (theirs.is_empty() && ours.is_empty())).copied()
}

/// The answer that opens the connection; nothing if the request is no proper one.
pub(super) fn opened(headers: &HeaderMap, protocol: &str) -> Option<Response<()>> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.to_str().ok()?.trim();
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    let accept = base64::engine::general_purpose::STANDARD.encode(hash);
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept);
    let response = match protocol {
        "" => response,
        protocol => response.header(header::SEC_WEBSOCKET_PROTOCOL, protocol),
    };
    response.body(()).ok()
}

/// Where messages are put to be sent. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sender(mpsc::Sender<Vec<u8>>);

/// The frames on their way out.
pub(super) struct Outgoing(mpsc::Receiver<Vec<u8>>);

pub(super) fn outgoing() -> (Sender, Outgoing) {
    let (sender, receiver) = mpsc::channel(QUEUED);
    (Sender(sender), Outgoing(receiver))
}

impl Sender {
    /// Sends a message on a channel; false if the connection is gone.
    pub(super) async fn send(&self, channel: u8, content: &[u8]) -> bool {
        self.0.send(frame(BINARY, &[&[channel], content])).await.is_ok()
    }

    /// Sends a message on a channel, for clients that can take text alone: the channel is a digit, the content is in base64.
    pub(super) async fn send_text(&self, channel: u8, content: &[u8]) -> bool {
        let text = base64::engine::general_purpose::STANDARD.encode(content);
        self.0.send(frame(TEXT, &[channel.to_string().as_bytes(), text.as_bytes()])).await.is_ok()
    }

    /// Sends a message of a protocol without channels, in base64.
    pub(super) async fn send_whole_text(&self, content: &[u8]) -> bool {
        let text = base64::engine::general_purpose::STANDARD.encode(content);
        self.0.send(frame(TEXT, &[text.as_bytes()])).await.is_ok()
    }

    /// Sends a message of a protocol without channels.
    pub(super) async fn send_whole(&self, content: &[u8]) -> bool {
        self.0.send(frame(BINARY, &[content])).await.is_ok()
    }

    /// Says that no more will be sent.
    pub(super) async fn close(&self) {
        const NORMAL: u16 = 1000;
        let _ = self.0.send(frame(CLOSE, &[&NORMAL.to_be_bytes()])).await;
    }
}

impl Outgoing {
    /// Writes frames until no sender is left.
    pub(super) async fn write(mut self, mut writer: impl AsyncWrite + Unpin) {
        while let Some(frame) = self.0.recv().await {
            if writer.write_all(&frame).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    }
}

fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(10 + length);
    frame.push(0x80 | kind);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length), _) if length < 126 => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// What comes in.
pub(super) struct Incoming<R> {
    reader: R,
    answers: Sender,
    /// The pieces of a message so far.
    message: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// Pings are answered through `answers`.
    pub(super) fn new(reader: R, answers: Sender) -> Self {
        Incoming { reader, answers, message: Vec::new() }
    }

    /// The next whole message; nothing when the client has closed, or what it sends is not WebSocket.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.piece().await {
                Ok(Piece::Message(last)) if last => return Some(std::mem::take(&mut self.message)),
                Ok(Piece::Message(_)) => {}
                Ok(Piece::Ping(content)) => {
                    // A client that does not read its answers does not get all of them.
                    let _ = self.answers.0.try_send(frame(PONG, &[&content]));
                }
                Ok(Piece::Pong) => {}
                Ok(Piece::Close) => return None,
                Err(error) => {
                    if error.kind() == io::ErrorKind::InvalidData {
                        tracing::debug!(%error, "a client broke the rules of WebSocket");
                    }
                    return None;
                }
            }
        }
    }

    async fn piece(&mut self) -> io::Result<Piece> {
        let mut head = [0; 2];
        self.reader.read_exact(&mut head).await?;
        let [first, second] = head;
        let (last, kind) = (first & 0x80 != 0, first & 0x0f);
        if first & 0x70 != 0 {
            return Err(wrong("an extension is used that was not agreed on"));
        }
        if second & 0x80 == 0 {
            return Err(wrong("a client's frame is not masked"));
        }
        let length = match second & 0x7f {
            126 => u64::from(self.reader.read_u16().await?),
            127 => self.reader.read_u64().await?,
            length => u64::from(length),
        };
        let control = kind >= CLOSE;
        let bound = if control { 125 } else { LONGEST.saturating_sub(self.message.len()) };
        let length = usize::try_from(length).ok().filter(|length| *length <= bound);
        let length = length.ok_or_else(|| wrong("a message is too long"))?;
        let mut mask = [0; 4];
        self.reader.read_exact(&mut mask).await?;
        let mut content = vec![0; length];
        self.reader.read_exact(&mut content).await?;
        for (byte, mask) in content.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        match kind {
            CONTINUATION | TEXT | BINARY => {
                self.message.append(&mut content);
                Ok(Piece::Message(last))
            }
            CLOSE => Ok(Piece::Close),
            PING => Ok(Piece::Ping(content)),
            PONG => Ok(Piece::Pong),
            _ => Err(wrong("a frame is of no known kind")),
        }
    }
}

enum Piece {
    /// Was added to the message; true if it was its last.
    Message(bool),
    Ping(Vec<u8>),
    Pong,
    Close,
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn masked(first: u8, content: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let length = u8::try_from(content.len()).unwrap();
        let content = content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [first, 0x80 | length].into_iter().chain(mask).chain(content).collect()
    }

    #[test]
    fn the_handshake_is_the_one_of_the_standard() {
        let asked = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"),
        ]);
        assert!(is_asked(&asked));
        assert_eq!(protocol(&asked, &["v4.channel.k8s.io"]), Some("v4.channel.k8s.io"));
        assert_eq!(protocol(&asked, &["v3.channel.k8s.io", ""]), None);
        assert_eq!(protocol(&headers(&[]), &["v3.channel.k8s.io", ""]), Some(""));
        let opened = opened(&asked, "x").unwrap();
        assert_eq!(opened.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!is_asked(&headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")])));
    }

    #[tokio::test]
    async fn a_message_in_pieces_with_a_ping_between_is_one_message() {
        let bytes = [masked(0x02, b"ab"), masked(0x89, b"?"), masked(0x80, b"cd"), masked(0x88, b"")].concat();
        let (sender, mut out) = outgoing();
        let mut incoming = Incoming::new(&bytes[..], sender);
        assert_eq!(incoming.next().await.unwrap(), b"abcd");
        assert_eq!(out.0.recv().await.unwrap(), [0x8a, 1, b'?']);
        assert_eq!(incoming.next().await, None);
    }

    #[tokio::test]
    async fn what_is_not_websocket_ends_the_connection() {
        for wrong in
            [&[0x82, 1, b'x'][..], &[0xf2, 0x80, 0, 0, 0, 0], &[0x82, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0], b"\x82"]
        {
            let (sender, _out) = outgoing();
            assert_eq!(Incoming::new(wrong, sender).next().await, None);
        }
    }

    #[test]
    fn a_frame_says_its_length_in_the_shortest_way() {
        assert_eq!(frame(BINARY, &[&[1], b"x"]), [0x82, 2, 1, b'x']);
        assert_eq!(frame(BINARY, &[&[0; 200]])[..4], [0x82, 126, 0, 200]);
        assert_eq!(frame(BINARY, &[&[0; 70_000]])[..10], [0x82, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
    }
}
