//! Frames as they come in, on either side of a connection: streams that are granted at once, their content, their ends.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};

use super::frame::{self, CHUNK, Head};
use super::headers::{self, HeaderWriter};
use super::inflate::Inflater;
use super::outgoing::Sender;

/// The largest frame that opens a stream.
const OPENING: usize = 16 * 1024;

/// What a peer does.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It has opened a stream, which is granted by now.
    Opened { stream: u32, headers: BTreeMap<String, String> },
    /// It says something on a stream: a piece of a frame, never more than 32 KiB.
    Data { stream: u32, content: &'a [u8] },
    /// It says no more on a stream.
    Ended { stream: u32 },
}

/// Reads what comes in. Pings are answered on the way.
pub struct Incoming<R> {
    reader: BufReader<R>,
    answers: Sender,
    /// A client grants nothing: servers open no streams.
    granting: Option<Granting>,
    buffer: Vec<u8>,
    /// What is left of the frame before.
    left: Option<Left>,
}

struct Granting {
    inflater: Inflater,
    headers: HeaderWriter,
}

#[derive(Clone, Copy)]
struct Left {
    stream: u32,
    length: usize,
    fin: bool,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// What comes in from a client. Its streams are granted, and its pings answered, through `answers`.
    pub fn from_client(reader: R, answers: Sender) -> Self {
        let granting = Granting { inflater: Inflater::new(), headers: HeaderWriter::default() };
        Incoming { granting: Some(granting), ..Self::from_server(reader, answers) }
    }

    pub(super) fn from_server(reader: R, answers: Sender) -> Self {
        let reader = BufReader::with_capacity(CHUNK, reader);
        Incoming { reader, answers, granting: None, buffer: vec![0; CHUNK], left: None }
    }

    /// The next event; nothing when the peer has gone. An error says that what it sends is not SPDY, or that the connection
    /// broke; nothing comes after it. A call that was dropped halfway loses its place, so there can be no next one.
    pub async fn next(&mut self) -> io::Result<Option<Event<'_>>> {
        loop {
            if let Some(Left { stream, length, fin }) = self.left.take() {
                if length > 0 {
                    let room = self.buffer.get_mut(..length.min(CHUNK)).unwrap_or_default();
                    let read = self.reader.read(room).await?;
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.left = Some(Left { stream, length: length - read, fin });
                    let content = self.buffer.get(..read).unwrap_or_default();
                    return Ok(Some(Event::Data { stream, content }));
                }
                if fin {
                    return Ok(Some(Event::Ended { stream }));
                }
            }
            let Some(head) = frame::read_head(&mut self.reader).await? else { return Ok(None) };
            match head {
                Head::Data { stream, fin, length } => self.left = Some(Left { stream, length, fin }),
                Head::Open { fin, length } if self.granting.is_some() => {
                    let (stream, headers) = self.open(length).await?;
                    self.left = Some(Left { stream, length: 0, fin });
                    return Ok(Some(Event::Opened { stream, headers }));
                }
                Head::Reset { length } => {
                    let stream = frame::read_number(&mut self.reader, length).await?;
                    return Ok(Some(Event::Ended { stream }));
                }
                Head::Ping { length } => {
                    let id = frame::read_number(&mut self.reader, length).await?;
                    // Clients have the odd numbers, servers the even ones. Of our own we use none.
                    if (id % 2 == 1) == self.granting.is_some() {
                        self.answers.pong(id);
                    }
                }
                Head::GoAway => return Ok(None),
                Head::Open { length, .. } | Head::Reply { length } | Head::Other { length } => {
                    frame::skip(&mut self.reader, length).await?;
                }
            }
        }
    }

    /// Reads on to the end of the connection without a look, and answers nothing more.
    pub async fn drain(self) {
        let Incoming { mut reader, answers, .. } = self;
        drop(answers);
        let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
    }

    async fn open(&mut self, length: usize) -> io::Result<(u32, BTreeMap<String, String>)> {
        let Some(granting) = self.granting.as_mut().filter(|_| length <= OPENING) else {
            return Err(wrong("a client asks for too much"));
        };
        let mut frame = vec![0; length];
        self.reader.read_exact(&mut frame).await?;
        let (stream, rest) = frame.split_first_chunk().ok_or_else(|| wrong("a frame is too short"))?;
        let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
        // Between the two are the stream it belongs to, its priority and its slot.
        let block = rest.get(6..).ok_or_else(|| wrong("a frame is too short"))?;
        let plain = granting.inflater.block(block);
        let plain = plain.map_err(|_| wrong("a header block is not compressed as SPDY wants it"))?;
        let headers = headers::parse(&plain).ok_or_else(|| wrong("a header block is not whole"))?;
        if !self.answers.grant(stream, &granting.headers.block(&[])).await {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok((stream, headers))
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
