//! One call of a webhook, and what is said when it fails.

use super::answer::{self, Answer, Odd, refusal};
use super::hook::Hook;
use super::matching::Subject;
use super::question::{self, Shown};
use crate::outbound::{Credentials, Unanswered};
use pintle_meta::Status;

/// Why a webhook did not let a request pass.
#[derive(Debug)]
pub(super) enum Failed {
    /// It could not be asked, or its answer does not count: whether that is a refusal is its failure policy's say.
    Call(String),
    /// It refused.
    Rejected(Status),
    /// The server refuses, whatever the failure policy says.
    Refused(Status),
}

/// Which plugin asks.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    /// It takes patches.
    pub(super) mutating: bool,
    pub(super) credentials: &'a Credentials,
}

/// Asks a webhook. Its warnings and annotations are noted; a refusal is an error.
pub(super) async fn ask(
    subject: &Subject<'_>,
    hook: &Hook,
    shown: &Shown<'_>,
    asker: Asker<'_>,
) -> Result<Answer, Failed> {
    if question::is_dry_run(subject) && !hook.may_dry_run {
        let message = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failed::Refused(Status::bad_request(message)));
    }
    let failed = |why: String| Failed::Call(format!("failed calling webhook {:?}: {why}", hook.name));
    let Some(version) = hook.version else {
        let why =
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(failed(why.to_owned()));
    };
    let registry = subject.review.registry;
    let uid = registry.random.uid();
    let body = question::body(subject, hook, version, &uid, shown);
    let query = format!("?timeout={}s", hook.timeout.as_secs());
    let call_failed = |why: String| failed(format!("failed to call webhook: {why}"));
    let answered = hook.client.post(registry, asker.credentials, &query, body, hook.timeout).await;
    let body = answered.map_err(|unanswered| match unanswered {
        Unanswered::Configuration(_) => failed(unanswered.to_string()),
        Unanswered::Call(why) => call_failed(why),
    })?;
    let answer = answer::read(&body, version, &uid, asker.mutating).map_err(|odd| match odd {
        Odd::Unreadable(why) => call_failed(why),
        Odd::Invalid(why) => failed(format!("received invalid webhook response: {why}")),
    })?;
    let notes = subject.review.notes;
    for (key, value) in &answer.annotations {
        notes.annotate(format!("{}/{key}", hook.name), value);
    }
    notes.warn_all(answer.warnings.iter().cloned());
    match answer.allowed {
        true => Ok(answer),
        false => Err(Failed::Rejected(refusal(&hook.name, answer.result.as_ref()))),
    }
}
