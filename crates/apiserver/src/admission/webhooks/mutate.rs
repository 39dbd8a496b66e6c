//! Mutating webhooks: asked one after the other, each shown what the ones before made of the object.

use super::answer::Answer;
use super::call::{self, Asker, Failed};
use super::configurations::{self, Configurations};
use super::hook::Hook;
use super::matching::{Subject, Surroundings};
use super::metrics::{Families, Outcome, What};
use super::question::Shown;
use super::{as_kept, in_version, is_exempt, is_whole};
use crate::admission::{Plugin, Review};
use crate::catalogue::Resource;
use crate::follow::Follower;
use crate::incoming;
use crate::outbound::Credentials;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use pintle_schema::json_patch;
use pintle_store::Store;
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

pub struct Mutating {
    configurations: Follower<Configurations>,
    metrics: Families,
    credentials: Arc<Credentials>,
}

impl Mutating {
    pub fn new(store: &Arc<dyn Store>, metrics: Families, credentials: &Arc<Credentials>) -> Self {
        let configurations = Follower::new(store.clone(), configurations::MUTATING);
        Mutating { configurations, metrics, credentials: credentials.clone() }
    }

    fn asker(&self) -> Asker<'_> {
        Asker { mutating: true, credentials: &self.credentials }
    }

    async fn ask_all(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Status> {
        let round = review.round;
        if let Some(round) = round {
            round.enter(object);
        }
        let (configurations, surroundings) = (self.configurations.latest(), Surroundings::default());
        for hook in configurations.about(&review.resource.name) {
            if round.is_some_and(|round| !round.asks(&hook.id)) {
                continue;
            }
            let version = Subject::new(review, Some(object), &surroundings)?.meant(hook, Some(object)).await?;
            let Some(version) = version else { continue };
            let changed = self.ask((review, &surroundings), hook, &version, object).await?;
            if let Some(round) = round {
                round.asked(&hook.id, hook.is_asked_again, changed);
            }
        }
        if let Some(round) = round {
            round.leave(object);
        }
        Ok(())
    }

    /// Asks one; answers whether it changed the object.
    async fn ask(
        &self,
        (review, surroundings): (&Review<'_>, &Surroundings),
        hook: &Hook,
        version: &Resource,
        object: &mut Value,
    ) -> Result<bool, Status> {
        let whole = is_whole(review, object);
        let show = async |value: Value| match whole {
            true => in_version(review, version, value).await,
            false => Ok(value),
        };
        let mut shown = show(object.clone()).await?;
        if whole && review.old.is_none() {
            pintle_schema::decode::complete(version.schema(), &mut shown);
            if review.is_generated {
                object::remove(&mut shown, &["metadata", "name"]);
            }
        }
        let old = match review.old {
            Some(old) => Some(show(old.clone()).await?),
            None => None,
        };
        let asked = {
            let subject = Subject::new(review, Some(&shown), surroundings)?;
            let shown = Shown { object: Some(&shown), old: old.as_ref(), resource: version };
            let began = Instant::now();
            let asked =
                call::ask(&subject, hook, &shown, self.asker()).await.and_then(|answer| operations(hook, &answer));
            settle(&self.metrics, (hook, "admit", review.operation.as_str()), asked, began)?
        };
        let Some(operations) = asked else { return Ok(false) };
        let name = object::name(object).to_owned();
        let patched = json_patch::apply(&shown, &operations).map_err(|error| Status::internal(error.message))?;
        if patched == shown {
            return Ok(false);
        }
        let mut patched = match whole {
            true => incoming::recode(version, patched).map_err(Status::internal)?,
            false => patched,
        };
        if whole {
            patched = as_kept(review, version, patched).await?;
            if review.is_generated && object::name(&patched).is_empty() {
                object::set(&mut patched, &["metadata", "name"], name);
            }
        }
        let changed = patched != *object;
        *object = patched;
        Ok(changed)
    }

    async fn ask_about_deletion(&self, review: &Review<'_>) -> Result<(), Status> {
        let Some(old) = review.old else { return Ok(()) };
        let surroundings = Surroundings::default();
        for hook in self.configurations.latest().about(&review.resource.name) {
            let subject = Subject::new(review, None, &surroundings)?;
            let Some(version) = subject.meant(hook, None).await? else { continue };
            let old = in_version(review, &version, old.clone()).await?;
            let shown = Shown { object: None, old: Some(&old), resource: &version };
            let began = Instant::now();
            let asked =
                call::ask(&subject, hook, &shown, self.asker()).await.and_then(|answer| operations(hook, &answer));
            if settle(&self.metrics, (hook, "admit", review.operation.as_str()), asked, began)?.is_some() {
                let why = "attempted to modify the object, which is not supported for this operation";
                return Err(Status::internal(format!("admission webhook {:?} {why}", hook.name)));
            }
        }
        Ok(())
    }
}

/// The operations of an answer's patch, if there are any.
fn operations(hook: &Hook, answer: &Answer) -> Result<Option<Value>, Failed> {
    if answer.patch.is_empty() {
        return Ok(None);
    }
    let failed = |why: &dyn std::fmt::Display| {
        Failed::Call(format!(
            "failed calling webhook {:?}: received undecodable patch in webhook response: {why}",
            hook.name
        ))
    };
    let operations = json_patch::read(&answer.patch).map_err(|why| failed(&why))?;
    Ok(Some(operations).filter(|operations| operations.as_array().is_some_and(|all| !all.is_empty())))
}

/// What a call comes to, by the failure policy of the webhook: nothing where a failure is ignored.
pub(super) fn settle<T: Default>(
    metrics: &Families,
    (hook, kind, operation): (&Hook, &'static str, &'static str),
    asked: Result<T, Failed>,
    began: Instant,
) -> Result<T, Status> {
    let what = What { hook: &hook.name, kind, operation };
    let (outcome, result) = match asked {
        Ok(answer) => (Outcome::Passed, Ok(answer)),
        Err(Failed::Call(why)) if hook.fails_open => {
            tracing::warn!(webhook = %hook.name, why, "a webhook could not be asked; its failurePolicy is Ignore");
            (Outcome::FailedOpen, Ok(T::default()))
        }
        Err(Failed::Call(why)) => {
            tracing::warn!(webhook = %hook.name, why, "a webhook could not be asked; its failurePolicy is Fail");
            (Outcome::Rejected("calling_webhook_error", 500), Err(Status::internal(why)))
        }
        Err(Failed::Rejected(status)) => (Outcome::Rejected("no_error", status.code), Err(status)),
        Err(Failed::Refused(status)) => (Outcome::Rejected("apiserver_internal_error", 0), Err(status)),
    };
    metrics.note(&what, &outcome, began.elapsed());
    result
}

impl Plugin for Mutating {
    fn follow(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async {
            self.configurations.current().await;
        }))
    }

    fn concerns(&self, review: &Review<'_>) -> bool {
        !is_exempt(review.resource) && self.configurations.latest().about(&review.resource.name).next().is_some()
    }

    fn changes(&self, review: &Review<'_>) -> bool {
        let surroundings = Surroundings::default();
        let Ok(subject) = Subject::new(review, None, &surroundings) else { return false };
        self.configurations.latest().about(&review.resource.name).any(|hook| subject.version_for(hook).is_some())
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.ask_all(review, object))
    }

    fn mutate_deletion<'a>(&'a self, review: &'a Review<'a>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.ask_about_deletion(review))
    }
}
