//! The server's side of a port-forward over SPDY/3.1: a client opens two streams for each connection to a port, one for its
//! bytes and one for what goes wrong.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::PIPE;
use super::frame::{self, CHUNK, Head};
use super::headers::{self, HeaderWriter};
use super::inflate::Inflater;
use super::session::send;
use crate::error::Error;
use crate::streams::Connection;

/// Frames that wait for the client: content, and what the connection itself needs.
const QUEUED: usize = 4;
const QUEUED_CONTROL: usize = 64;

/// Connections to ports at once, and streams whose other half has not come.
const STREAMS: usize = 1000;

/// The largest frame that opens a stream.
const OPENING: usize = 16 * 1024;

/// Connects the streams of one client to ports until it goes.
pub async fn ports<S, C, F>(client: S, connect: C)
where
    S: AsyncRead + AsyncWrite + Send,
    C: Fn(u16) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Connection, Error>> + Send + 'static,
{
    let (reader, writer) = tokio::io::split(client);
    let (content, queued) = mpsc::channel(QUEUED);
    let (control, urgent) = mpsc::channel(QUEUED_CONTROL);
    let server = Server {
        inflater: Inflater::new(),
        headers: HeaderWriter::default(),
        waiting: BTreeMap::new(),
        pipes: BTreeMap::new(),
        running: JoinSet::new(),
        connect: Arc::new(connect),
        content,
        control,
    };
    tokio::select! {
        biased;
        // However it ends: connections to ports end with it.
        _ = server.receive(BufReader::with_capacity(CHUNK, reader)) => {}
        () = send(writer, urgent, queued) => {}
    }
}

struct Server<C> {
    inflater: Inflater,
    headers: HeaderWriter,
    /// Error streams, by the request that they belong to.
    waiting: BTreeMap<String, u32>,
    /// Where the content of data streams goes.
    pipes: BTreeMap<u32, DuplexStream>,
    running: JoinSet<()>,
    connect: Arc<C>,
    content: mpsc::Sender<Vec<u8>>,
    control: mpsc::Sender<Vec<u8>>,
}

impl<C, F> Server<C>
where
    C: Fn(u16) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Connection, Error>> + Send + 'static,
{
    async fn receive<R: AsyncRead>(mut self, mut reader: BufReader<ReadHalf<R>>) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        while let Some(head) = frame::read_head(&mut reader).await? {
            match head {
                Head::Open { length } => self.open(&mut reader, length).await?,
                Head::Data { stream, fin, length } => {
                    let mut left = length;
                    while left > 0 {
                        let room = left.min(buffer.len());
                        let read = reader.read(buffer.get_mut(..room).unwrap_or_default()).await?;
                        if read == 0 {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        left -= read;
                        if let Some(pipe) = self.pipes.get_mut(&stream) {
                            // A port that takes no more lets it flow on, into nothing.
                            let _ = pipe.write_all(buffer.get(..read).unwrap_or_default()).await;
                        }
                    }
                    if fin {
                        self.pipes.remove(&stream);
                    }
                }
                Head::Reset { length } => {
                    let stream = frame::read_number(&mut reader, length).await?;
                    self.pipes.remove(&stream);
                }
                Head::Ping { length } => {
                    let id = frame::read_number(&mut reader, length).await?;
                    // Numbers of our own would be even; we ask none.
                    if id % 2 == 1 {
                        let _ = self.control.try_send(frame::ping(id));
                    }
                }
                Head::GoAway => return Ok(()),
                Head::Reply { length } | Head::Other { length } => frame::skip(&mut reader, length).await?,
            }
            // What has ended is forgotten.
            while self.running.try_join_next().is_some() {}
        }
        Ok(())
    }

    async fn open<R: AsyncRead>(&mut self, reader: &mut BufReader<ReadHalf<R>>, length: usize) -> io::Result<()> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if length > OPENING || self.waiting.len() + self.running.len() >= STREAMS {
            return Err(wrong("a client asks for too much"));
        }
        let mut frame = vec![0; length];
        reader.read_exact(&mut frame).await?;
        let (stream, rest) = frame.split_first_chunk().ok_or_else(|| wrong("a frame is too short"))?;
        let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
        // Between the two are the stream it belongs to, its priority and its slot.
        let block = rest.get(6..).ok_or_else(|| wrong("a frame is too short"))?;
        let plain =
            self.inflater.block(block).map_err(|_| wrong("a header block is not compressed as SPDY wants it"))?;
        let headers = headers::parse(&plain).ok_or_else(|| wrong("a header block is not whole"))?;
        let get = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
        let granted = frame::syn_reply(stream, &self.headers.block(&[]));
        // Before anything is said on it.
        self.content.send(granted).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        // Clients of old do not number their requests: the data stream follows its error stream.
        let request = match get("requestid") {
            "" => format!("port {}", get("port")),
            request => request.to_owned(),
        };
        match get("streamtype") {
            "error" => _ = self.waiting.insert(request, stream),
            "data" => {
                let errors = self.waiting.remove(&request);
                let port = get("port").parse::<u16>().ok().filter(|port| *port > 0);
                let (Some(errors), Some(port)) = (errors, port) else {
                    return Err(wrong("a data stream has no error stream, or no port"));
                };
                self.forward(stream, errors, port);
            }
            _ => return Err(wrong("a stream is for neither data nor errors")),
        }
        Ok(())
    }

    fn forward(&mut self, data: u32, errors: u32, port: u16) {
        let (far, near) = tokio::io::duplex(PIPE);
        self.pipes.insert(data, far);
        let (connect, content) = (self.connect.clone(), self.content.clone());
        self.running.spawn(async move {
            let failure = match connect(port).await {
                Ok(connection) => talk(data, connection, near, &content).await.err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            let text = failure.map(|why| format!("error forwarding port {port} to pod: {why}")).unwrap_or_default();
            // The reason before both ends.
            let _ = content.send(frame::data(errors, true, text.as_bytes())).await;
            let _ = content.send(frame::data(data, true, &[])).await;
        });
    }
}

/// Moves bytes both ways until the port has said its last. A client that has said its own is still told the rest.
async fn talk(
    stream: u32,
    connection: Connection,
    mut client: DuplexStream,
    content: &mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(connection);
    let telling = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = reader.read(&mut buffer).await?;
            let frame = frame::data(stream, false, buffer.get(..read).unwrap_or_default());
            if read == 0 || content.send(frame).await.is_err() {
                return Ok(());
            }
        }
    };
    let hearing = async {
        let _ = tokio::io::copy(&mut client, &mut writer).await;
        let _ = writer.shutdown().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        told = telling => told,
        () = hearing => Ok(()),
    }
}
