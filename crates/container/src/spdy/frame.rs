//! Frames of SPDY/3.1: how those we send look, and the eight bytes with which each one begins.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

const VERSION: u16 = 3;

pub(super) const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;

/// The largest content of a data frame that we send.
pub(super) const CHUNK: usize = 32 * 1024;

/// What a frame is, and how many bytes of it follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Data {
        stream: u32,
        fin: bool,
        length: usize,
    },
    /// Asks for a stream. With `fin` nothing will be said on it.
    Open {
        fin: bool,
        length: usize,
    },
    Reply {
        length: usize,
    },
    Reset {
        length: usize,
    },
    Ping {
        length: usize,
    },
    GoAway,
    /// One that asks nothing of us.
    Other {
        length: usize,
    },
}

/// The next frame's head; nothing at the end of the connection.
pub(super) async fn read_head(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Head>> {
    let mut head = [0; 8];
    match reader.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let [a, b, c, d, flags, length @ ..] = head;
    let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
    let fin = flags & FIN != 0;
    if a & 0x80 == 0 {
        return Ok(Some(Head::Data { stream: u32::from_be_bytes([a, b, c, d]), fin, length }));
    }
    let version = u16::from_be_bytes([a & 0x7f, b]);
    if version != VERSION {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame has version {version} of SPDY, not 3"),
        ));
    }
    Ok(Some(match u16::from_be_bytes([c, d]) {
        SYN_STREAM => Head::Open { fin, length },
        SYN_REPLY => Head::Reply { length },
        RST_STREAM => Head::Reset { length },
        PING => Head::Ping { length },
        GOAWAY => Head::GoAway,
        _ => Head::Other { length },
    }))
}

/// Reads the number with which a control frame's content begins, and drops the rest.
pub(super) async fn read_number(reader: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<u32> {
    let Some(rest) = length.checked_sub(4) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a control frame of SPDY is too short"));
    };
    let number = reader.read_u32().await?;
    skip(reader, rest).await?;
    Ok(number)
}

pub(super) async fn skip(reader: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<()> {
    let skipped = tokio::io::copy(&mut reader.take(length as u64), &mut tokio::io::sink()).await?;
    if skipped < length as u64 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

pub(super) fn syn_stream(stream: u32, fin: bool, headers: &[u8]) -> Vec<u8> {
    let mut frame = control(SYN_STREAM, if fin { FIN } else { 0 }, 10 + headers.len());
    frame.extend(stream.to_be_bytes());
    // Belongs to no other stream; the highest priority; no slot.
    frame.extend([0; 6]);
    frame.extend_from_slice(headers);
    frame
}

/// Grants a stream.
pub(super) fn syn_reply(stream: u32, headers: &[u8]) -> Vec<u8> {
    let mut frame = control(SYN_REPLY, 0, 4 + headers.len());
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(headers);
    frame
}

pub(super) fn data(stream: u32, fin: bool, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(8 + content.len());
    frame.extend(stream.to_be_bytes());
    frame.extend(flags_and_length(if fin { FIN } else { 0 }, content.len()));
    frame.extend_from_slice(content);
    frame
}

pub(super) fn ping(id: u32) -> Vec<u8> {
    let mut frame = control(PING, 0, 4);
    frame.extend(id.to_be_bytes());
    frame
}

fn control(kind: u16, flags: u8, length: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(8 + length);
    frame.extend((VERSION | 0x8000).to_be_bytes());
    frame.extend(kind.to_be_bytes());
    frame.extend(flags_and_length(flags, length));
    frame
}

fn flags_and_length(flags: u8, length: usize) -> [u8; 4] {
    let [_, a, b, c] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [flags, a, b, c]
}
