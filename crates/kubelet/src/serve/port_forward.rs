//! Port-forward over WebSocket: two channels for each port, one for bytes and one for what goes wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use pintle_container::{Connection, Runtime, SandboxId};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use super::websocket::{self, Incoming, Sender};

const CHUNK: usize = 32 * 1024;

/// The ports in a query such as `port=80&port=443,8080`.
pub(super) fn ports(pairs: &[(String, String)]) -> Result<Vec<u16>, String> {
    let texts = pairs.iter().filter(|(name, _)| name == "port" || name == "ports").map(|(_, value)| value);
    let ports: Vec<u16> = texts
        .flat_map(|value| value.split(','))
        .map(|text| {
            text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("unable to parse {text:?} as a port"))
        })
        .collect::<Result<_, _>>()?;
    match ports.len() {
        0 => Err("query parameter \"port\" is required".to_owned()),
        // A channel is a byte, and each port has two.
        1..=127 => Ok(ports),
        _ => Err("at most 127 ports can be forwarded at once".to_owned()),
    }
}

/// Connects a client to ports of a Pod until it goes, or all of them have closed.
pub(super) async fn connect(stream: DuplexStream, runtime: Arc<dyn Runtime>, sandbox: SandboxId, ports: Vec<u16>) {
    let (reader, writer) = tokio::io::split(stream);
    let (sender, outgoing) = websocket::outgoing();
    let talking = async move {
        let mut incoming = Incoming::new(reader, sender.clone());
        let (mut writers, telling) = (BTreeMap::new(), FuturesUnordered::new());
        for (channel, port) in (0..).step_by(2).zip(ports) {
            // The first message of each channel says which port it is.
            sender.send(channel, &port.to_le_bytes()).await;
            sender.send(channel + 1, &port.to_le_bytes()).await;
            match runtime.connect(&sandbox, port).await {
                Ok(connection) => {
                    let (reader, writer) = tokio::io::split(connection);
                    writers.insert(channel, writer);
                    telling.push(tell(channel, port, reader, sender.clone()));
                }
                Err(error) => {
                    let message = format!("error forwarding port {port} to pod: {error}");
                    sender.send(channel + 1, message.as_bytes()).await;
                }
            }
        }
        tokio::select! {
            biased;
            () = telling.collect::<()>() => sender.close().await,
            () = listen(&mut incoming, writers) => {}
        }
    };
    tokio::join!(talking, outgoing.write(writer));
}

async fn tell(channel: u8, port: u16, mut reader: ReadHalf<Connection>, sender: Sender) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) => return,
            Ok(read) => {
                if !sender.send(channel, buffer.get(..read).unwrap_or_default()).await {
                    return;
                }
            }
            Err(error) => {
                let message = format!("error forwarding port {port} to pod: {error}");
                sender.send(channel + 1, message.as_bytes()).await;
                return;
            }
        }
    }
}

async fn listen(incoming: &mut Incoming<ReadHalf<DuplexStream>>, mut writers: BTreeMap<u8, WriteHalf<Connection>>) {
    while let Some(message) = incoming.next().await {
        let Some((channel, content)) = message.split_first() else { continue };
        let taken = match writers.get_mut(channel) {
            Some(writer) => writer.write_all(content).await,
            None => Ok(()),
        };
        if taken.is_err() {
            writers.remove(channel);
        }
    }
}
