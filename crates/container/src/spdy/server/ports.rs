//! The server's side of a port-forward over SPDY/3.1: a client opens two streams for each connection to a port, one for its
//! bytes and one for what goes wrong.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::task::JoinSet;

use super::{Event, Incoming, Sender, outgoing};
use crate::error::Error;
use crate::spdy::PIPE;
use crate::spdy::frame::CHUNK;
use crate::streams::Connection;

/// Connections to ports at once, and streams whose other half has not come.
const STREAMS: usize = 1000;

/// Connects the streams of one client to ports until it goes.
pub async fn ports<S, C, F>(client: S, connect: C)
where
    S: AsyncRead + AsyncWrite + Send,
    C: Fn(u16) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Connection, Error>> + Send + 'static,
{
    let (reader, writer) = tokio::io::split(client);
    let (sender, outgoing) = outgoing();
    let incoming = Incoming::from_client(reader, sender.clone());
    let server = Server {
        waiting: BTreeMap::new(),
        pipes: BTreeMap::new(),
        running: JoinSet::new(),
        connect: Arc::new(connect),
        sender,
    };
    tokio::select! {
        biased;
        // However it ends: connections to ports end with it.
        _ = server.receive(incoming) => {}
        () = outgoing.write(writer) => {}
    }
}

struct Server<C> {
    /// Error streams, by the request that they belong to.
    waiting: BTreeMap<String, u32>,
    /// Where the content of data streams goes.
    pipes: BTreeMap<u32, DuplexStream>,
    running: JoinSet<()>,
    connect: Arc<C>,
    sender: Sender,
}

impl<C, F> Server<C>
where
    C: Fn(u16) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Connection, Error>> + Send + 'static,
{
    async fn receive(mut self, mut incoming: Incoming<impl AsyncRead + Unpin>) -> io::Result<()> {
        while let Some(event) = incoming.next().await? {
            match event {
                Event::Opened { stream, headers } => self.open(stream, &headers)?,
                Event::Data { stream, content } => {
                    if let Some(pipe) = self.pipes.get_mut(&stream) {
                        // A port that takes no more lets it flow on, into nothing.
                        let _ = pipe.write_all(content).await;
                    }
                }
                Event::Ended { stream } => _ = self.pipes.remove(&stream),
            }
            // What has ended is forgotten.
            while self.running.try_join_next().is_some() {}
        }
        Ok(())
    }

    fn open(&mut self, stream: u32, headers: &BTreeMap<String, String>) -> io::Result<()> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if self.waiting.len() + self.running.len() >= STREAMS {
            return Err(wrong("a client asks for too much"));
        }
        let get = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
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
        let (connect, sender) = (self.connect.clone(), self.sender.clone());
        self.running.spawn(async move {
            let failure = match connect(port).await {
                Ok(connection) => talk(data, connection, near, &sender).await.err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            let text = failure.map(|why| format!("error forwarding port {port} to pod: {why}")).unwrap_or_default();
            // The reason before both ends.
            sender.send(errors, true, text.as_bytes()).await;
            sender.send(data, true, &[]).await;
        });
    }
}

/// Moves bytes both ways until the port has said its last. A client that has said its own is still told the rest.
async fn talk(stream: u32, connection: Connection, mut client: DuplexStream, sender: &Sender) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(connection);
    let telling = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = reader.read(&mut buffer).await?;
            if read == 0 || !sender.send(stream, false, buffer.get(..read).unwrap_or_default()).await {
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
