//! One worker: takes a key, calls the reconciler, and decides when the key is looked at again.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use pintle_meta::Random;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use super::expectations::{Expectations, Shown};
use super::failure::{Decide, OnError};
use super::pace::Pace;
use super::{Action, Reconciling, Waker};
use crate::attempt::Attempt;
use crate::cause::Cause;
use crate::context::Context;
use crate::error::{ApiError, Error};
use crate::key::Key;
use crate::owner::GroupKind;
use crate::serve::Outcome;
use crate::trace::{ReconcileId, Span};

/// So many conflicts in a row are nothing to tell people about.
const EVERYDAY: u32 = 3;

#[derive(Clone)]
pub(super) struct Worker {
    pub(super) name: Arc<str>,
    /// Group and kind of what the keys name; empty if the loop has not said it.
    pub(super) subject: Arc<GroupKind>,
    pub(super) context: Arc<Context>,
    pub(super) waker: Waker,
    pub(super) expectations: Arc<Expectations>,
    pub(super) pace: Arc<Pace>,
    pub(super) reconciler: Arc<dyn Reconciling>,
    /// After which time the next key is begun beside one that is not done yet.
    pub(super) overtaken_after: Option<Duration>,
    /// How long a reconcile may take.
    pub(super) timeout: Option<Duration>,
    pub(super) on_error: Decide,
    pub(super) overtaken: Arc<Mutex<JoinSet<()>>>,
    /// Where the identities of reconciles come from: apart, so that logs and traces change nothing else that is random.
    pub(super) identities: Random,
}

impl Worker {
    /// The keys that others were begun beside.
    pub(super) fn overtaken(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.overtaken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    pub(super) async fn work(self) {
        while let Some(key) = self.waker.queue().get().await {
            match self.overtaken_after {
                None => self.whole(&key).await,
                Some(time) => {
                    let worker = self.clone();
                    let mut work = Box::pin(async move { worker.whole(&key).await });
                    if tokio::time::timeout(time, &mut work).await.is_err() {
                        let mut overtaken = self.overtaken();
                        // Those that have ended meanwhile are forgotten.
                        while overtaken.try_join_next().is_some() {}
                        overtaken.spawn(work);
                    }
                }
            }
        }
    }

    async fn whole(&self, key: &Key) {
        self.reconcile(key).await;
        self.waker.queue().done(key);
    }

    async fn reconcile(&self, key: &Key) {
        let shown = self.expectations.shown(key);
        let queue = self.waker.queue();
        let failures = queue.failures(key);
        let mut causes = self.waker.take(key);
        if let Shown::NotYet(again) = shown {
            return self.waker.put_back(key.clone(), &causes, again);
        }
        if let Some(again) = self.expectations.lost() {
            return self.waker.put_back(key.clone(), &causes, again);
        }
        if let Err(wait) = self.pace.take(key) {
            tracing::debug!(controller = %self.name, %key, ?wait, "this key never rests; it has to wait");
            return self.waker.put_back(key.clone(), &causes, wait);
        }
        if causes.is_empty() {
            causes.add(Cause::timer(self.subject.clone(), key));
        }
        let id = ReconcileId(self.identities.next(), self.identities.next());
        let (parent, exporter) = (causes.trace(), self.context.spans());
        let trace = (parent.is_some() || exporter.is_some()).then(|| id.span(parent));
        let context = (self.context.clone(), trace);
        let attempt = Attempt::traced(self.name.clone(), key.clone(), failures + 1, causes, context);
        let span = self.span(&attempt, id);
        let began = self.context.clock.now();
        if shown == Shown::Never {
            span.in_scope(|| tracing::warn!("the caches do not show what this loop wrote; going on without"));
        }
        let started = Instant::now();
        let working = self.context.metrics.working(&self.name);
        let result = self.attempt(&attempt).instrument(span.clone()).await;
        drop(working);
        self.expectations.note(key, attempt.written());
        self.context.metrics.reconciled(&self.name, outcome_of(&result), started.elapsed());
        // One that found nothing to do, and that nobody traces, is not worth a trace.
        let is_worth_it = parent.is_some() || result.is_err() || !attempt.written().is_empty();
        if let Some((exporter, trace)) = exporter.zip(trace).filter(|_| is_worth_it) {
            exporter.ended(Span {
                controller: self.name.clone(),
                key: key.clone(),
                attempt: attempt.number,
                trace,
                parent,
                started: began,
                ended: self.context.clock.now(),
                error: result.as_ref().err().map(Error::to_string),
            });
        }
        match result {
            Ok(action) => {
                span.in_scope(|| tracing::debug!(written = ?attempt.written(), again = ?action.delay(), "reconciled"));
                queue.forget(key);
                self.waker.record().succeeded(key);
                if let Some(delay) = action.delay() {
                    self.waker.add_after(key.clone(), delay);
                }
            }
            Err(error) => {
                let decided = self.decide(&error, &attempt);
                let over = (self.context.clock.now(), decided == OnError::Leave);
                self.waker.record().failed(key, failures + 1, &error.to_string(), over);
                match decided {
                    OnError::Leave => {
                        span.in_scope(
                            || tracing::error!(%error, "reconcile failed for good; left until something changes"),
                        );
                        queue.forget(key);
                    }
                    OnError::After(time) => {
                        span.in_scope(|| tell(&error, failures + 1));
                        self.waker.put_back(key.clone(), &attempt.causes, time);
                    }
                    OnError::Backoff => {
                        span.in_scope(|| tell(&error, failures + 1));
                        self.waker.retry(key.clone(), &attempt.causes);
                    }
                }
            }
        }
    }

    /// Of a conflict nothing is to be learned but that the cache was behind.
    fn decide(&self, error: &Error, attempt: &Attempt) -> OnError {
        match error {
            Error::Stale => OnError::Backoff,
            Error::Api(refused) if refused.is_conflict() => OnError::Backoff,
            _ => (self.on_error)(error, attempt),
        }
    }

    /// What every line that is logged inside the reconcile carries, at any level, under controller-runtime's names. The causes
    /// are put into words only if somebody reads more than warnings.
    fn span(&self, attempt: &Attempt, id: ReconcileId) -> tracing::Span {
        let span = tracing::error_span!(
            "reconcile",
            controller = %self.name,
            controllerGroup = %self.subject.group,
            controllerKind = %self.subject.kind,
            namespace = %attempt.key.namespace(),
            name = %attempt.key.name(),
            reconcileID = %id,
            attempt = attempt.number,
            because = tracing::field::Empty,
        );
        if tracing::enabled!(tracing::Level::INFO) {
            span.record("because", tracing::field::display(&attempt.causes));
        }
        span
    }

    async fn attempt(&self, attempt: &Arc<Attempt>) -> Result<Action, Error> {
        let reconciling = attempt.scope(async { self.reconciler.reconciling(attempt).await });
        let reconciling = async {
            match self.timeout {
                Some(limit) => tokio::time::timeout(limit, reconciling).await.unwrap_or(Err(Error::TimedOut(limit))),
                None => reconciling.await,
            }
        };
        AssertUnwindSafe(reconciling)
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(Error::Panicked(message_of(panic.as_ref()))))
    }
}

fn outcome_of(result: &Result<Action, Error>) -> Outcome {
    match result {
        Ok(action) if action.delay().is_some() => Outcome::RequeueAfter,
        Ok(_) => Outcome::Success,
        Err(Error::Panicked(_)) => Outcome::Panic,
        Err(Error::Terminal(_)) => Outcome::Terminal,
        Err(_) => Outcome::Error,
    }
}

fn tell(error: &Error, failures: u32) {
    match error {
        // Someone wrote first, or the cache is behind: cured by looking again.
        Error::Api(refused) if failures <= EVERYDAY && (refused.is_conflict() || refused.is_not_found()) => {
            tracing::debug!(%error, failures, "the cache was behind");
        }
        Error::Stale => tracing::debug!(failures, "the cache was behind"),
        _ => tracing::warn!(%error, failures, "reconcile failed; trying again"),
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
