//! One SPDY connection: opens its streams, then moves bytes between them and pipes until it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::frame::{self, CHUNK, Head};
use super::headers::HeaderWriter;
use super::incoming::{Event, Incoming};
use super::outgoing::{Sender, outgoing};
use super::upgrade;
use crate::error::Error;
use crate::streams::Size;

/// The most that is kept of an error stream.
const REPORT: usize = 64 * 1024;

/// Where the bytes of a stream go.
pub(super) enum Sink {
    /// To someone who reads them; when they are gone, nowhere.
    Pipe(DuplexStream),
    /// To someone who wants them all at once, when the stream has ended.
    Report(Vec<u8>, Box<dyn FnOnce(Vec<u8>) + Send>),
}

/// What feeds a stream.
pub(super) enum Source {
    /// Its end is the stream's end.
    Pipe(DuplexStream),
    Sizes(mpsc::Receiver<Size>),
}

pub(super) struct Session {
    socket: BufReader<TcpStream>,
    headers: HeaderWriter,
    opened: u32,
    early: Vec<Early>,
}

/// What came on a stream before all streams were granted.
struct Early {
    stream: u32,
    bytes: Vec<u8>,
    ended: bool,
}

impl Session {
    pub(super) async fn connect(url: &str, protocol: &str) -> Result<Self, Error> {
        Ok(Session {
            socket: upgrade::upgrade(url, protocol).await?,
            headers: HeaderWriter::default(),
            opened: 0,
            early: Vec::new(),
        })
    }

    /// Asks for a stream. With `fin` nothing will be sent on it.
    pub(super) async fn open(&mut self, headers: &[(&str, &str)], fin: bool) -> Result<u32, Error> {
        // Whoever connects has the odd numbers.
        let stream = 2 * self.opened + 1;
        self.opened += 1;
        let block = self.headers.block(headers);
        self.socket.write_all(&frame::syn_stream(stream, fin, &block)).await.map_err(broken)?;
        Ok(stream)
    }

    /// Waits until every stream is granted: a server drops what arrives on one before. It may itself speak on one, or end it,
    /// before it grants the others; that is kept.
    pub(super) async fn granted(&mut self) -> Result<(), Error> {
        let mut missing: BTreeSet<u32> = (0..self.opened).map(|index| 2 * index + 1).collect();
        while !missing.is_empty() {
            let head = frame::read_head(&mut self.socket).await.map_err(broken)?;
            match head {
                Some(Head::Reply { length }) => {
                    let stream = frame::read_number(&mut self.socket, length).await.map_err(broken)?;
                    missing.remove(&stream);
                }
                Some(Head::Data { stream, fin, length }) => {
                    let kept: usize = self.early.iter().map(|early| early.bytes.len()).sum();
                    if kept + length > REPORT {
                        return Err(Error::Failed("its streaming server speaks before it grants streams".to_owned()));
                    }
                    let mut bytes = vec![0; length];
                    self.socket.read_exact(&mut bytes).await.map_err(broken)?;
                    self.early.push(Early { stream, bytes, ended: fin });
                }
                Some(Head::Reset { length }) => {
                    let stream = frame::read_number(&mut self.socket, length).await.map_err(broken)?;
                    missing.remove(&stream);
                    self.early.push(Early { stream, bytes: Vec::new(), ended: true });
                }
                Some(Head::Ping { length }) => {
                    let id = frame::read_number(&mut self.socket, length).await.map_err(broken)?;
                    self.socket.write_all(&frame::ping(id)).await.map_err(broken)?;
                }
                Some(Head::Other { length }) => frame::skip(&mut self.socket, length).await.map_err(broken)?,
                Some(Head::Open { .. } | Head::GoAway) | None => {
                    return Err(Error::Failed("its streaming server refused a stream".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Moves bytes until the connection ends.
    pub(super) async fn run(self, mut sinks: BTreeMap<u32, Sink>, sources: Vec<(u32, Source)>) {
        let (reader, writer) = tokio::io::split(self.socket);
        let early = self.early;
        let (sender, outgoing) = outgoing();
        let feeding = futures::future::join_all(sources.into_iter().map(|(stream, source)| {
            let sender = sender.clone();
            async move {
                match source {
                    Source::Pipe(pipe) => feed(stream, pipe, &sender).await,
                    Source::Sizes(sizes) => tell_sizes(stream, sizes, &sender).await,
                }
            }
        }));
        let sending = async {
            tokio::join!(feeding, outgoing.write(writer));
        };
        tokio::select! {
            biased;
            // However it ends, it has ended: readers see it at the ends of their pipes.
            _ = receive(early, Incoming::from_server(reader, sender.clone()), &mut sinks) => {}
            () = sending => {}
        }
        for (_, sink) in sinks {
            end(sink);
        }
    }
}

async fn feed(stream: u32, mut pipe: DuplexStream, sender: &Sender) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = pipe.read(&mut buffer).await.unwrap_or(0);
        let sent = sender.send(stream, read == 0, buffer.get(..read).unwrap_or_default()).await;
        if !sent || read == 0 {
            return;
        }
    }
}

async fn tell_sizes(stream: u32, mut sizes: mpsc::Receiver<Size>, sender: &Sender) {
    while let Some(Size { width, height }) = sizes.recv().await {
        let text = format!("{{\"Width\":{width},\"Height\":{height}}}\n");
        if !sender.send(stream, false, text.as_bytes()).await {
            return;
        }
    }
}

/// Reads frames until the connection ends. A sink that is full holds up all others, as the server's side does too: whoever
/// wants two streams reads both.
async fn receive(
    early: Vec<Early>,
    mut incoming: Incoming<ReadHalf<BufReader<TcpStream>>>,
    sinks: &mut BTreeMap<u32, Sink>,
) -> io::Result<()> {
    for Early { stream, bytes, ended } in early {
        deliver(sinks, stream, &bytes).await;
        if ended && let Some(sink) = sinks.remove(&stream) {
            end(sink);
        }
    }
    while let Some(event) = incoming.next().await? {
        match event {
            Event::Data { stream, content } => deliver(sinks, stream, content).await,
            Event::Ended { stream } => {
                if let Some(sink) = sinks.remove(&stream) {
                    end(sink);
                }
            }
            Event::Opened { .. } => {}
        }
    }
    Ok(())
}

async fn deliver(sinks: &mut BTreeMap<u32, Sink>, stream: u32, bytes: &[u8]) {
    match sinks.get_mut(&stream) {
        // Nobody reads it any more: it flows on, into nothing.
        Some(Sink::Pipe(pipe)) => _ = pipe.write_all(bytes).await,
        Some(Sink::Report(text, _)) => {
            let room = REPORT.saturating_sub(text.len());
            text.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        None => {}
    }
}

/// A pipe that is dropped has ended.
fn end(sink: Sink) {
    if let Sink::Report(text, tell) = sink {
        tell(text);
    }
}

fn broken(error: io::Error) -> Error {
    Error::Failed(format!("the connection to its streaming server broke: {error}"))
}
