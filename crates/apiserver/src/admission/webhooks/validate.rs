//! Validating webhooks: all asked at once; the first refusal in their order is the answer.

use super::call::{self, Asker};
use super::configurations::{self, Configurations};
use super::hook::Hook;
use super::matching::{Subject, Surroundings};
use super::metrics::Families;
use super::mutate::settle;
use super::question::Shown;
use super::{in_version, is_exempt, is_whole, kept_version};
use crate::admission::{Plugin, Review};
use crate::catalogue::Resource;
use crate::follow::Follower;
use crate::outbound::Credentials;
use futures::future::{BoxFuture, join_all};
use pintle_meta::Status;
use pintle_store::Store;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::time::Instant;

pub struct Validating {
    configurations: Follower<Configurations>,
    metrics: Families,
    credentials: Arc<Credentials>,
}

impl Validating {
    pub fn new(store: &Arc<dyn Store>, metrics: Families, credentials: &Arc<Credentials>) -> Self {
        let configurations = Follower::new(store.clone(), configurations::VALIDATING);
        Validating { configurations, metrics, credentials: credentials.clone() }
    }

    fn asker(&self) -> Asker<'_> {
        Asker { mutating: false, credentials: &self.credentials }
    }

    async fn ask_all(&self, review: &Review<'_>, object: Option<&Value>) -> Result<(), Status> {
        let configurations = self.configurations.latest();
        let surroundings = Surroundings::default();
        let subject = Subject::new(review, object, &surroundings)?;
        let mut meant: Vec<(&Arc<Hook>, Arc<Resource>)> = Vec::new();
        for hook in configurations.about(&review.resource.name) {
            if let Some(version) = subject.meant(hook, object).await? {
                meant.push((hook, version));
            }
        }
        let asked = meant.iter().map(|(hook, version)| self.ask(&subject, hook, version, object));
        join_all(asked).await.into_iter().collect()
    }

    async fn ask(
        &self,
        subject: &Subject<'_>,
        hook: &Hook,
        version: &Resource,
        object: Option<&Value>,
    ) -> Result<(), Status> {
        let review = subject.review;
        let show = async |value: Option<&'_ Value>| match value {
            Some(value) if is_whole(review, value) => in_version(review, version, value.clone()).await.map(Some),
            other => Ok(other.cloned()),
        };
        // As it is, in most cases.
        let (object, old) = match version.api_version() == kept_version(review) {
            true => (object.map(Cow::Borrowed), review.old.map(Cow::Borrowed)),
            false => (show(object).await?.map(Cow::Owned), show(review.old).await?.map(Cow::Owned)),
        };
        let shown = Shown { object: object.as_deref(), old: old.as_deref(), resource: version };
        let began = Instant::now();
        let asked = call::ask(subject, hook, &shown, self.asker()).await.map(|_| ());
        settle(&self.metrics, (hook, "validating", review.operation.as_str()), asked, began)
    }
}

impl Plugin for Validating {
    fn follow(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async {
            self.configurations.current().await;
        }))
    }

    fn concerns(&self, review: &Review<'_>) -> bool {
        !is_exempt(review.resource) && self.configurations.latest().about(&review.resource.name).next().is_some()
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.ask_all(review, object))
    }
}
