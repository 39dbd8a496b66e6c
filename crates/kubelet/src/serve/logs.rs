//! `/containerLogs/<namespace>/<pod>/<container>`: what a container has written, and writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{Response, StatusCode, header};
use pintle_container::{Container, Runtime, simulated::Script};
use tokio::sync::mpsc;

use super::{Answer, Failure, Serving, find};
use crate::logs::options::Options;
use crate::logs::read::{self, Ended};
use crate::logs::{place, script};
use crate::pods::Home;

/// Batches between the file and the connection.
const QUEUED: usize = 4;

pub(super) async fn answer(
    serving: &Serving,
    home: &Arc<Home>,
    namespace: &str,
    pod_name: &str,
    container: &str,
    pairs: &[(String, String)],
) -> Result<Response<Answer>, Failure> {
    let invalid = |why| Failure(StatusCode::UNPROCESSABLE_ENTITY, why);
    let options = Options::parse(pairs, serving.pods.now()).map_err(invalid)?;
    let pod = find::pod(serving, home, namespace, pod_name)?;
    let run = find::logged(home, &pod, container, options.previous).await?;
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
    let mut response = Response::new(Answer::Stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// A runtime that does not answer is asked again: nobody knows that the container has ended.
fn ended(runtime: Arc<dyn Runtime>, run: &Container) -> Ended {
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
