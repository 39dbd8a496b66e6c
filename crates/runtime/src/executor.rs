//! Carries a plan out: requests in order, Events of what came of them, and the status at the end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Client, core::Status};
use serde::Deserialize;
use serde_json::Value;

use crate::attempt::Attempt;
use crate::context::Context;
use crate::controller::Action;
use crate::error::{ApiError, Error};
use crate::events::Recorder;
use crate::owner::Cascade;
use crate::plan::status::{IfFailed, StatusUpdate};
use crate::plan::{IfThere, Pace, Plan, What, Write};
use crate::trace::{self, TraceParent};

#[cfg(test)]
mod tests;

/// Executes plans, and records Events, in the name of one component. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Executor {
    client: ClientOf,
    recorder: Recorder,
    applied: Applied,
}

/// What this process applied last, by path: hashes, so that a plan which wants the same again needs no request.
type Applied = Arc<Mutex<BTreeMap<String, u64>>>;

/// So many objects are remembered; then it begins anew, at the cost of one more apply for each.
const MOST_APPLIED: usize = 65_536;

/// A client without its `Debug`, which it does not have.
#[derive(Clone)]
struct ClientOf(Client);

impl std::fmt::Debug for ClientOf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Client")
    }
}

/// The write that failed, and why.
#[derive(Debug)]
pub struct Failed {
    /// Which of the plan's writes; none if it was the status.
    pub write: Option<usize>,
    pub error: kube::Error,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        Error::Api(failed.error)
    }
}

/// What came of one request.
enum Outcome {
    /// The server did it, to the object of this name.
    Done(String),
    /// There is nothing to do any more.
    NotNeeded,
}

/// The name in the answer to a write: the object's, or in a Status what was deleted.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: Option<String>,
    deletion_timestamp: Option<String>,
}

impl Executor {
    /// Events name this component as their source.
    pub fn new(context: &Context, component: &str) -> Self {
        Executor {
            client: ClientOf(context.client.clone()),
            recorder: context.recorder(component),
            applied: Applied::default(),
        }
    }

    /// Does what the plan says about this object.
    pub async fn execute<K>(&self, object: &K, plan: Plan) -> Result<Action, Failed>
    where
        K: Resource<DynamicType = ()>,
    {
        self.carry_out(plan.about(object)).await
    }

    /// Does what the plan says about the object that it names; without one its Events have nowhere to go.
    pub async fn carry_out(&self, plan: Plan) -> Result<Action, Failed> {
        let Plan { about, writes, status, events, again } = plan;
        let written = self.write_all(&about, &writes).await;
        if let Some(status) = status {
            let failure = written.as_ref().err().map(|failed| &failed.error);
            let result = self.write_status(&status, failure).await;
            match &written {
                Ok(()) => result.map_err(|error| Failed { write: None, error })?,
                // Of two errors the first one is the one to know.
                Err(_) => {
                    if let Err(error) = result {
                        tracing::warn!(%error, "the status was not written");
                    }
                }
            }
        }
        written?;
        for note in events {
            let kind = if note.is_warning { "Warning" } else { "Normal" };
            self.recorder.record(note.about.as_ref().unwrap_or(&about), kind, note.reason, note.message);
        }
        Ok(again.map_or_else(Action::done, Action::requeue_after))
    }

    async fn write_all(&self, object: &ObjectReference, writes: &[Write]) -> Result<(), Failed> {
        let mut next = 0;
        while next < writes.len() {
            let stage = stage_at(writes, next);
            // Every request of the stage, by the write that it comes from.
            let requests: Vec<usize> =
                stage.clone().flat_map(|index| std::iter::repeat_n(index, writes[index].count())).collect();
            let (mut rest, mut round) = (requests.as_slice(), first_round(writes[next].pace, requests.len()));
            while !rest.is_empty() {
                let (now, later) = rest.split_at(round.min(rest.len()));
                let results = join_all(now.iter().map(|index| self.write(object, &writes[*index]))).await;
                let failed = now.iter().zip(results).find_map(|(index, result)| Some((*index, result.err()?)));
                if let Some((index, error)) = failed {
                    return Err(Failed { write: Some(index), error });
                }
                (rest, round) = (later, round * 2);
            }
            next = stage.end;
        }
        Ok(())
    }

    /// One request of a write, and what is said about it.
    async fn write(&self, object: &ObjectReference, write: &Write) -> Result<(), kube::Error> {
        match self.request(write).await {
            Ok(Outcome::Done(name)) => {
                if let Some((reason, message)) = &write.said.if_done {
                    self.recorder.record(object, "Normal", reason, message.replace("{name}", &name));
                }
                Ok(())
            }
            Ok(Outcome::NotNeeded) => Ok(()),
            // Somebody else wrote in between, which is usual: the next attempt looks again.
            Err(error) if error.is_conflict() || error.is_already_exists() => Err(error),
            Err(error) => {
                if let Some((reason, message)) = &write.said.if_failed {
                    let message = message.replace("{name}", &write.name).replace("{error}", &error.server_message());
                    self.recorder.record(object, "Warning", reason, message);
                }
                Err(error)
            }
        }
    }

    async fn request(&self, write: &Write) -> Result<Outcome, kube::Error> {
        let applying = write.applying();
        if let (What::Apply { shows: true, .. }, Some((path, hash))) = (&write.what, &applying)
            && self.applied().get(path) == Some(hash)
        {
            return Ok(Outcome::NotNeeded);
        }
        let trace = Attempt::current().and_then(|attempt| attempt.trace);
        let request = match trace.and_then(|trace| write.traced(trace)) {
            Some(traced) => traced.request(),
            None => write.request(),
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = self.client.0.request::<Answer>(request).await;
        if let (Some((path, hash)), Ok(_)) = (applying, &answer) {
            let mut applied = self.applied();
            if applied.len() >= MOST_APPLIED {
                applied.clear();
            }
            applied.insert(path, hash);
        }
        match (&write.what, answer) {
            (What::StillThere { uid }, Ok(Answer { metadata }))
                if metadata.uid != *uid || metadata.deletion_timestamp.is_some() =>
            {
                Err(is_going(&write.name))
            }
            (What::Create { .. }, Ok(answer)) => Ok(Outcome::Done(answer.metadata.name)),
            // It shows already: people are told of nothing.
            (What::Apply { shows: true, .. }, Ok(_)) => Ok(Outcome::NotNeeded),
            (_, Ok(_)) => Ok(Outcome::Done(write.name.clone())),
            (what, Err(error)) if is_fine(what, &error) => Ok(Outcome::NotNeeded),
            (_, Err(error)) => Err(error),
        }
    }

    fn applied(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_status(&self, status: &StatusUpdate, failure: Option<&kube::Error>) -> Result<(), kube::Error> {
        let patch = match (failure, &status.if_failed) {
            (None, _) | (Some(_), IfFailed::Write) => status.patch.clone(),
            (Some(_), IfFailed::Skip) => None,
            (Some(error), IfFailed::Instead(instead)) => {
                instead.clone().map(|patch| filled_in(patch, &error.server_message()))
            }
        };
        let Some(patch) = patch else { return Ok(()) };
        let write = Write::at(status.collection.clone(), status.name.clone(), What::Merge { patch }).of("status");
        self.request(&write).await.map(drop)
    }
}

impl Write {
    /// Where an apply goes, and a hash of what is applied.
    fn applying(&self) -> Option<(String, u64)> {
        let What::Apply { object, manager, .. } = &self.what else { return None };
        let path = [self.collection.as_str(), &self.name, self.subresource.unwrap_or_default(), manager].join("/");
        Some((path, pintle_meta::hash::stable(object.to_string().as_bytes())))
    }

    /// The same creation, whose object carries the trace on. Nothing for other writes: an applied object would change with
    /// every reconcile.
    fn traced(&self, trace: TraceParent) -> Option<Write> {
        let What::Create { body, count, if_there } = &self.what else { return None };
        if self.subresource.is_some() {
            return None;
        }
        let mut object: Value = serde_json::from_slice(body).ok()?;
        trace::annotate_value(&mut object, trace);
        let what = What::Create { body: object.to_string().into(), count: *count, if_there: *if_there };
        Some(Write { what, ..self.clone() })
    }

    fn request(&self) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
        let target = Request::new(&self.collection);
        let (post, patching) = (PostParams::default(), PatchParams::default());
        let mut request = match (&self.what, self.subresource) {
            (What::Create { body, .. }, None) => target.create(&post, body.to_vec()),
            (What::Create { body, .. }, Some(sub)) => target.create_subresource(sub, &self.name, &post, body.to_vec()),
            (What::Replace { body }, None) => target.replace(&self.name, &post, body.to_vec()),
            (What::Replace { body }, Some(sub)) => target.replace_subresource(sub, &self.name, &post, body.to_vec()),
            (What::Merge { patch }, sub) => patch_of(&target, sub, &self.name, &patching, &Patch::Merge(patch)),
            (What::Strategic { patch }, sub) => patch_of(&target, sub, &self.name, &patching, &Patch::Strategic(patch)),
            (What::Apply { object, manager, .. }, sub) => {
                patch_of(&target, sub, &self.name, &PatchParams::apply(manager).force(), &Patch::Apply(object))
            }
            (What::Delete { .. }, _) => target.delete(&self.name, &self.deletion()),
            (What::StillThere { .. }, _) => target.get(&self.name, &GetParams::default()),
        }?;
        // The client sends nothing of its own about what it takes.
        request.headers_mut().entry(http::header::ACCEPT).or_insert(http::HeaderValue::from_static("application/json"));
        Ok(request)
    }

    fn deletion(&self) -> DeleteParams {
        let What::Delete { uid, version, cascade, grace_seconds } = &self.what else { return DeleteParams::default() };
        let policy = match cascade {
            None => DeleteParams::default(),
            Some(Cascade::Foreground) => DeleteParams::foreground(),
            Some(Cascade::Background) => DeleteParams::background(),
            Some(Cascade::Orphan) => DeleteParams::orphan(),
        };
        let preconditions = Preconditions { uid: uid.clone(), resource_version: version.clone() };
        DeleteParams { grace_period_seconds: *grace_seconds, ..policy.preconditions(preconditions) }
    }
}

fn patch_of<P: serde::Serialize + std::fmt::Debug>(
    target: &Request,
    subresource: Option<&str>,
    name: &str,
    params: &PatchParams,
    patch: &Patch<P>,
) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
    match subresource {
        Some(subresource) => target.patch_subresource(subresource, name, params, patch),
        None => target.patch(name, params, patch),
    }
}

/// The writes from this one on that go together.
fn stage_at(writes: &[Write], first: usize) -> std::ops::Range<usize> {
    let (pace, collection) = (writes[first].pace, &writes[first].collection);
    let is_alike = |write: &&Write| write.pace == pace && write.collection == *collection;
    let alike = writes[first..].iter().take_while(is_alike).count();
    first..first + if pace == Pace::InOrder { 1 } else { alike }
}

fn first_round(pace: Pace, requests: usize) -> usize {
    if pace == Pace::SlowStart { 1 } else { requests }
}

/// Whether an error says that there is nothing to do any more.
fn is_fine(what: &What, error: &kube::Error) -> bool {
    match what {
        What::Create { if_there, .. } => {
            error.is_namespace_terminating() || (*if_there == IfThere::Fine && error.is_already_exists())
        }
        What::Merge { .. } | What::Strategic { .. } => error.is_not_found() || meets_a_successor(error),
        // By its UID alone: another object has the name, and this one is gone.
        What::Delete { version: None, uid: Some(_), .. } => error.is_not_found() || error.is_conflict(),
        What::Delete { .. } => error.is_not_found(),
        // Of an object that carries its UID: one that is gone is not made again.
        What::Apply { object, .. } if object["metadata"]["uid"].is_string() => {
            error.is_not_found() || error.is_conflict()
        }
        What::Replace { .. } | What::Apply { .. } | What::StillThere { .. } => false,
    }
}

/// A patch whose UID is not the object's.
fn meets_a_successor(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.any(|cause| cause.field == "metadata.uid")
}

fn is_going(name: &str) -> kube::Error {
    let message = format!("{name} is going away");
    kube::Error::Api(Box::new(Status::failure(&message, "Gone").with_code(410)))
}

fn filled_in(value: Value, error: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{error}", error)),
        Value::Array(items) => items.into_iter().map(|item| filled_in(item, error)).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, filled_in(value, error))).collect(),
        other => other,
    }
}
