//! `/containerLogs/<namespace>/<pod>/<container>`: what a container has written, and writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response, StatusCode, header};
use pintle_container::{Container, Runtime, simulated::Script};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use super::command::GOODBYE;
use super::upgrade::{self, Upgraded};
use super::websocket::{self, Incoming};
use super::{Answer, Failure, Serving, find};
use crate::logs::options::Options;
use crate::logs::read::{self, Ended};
use crate::logs::{place, script};
use crate::pods::Home;

/// Batches between the file and the connection.
const QUEUED: usize = 4;

/// What a client may speak that wants the log in the messages of a WebSocket; the last one is that of clients that name none.
const PROTOCOLS: [&str; 3] = ["binary.k8s.io", BASE64, ""];
const BASE64: &str = "base64.binary.k8s.io";

pub(super) async fn answer(
    serving: &Serving,
    home: &Arc<Home>,
    request: &Request<()>,
    (namespace, pod_name, container): (&str, &str, &str),
    pairs: &[(String, String)],
) -> Result<Response<Answer>, Failure> {
    let invalid = |why| Failure(StatusCode::UNPROCESSABLE_ENTITY, why);
    let options = Options::parse(pairs, serving.pods.now()).map_err(invalid)?;
    let pod = find::pod(serving, home, namespace, pod_name)?;
    let run = find::logged(home, &pod, container, options.previous).await?;
    let upgraded = match websocket::is_asked(request.headers()) {
        true => Some(upgrade::websocket(request, &PROTOCOLS)?),
        false => None,
    };
    let (out, lines) = mpsc::channel::<Bytes>(QUEUED);
    let ended = ended(home.runtime.clone(), &run);
    match &home.machine {
        Some(machine) => {
            let log = place::file(machine.logs(), &run.pod, &run.name, run.attempt);
            tokio::spawn(async move {
                if let Err(error) = read::read(log.clone(), options, ended, out).await {
                    tracing::warn!(log = %log.display(), %error, "a log could not be read to its end");
                }
            });
        }
        // There is no machine that could have written one: it says what its script says.
        None => {
            let annotations: BTreeMap<String, String> = pod.metadata.annotations.clone().unwrap_or_default();
            let text = Script::of(&annotations, container).log;
            tokio::spawn(script::tell(text, run.started_at(), options, ended, out));
        }
    }
    if let Some(Upgraded { answer, connection, protocol }) = upgraded {
        tokio::spawn(pass_on(connection, lines, protocol == BASE64));
        return Ok(answer);
    }
    let mut response = Response::new(Answer::Stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// Sends the log as messages, until it ends or the client goes. What the client says is of no interest.
async fn pass_on(connection: DuplexStream, mut lines: mpsc::Receiver<Bytes>, text: bool) {
    let (reader, writer) = tokio::io::split(connection);
    let (sender, outgoing) = websocket::outgoing();
    let telling = async move {
        let mut incoming = Incoming::new(reader, sender.clone());
        let sending = async {
            while let Some(batch) = lines.recv().await {
                let sent = match text {
                    true => sender.send_whole_text(&batch).await,
                    false => sender.send_whole(&batch).await,
                };
                if !sent {
                    return;
                }
            }
            sender.close().await;
        };
        let gone = async { while incoming.next().await.is_some() {} };
        tokio::select! {
            biased;
            () = sending => {}
            () = gone => return,
        }
        // It is the client who closes, or what is on its way to it may be dropped.
        drop(sender);
        let _ = tokio::time::timeout(GOODBYE, async { while incoming.next().await.is_some() {} }).await;
    };
    tokio::join!(telling, outgoing.write(writer));
}

/// A runtime that does not answer is asked again: nobody knows that the container has ended.
pub(super) fn ended(runtime: Arc<dyn Runtime>, run: &Container) -> Ended {
    const PATIENCE: Duration = Duration::from_secs(10);
    let id = run.id.clone();
    Box::new(move || {
        let (runtime, id) = (runtime.clone(), id.clone());
        async move {
            match tokio::time::timeout(PATIENCE, runtime.container_status(&id)).await {
                Ok(Ok(run)) => !run.is_alive(),
                Ok(Err(pintle_container::Error::NotFound { .. })) => true,
                Ok(Err(_)) | Err(_) => false,
            }
        }
        .boxed()
    })
}
