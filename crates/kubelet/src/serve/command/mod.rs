//! Exec and attach: connects a client to a process, whatever carries the streams between them.
//!
//! - [`Hear`], [`Tell`]: what the protocol in between has to do
//! - `channels`: a channel of a WebSocket for each stream
//! - `streams`: a stream of SPDY for each

mod channels;
mod streams;

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use pintle_container::{Error, Process, Reader, Size, Wanted, Writer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use super::upgrade::{self, Upgraded};
use super::{Answer, Failure};

pub(super) use channels::V4;

const CHUNK: usize = 32 * 1024;

/// How long a client may take to say goodbye. Whoever closes first with something unread makes the kernel drop what is on its
/// way, so it is the client who closes.
pub(super) const GOODBYE: Duration = Duration::from_secs(5);

type Start = BoxFuture<'static, Result<Process, Error>>;

/// A client that has changed to a protocol with streams.
pub(super) enum Client {
    WebSocket(DuplexStream, &'static str),
    Spdy(DuplexStream, &'static str),
}

/// Opens what the client asks for.
pub(super) fn opened(request: &Request<()>) -> Result<(Response<Answer>, Client), Failure> {
    if upgrade::is_spdy(request.headers()) {
        let Upgraded { answer, connection, protocol } = upgrade::spdy(request.headers(), &streams::PROTOCOLS)?;
        return Ok((answer, Client::Spdy(connection, protocol)));
    }
    let Upgraded { answer, connection, protocol } = upgrade::websocket(request, &channels::PROTOCOLS)?;
    Ok((answer, Client::WebSocket(connection, protocol)))
}

impl Client {
    /// Connects it to a process until one of them ends. `what` is for the message if that cannot start.
    pub(super) async fn connect(self, wanted: Wanted, what: &'static str, start: Start) {
        match self {
            Client::WebSocket(connection, protocol) => {
                channels::connect(connection, protocol, wanted, what, start).await;
            }
            Client::Spdy(connection, protocol) => streams::connect(connection, protocol, wanted, what, start).await,
        }
    }
}

/// What a client says.
enum Heard<'a> {
    Input(&'a [u8]),
    InputEnded,
    Resized(Size),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Stdout,
    Stderr,
}

trait Hear: Send {
    /// What the client says next; nothing when it has gone.
    fn next(&mut self) -> impl Future<Output = Option<Heard<'_>>> + Send;
}

trait Tell: Sync {
    /// Tells the client a piece of a process's output; false if it has gone.
    fn tell(&self, output: Output, content: &[u8]) -> impl Future<Output = bool> + Send;
}

/// Runs a process for a client. The last word to it, as the API's Status; nothing if the client went first.
async fn run(what: &str, start: Start, hear: &mut impl Hear, tell: &impl Tell) -> Option<Value> {
    let ended = match start.await {
        Ok(process) => talk(process, hear, tell).await?,
        Err(error) => Err(error),
    };
    Some(status(what, ended))
}

/// How the process ended; nothing if the client went first.
async fn talk(process: Process, hear: &mut impl Hear, tell: &impl Tell) -> Option<Result<i32, Error>> {
    let Process { stdin, stdout, stderr, resize, ended } = process;
    let telling = async {
        let (stdout, stderr) = (pass_on(Output::Stdout, stdout, tell), pass_on(Output::Stderr, stderr, tell));
        tokio::join!(ended, stdout, stderr).0
    };
    tokio::select! {
        biased;
        ended = telling => Some(ended),
        () = listen(hear, stdin, resize) => None,
    }
}

async fn pass_on(output: Output, stream: Option<Reader>, tell: &impl Tell) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; CHUNK];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 || !tell.tell(output, buffer.get(..read).unwrap_or_default()).await {
            return;
        }
    }
}

/// Takes what the client says, until it goes.
async fn listen(hear: &mut impl Hear, mut stdin: Option<Writer>, resize: Option<mpsc::Sender<Size>>) {
    while let Some(heard) = hear.next().await {
        match heard {
            Heard::Input(content) => {
                let taken = match &mut stdin {
                    Some(stdin) => stdin.write_all(content).await,
                    None => Ok(()),
                };
                if taken.is_err() {
                    // The process takes no more; what it says may still be of interest.
                    stdin = None;
                }
            }
            Heard::InputEnded => {
                if let Some(mut stdin) = stdin.take() {
                    let _ = stdin.shutdown().await;
                }
            }
            Heard::Resized(size) => {
                if let Some(resize) = &resize {
                    let _ = resize.send(size).await;
                }
            }
        }
    }
}

fn size(value: &Value) -> Option<Size> {
    let side = |name: &str| u16::try_from(value[name].as_u64()?).ok();
    Some(Size { width: side("Width")?, height: side("Height")? })
}

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
