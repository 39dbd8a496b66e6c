//! Exec and attach over WebSocket: a channel for each stream of a process.
//!
//! The first byte of every message is its channel. In version 5 of the protocol a client ends its input with a message on
//! channel 255 that names channel 0; in version 4 only the end of the connection does.

use std::time::Duration;

use futures::future::BoxFuture;
use pintle_container::{Error, Process, Reader, Size, Wanted, Writer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use super::websocket::{self, Incoming, Sender};

pub(super) const V5: &str = "v5.channel.k8s.io";
pub(super) const V4: &str = "v4.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

const CHUNK: usize = 32 * 1024;

/// How long a client may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// Connects a client to a process until one of them ends. `what` is for the message if it cannot start.
pub(super) async fn connect(
    connection: DuplexStream,
    wanted: Wanted,
    what: &'static str,
    start: BoxFuture<'static, Result<Process, Error>>,
) {
    let (reader, writer) = tokio::io::split(connection);
    let (sender, outgoing) = websocket::outgoing();
    let talking = async move {
        let mut incoming = Incoming::new(reader, sender.clone());
        // Tells the client that the connection stands before the process says anything.
        if let Some((channel, _)) = [(STDOUT, wanted.stdout), (STDERR, wanted.stderr)].into_iter().find(|(_, is)| *is) {
            sender.send(channel, &[]).await;
        }
        let ended = match start.await {
            Ok(process) => match talk(process, &mut incoming, &sender).await {
                Some(ended) => ended,
                None => return,
            },
            Err(error) => Err(error),
        };
        sender.send(ERROR, status(what, ended).to_string().as_bytes()).await;
        sender.close().await;
        drop(sender);
        // Whoever closes first with something unread makes the kernel drop what is on its way.
        let _ = tokio::time::timeout(GOODBYE, async { while incoming.next().await.is_some() {} }).await;
    };
    tokio::join!(talking, outgoing.write(writer));
}

/// How the process ended; nothing if the client went first.
async fn talk(
    process: Process,
    incoming: &mut Incoming<impl AsyncRead + Unpin>,
    sender: &Sender,
) -> Option<Result<i32, Error>> {
    let Process { stdin, stdout, stderr, resize, ended } = process;
    let telling = async {
        let (ended, (), ()) = tokio::join!(ended, tell(STDOUT, stdout, sender), tell(STDERR, stderr, sender));
        ended
    };
    tokio::select! {
        biased;
        ended = telling => Some(ended),
        () = listen(incoming, stdin, resize) => None,
    }
}

async fn tell(channel: u8, stream: Option<Reader>, sender: &Sender) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; CHUNK];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 || !sender.send(channel, buffer.get(..read).unwrap_or_default()).await {
            return;
        }
    }
}

/// Takes what the client sends, until it goes.
async fn listen(
    incoming: &mut Incoming<impl AsyncRead + Unpin>,
    mut stdin: Option<Writer>,
    resize: Option<mpsc::Sender<Size>>,
) {
    while let Some(message) = incoming.next().await {
        match message.split_first() {
            Some((&STDIN, content)) => {
                let taken = match &mut stdin {
                    Some(stdin) => stdin.write_all(content).await,
                    None => Ok(()),
                };
                if taken.is_err() {
                    // The process takes no more; what it says may still be of interest.
                    stdin = None;
                }
            }
            Some((&RESIZE, content)) => {
                if let (Some(size), Some(resize)) = (size(content), &resize) {
                    let _ = resize.send(size).await;
                }
            }
            Some((&CLOSE, [STDIN, ..])) => {
                if let Some(mut stdin) = stdin.take() {
                    let _ = stdin.shutdown().await;
                }
            }
            _ => {}
        }
    }
}

fn size(text: &[u8]) -> Option<Size> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let side = |name: &str| u16::try_from(value[name].as_u64()?).ok();
    Some(Size { width: side("Width")?, height: side("Height")? })
}

/// The last word to the client, as the API's Status.
fn status(what: &str, ended: Result<i32, Error>) -> Value {
    match ended {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => pintle_meta::Status::internal(format!("{what}: {error}")).to_value(),
    }
}
