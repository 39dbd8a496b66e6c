//! A door between a store and its etcd: open, shut, or held so that nothing gets through and nobody
//! is told.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Open,
    /// Connections are cut, and new ones refused.
    Closed,
    /// Connections stay, and carry nothing. Those of before stay so.
    Held,
}

pub struct Gate {
    pub endpoint: String,
    door: Arc<watch::Sender<Door>>,
    task: JoinHandle<()>,
}

impl Gate {
    pub async fn open(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = listener.local_addr().expect("bound").to_string();
        let door = Arc::new(watch::Sender::new(Door::Open));
        let task = tokio::spawn(accept(listener, target.to_owned(), Arc::clone(&door)));
        Self { endpoint, door, task }
    }

    pub fn close(&self) {
        self.door.send_replace(Door::Closed);
    }

    pub fn hold(&self) {
        self.door.send_replace(Door::Held);
    }

    pub fn reopen(&self) {
        self.door.send_replace(Door::Open);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.door.send_replace(Door::Closed);
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: String, door: Arc<watch::Sender<Door>>) {
    while let Ok((client, _)) = listener.accept().await {
        if *door.borrow() == Door::Closed {
            continue;
        }
        let Ok(server) = TcpStream::connect(&target).await else { continue };
        let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
        tokio::spawn(carry(client_in, server_out, door.subscribe()));
        tokio::spawn(carry(server_in, client_out, door.subscribe()));
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut door: watch::Receiver<Door>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = tokio::select! {
            biased;
            _ = door.wait_for(|door| *door != Door::Open) => None,
            read = from.read(&mut buffer) => Some(read),
        };
        match read {
            Some(Ok(read)) if read > 0 => {
                if to.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
            Some(_) => return,
            None if *door.borrow() == Door::Closed => return,
            // Half dead for good, as when a machine between the two has lost power: both ends are
            // kept until the test ends, and never read.
            None => {
                let _ = door.wait_for(|door| *door == Door::Closed).await;
                return;
            }
        }
    }
}
