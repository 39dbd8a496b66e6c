//! SPDY/3.1, as far as Kubernetes still speaks it: a client for the streaming servers of container runtimes (exec, attach,
//! port-forward), and in [`server`] the other side, for those who ask a node for the same.
//!
//! A CRI runtime answers Exec, Attach and PortForward with a URL of a plain HTTP server on loopback. That server speaks SPDY,
//! in the dialect of one Go library. This is the smallest client for it:
//!
//! - headers are sent in zlib's stored form, so there is no compressor; headers of replies say nothing and are skipped
//! - what is received is bounded by the pipes it goes into; a full pipe stops the reading of the connection
//! - what is sent is bounded by a short queue and by TCP
//! - SPDY's own windows bound neither side: those servers do not count them and never open one again, so a client that waited for
//!   that would hang after 64 KiB. Nor do we open ours: a frame that a closing server has not read makes the kernel drop
//!   what that server still had to send, and a command's last output would be lost.

pub mod server;

mod dictionary;
mod frame;
mod handle;
mod headers;
mod incoming;
mod inflate;
mod outgoing;
mod session;
mod upgrade;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::streams::{Connection, Process, Wanted};
use handle::{Both, Held, Running};
use session::{Session, Sink, Source};

/// How long a server may take until all streams are there.
const OPENING: Duration = Duration::from_secs(30);

/// What one stream holds while its reader is slow.
const PIPE: usize = 64 * 1024;

const REMOTE_COMMAND: &str = "v4.channel.k8s.io";
const PORT_FORWARD: &str = "portforward.k8s.io";

/// Runs the command behind a URL that the runtime gave for an exec with these streams.
pub async fn exec(url: &str, wanted: Wanted) -> Result<Process, Error> {
    let (process, report) = process(url, wanted).await?;
    let ended = async move {
        match report.await {
            Ok(text) if !text.is_empty() => exit_code(&text),
            _ => Err(Error::Failed("the connection ended before the command did".to_owned())),
        }
    };
    Ok(hold(process, ended))
}

/// Connects to the container behind a URL that the runtime gave for an attach with these streams.
pub async fn attach(url: &str, wanted: Wanted) -> Result<Process, Error> {
    let (process, report) = process(url, wanted).await?;
    let ended = async move {
        match report.await {
            Ok(text) if !text.is_empty() => exit_code(&text),
            _ => Ok(0),
        }
    };
    Ok(hold(process, ended))
}

/// Connects to a port of the Pod behind a URL that the runtime gave for a port-forward.
pub async fn port(url: &str, port: u16) -> Result<Connection, Error> {
    let opening = async {
        let mut session = Session::connect(url, PORT_FORWARD).await?;
        let port = port.to_string();
        let headers = |kind| [("streamtype", kind), ("port", port.as_str()), ("requestid", "0")];
        let error = session.open(&headers("error"), true).await?;
        let data = session.open(&headers("data"), false).await?;
        session.granted().await?;
        Ok((session, error, data))
    };
    let (session, error, data) = in_time(opening).await?;
    let ((far_in, near_in), (near_out, far_out)) = (tokio::io::duplex(PIPE), tokio::io::duplex(PIPE));
    let (report, failure) = oneshot::channel();
    let tell = |text| _ = report.send(text);
    let sinks = BTreeMap::from([(error, Sink::Report(Vec::new(), Box::new(tell))), (data, Sink::Pipe(far_in))]);
    let running = Running::start(session.run(sinks, vec![(data, Source::Pipe(far_out))]));
    Ok(Box::new(Both::new(near_in, near_out, failure, running)))
}

struct Streams {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    resize: Option<mpsc::Sender<crate::streams::Size>>,
    running: Arc<Running>,
}

/// Opens the streams of a process, in the order in which other clients do.
async fn process(url: &str, wanted: Wanted) -> Result<(Streams, oneshot::Receiver<Vec<u8>>), Error> {
    let stderr = wanted.stderr && !wanted.tty;
    let kinds = [
        ("error", true),
        ("stdin", wanted.stdin),
        ("stdout", wanted.stdout),
        ("stderr", stderr),
        ("resize", wanted.tty),
    ];
    let opening = async {
        let mut session = Session::connect(url, REMOTE_COMMAND).await?;
        let mut opened = BTreeMap::new();
        for (kind, _) in kinds.into_iter().filter(|(_, wanted)| *wanted) {
            opened.insert(kind, session.open(&[("streamtype", kind)], false).await?);
        }
        session.granted().await?;
        Ok((session, opened))
    };
    let (session, opened) = in_time(opening).await?;
    let (mut sinks, mut sources) = (BTreeMap::new(), Vec::new());
    let mut output = |kind: &str| {
        let (far, near) = tokio::io::duplex(PIPE);
        sinks.insert(*opened.get(kind)?, Sink::Pipe(far));
        Some(near)
    };
    let (stdout, stderr) = (output("stdout"), output("stderr"));
    let (report, reported) = oneshot::channel();
    // Whoever does not wait for the end does not hear of it.
    let tell = |text| _ = report.send(text);
    sinks.extend(opened.get("error").map(|stream| (*stream, Sink::Report(Vec::new(), Box::new(tell)))));
    let stdin = opened.get("stdin").map(|stream| {
        let (near, far) = tokio::io::duplex(PIPE);
        sources.push((*stream, Source::Pipe(far)));
        near
    });
    let resize = opened.get("resize").map(|stream| {
        let (sender, sizes) = mpsc::channel(1);
        sources.push((*stream, Source::Sizes(sizes)));
        sender
    });
    let running = Running::start(session.run(sinks, sources));
    Ok((Streams { stdin, stdout, stderr, resize, running }, reported))
}

/// The connection lives as long as anyone has a part of the process.
fn hold(streams: Streams, ended: impl Future<Output = Result<i32, Error>> + Send + 'static) -> Process {
    let Streams { stdin, stdout, stderr, resize, running } = streams;
    let held = |stream| Held { stream, _running: running.clone() };
    Process {
        stdin: stdin.map(|stream| Box::new(held(stream)) as _),
        stdout: stdout.map(|stream| Box::new(held(stream)) as _),
        stderr: stderr.map(|stream| Box::new(held(stream)) as _),
        resize,
        ended: async move {
            let ended = ended.await;
            drop(running);
            ended
        }
        .boxed(),
    }
}

async fn in_time<T>(opening: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = || Error::Failed(format!("its streaming server gave no streams in {} s", OPENING.as_secs()));
    tokio::time::timeout(OPENING, opening).await.unwrap_or_else(|_| Err(late()))
}

/// What the server's last word says: a Status, as JSON.
fn exit_code(text: &[u8]) -> Result<i32, Error> {
    let unreadable = || Error::Failed(format!("how the command ended is not known: {}", String::from_utf8_lossy(text)));
    let status: serde_json::Value = serde_json::from_slice(text).map_err(|_| unreadable())?;
    if status["status"] == "Success" {
        return Ok(0);
    }
    if status["reason"] == "NonZeroExitCode" {
        let mut causes = status["details"]["causes"].as_array().into_iter().flatten();
        let code = causes.find(|cause| cause["reason"] == "ExitCode").and_then(|cause| cause["message"].as_str());
        return code.and_then(|code| code.parse().ok()).ok_or_else(unreadable);
    }
    let message = status["message"].as_str().ok_or_else(unreadable)?;
    // Whoever asked puts the same words in front again.
    let prefixes =
        ["Internal error occurred: ", "error executing command in container: ", "error attaching to container: "];
    let message = prefixes.iter().fold(message, |message, prefix| message.strip_prefix(prefix).unwrap_or(message));
    Err(Error::Failed(message.to_owned()))
}
