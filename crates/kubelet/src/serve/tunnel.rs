//! Port-forward as kubectl does it: SPDY, on the connection itself or in the messages of a WebSocket.

use std::sync::Arc;

use pintle_container::{Runtime, SandboxId, spdy};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::PIPE;
use super::websocket::{self, Incoming};

/// The protocol inside the messages of a WebSocket.
pub(super) const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";

/// The protocol on a connection of SPDY's own.
pub(super) const PROTOCOL: &str = "portforward.k8s.io";

const CHUNK: usize = 32 * 1024;

/// Connects a client that speaks SPDY to ports of a Pod until it goes.
pub(super) async fn connect(client: DuplexStream, runtime: Arc<dyn Runtime>, sandbox: SandboxId) {
    spdy::server::ports(client, move |port| {
        let (runtime, sandbox) = (runtime.clone(), sandbox.clone());
        async move { runtime.connect(&sandbox, port).await }
    })
    .await;
}

/// The same for one whose SPDY is in the messages of a WebSocket.
pub(super) async fn connect_through(client: DuplexStream, runtime: Arc<dyn Runtime>, sandbox: SandboxId) {
    let (reader, writer) = tokio::io::split(client);
    let (sender, outgoing) = websocket::outgoing();
    let talking = async move {
        let (near, far) = tokio::io::duplex(PIPE);
        let (mut from_server, mut to_server) = tokio::io::split(near);
        let mut incoming = Incoming::new(reader, sender.clone());
        let hearing = async {
            while let Some(message) = incoming.next().await {
                if to_server.write_all(&message).await.is_err() {
                    return;
                }
            }
        };
        let telling = async {
            let mut buffer = vec![0; CHUNK];
            while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
                if !sender.send_whole(buffer.get(..read).unwrap_or_default()).await {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = hearing => {}
            () = telling => {}
            () = connect(far, runtime, sandbox) => {}
        }
        sender.close().await;
    };
    tokio::join!(talking, outgoing.write(writer));
}
