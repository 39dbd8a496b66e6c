//! One leader per loop: several processes compete for a Lease, and only its holder acts.
//!
//! - A Lease changes hands by compare-and-set, so that of many who reach for it one gets it.
//! - A holder is taken for dead when its record has not changed for the lease's duration on the observer's own timer.
//!   Times in the record are for people; nobody compares them with a clock.
//! - A holder counts from the moment it *sent* its last renewal that was answered. It tells its run to stop at the renew
//!   deadline and drops what still runs half-way between that and the lease's duration: before anyone else may begin.
//! - A holder that stops on purpose gives the Lease back, and another has it at its next look.
//! - A Lease found in other hands, or gone, ends the run at once.
//!
//! With the defaults, for a leader that is cut off right after a renewal sent at 0 s:
//!
//! ```text
//! 0 s      10 s             12.5 s              15 s
//! renewal  told to stop     dropped if it runs  another may lead
//! ```
//!
//! What a timer cannot promise: a request that was already sent may arrive late, and a process that the system suspends
//! runs on for a moment when it wakes. Where that matters, let the write itself tell: [`Leadership::term`] and
//! [`Leadership::version`] grow from each leadership to the next, so that a write which carries one can be refused when a
//! greater one was seen.

mod lease;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use pintle_meta::Random;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::context::Context;
use crate::shutdown::Shutdown;
use lease::{Elector, Renewal};

/// How long a stop waits for a request that is under way.
const FAREWELL: Duration = Duration::from_secs(1);

/// Who competes for what, and how patiently.
#[derive(Clone, Debug)]
pub struct LeaderConfig {
    pub namespace: String,
    /// The Lease's name: the same for all who compete.
    pub name: String,
    /// Who competes; no two may have the same, nor one process and the one that follows it.
    pub identity: String,
    /// How long a Lease that is not renewed is left to its holder; whole seconds.
    pub lease_duration: Duration,
    /// Without a renewal for this long the holder lets go; shorter than the lease's duration.
    pub renew_deadline: Duration,
    /// The pause between two looks, and up to half of it more.
    pub retry: Duration,
}

impl LeaderConfig {
    /// The same for this process, whatever else runs on this machine: its host's name and a random part.
    pub fn of_this_process(name: impl Into<String>, random: &Random) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        LeaderConfig::new(name, format!("{}_{}", host.trim(), random.uid()))
    }

    /// Kubernetes' own figures: 15 s, 10 s and 2 s, in `kube-system`.
    pub fn new(name: impl Into<String>, identity: impl Into<String>) -> Self {
        LeaderConfig {
            namespace: "kube-system".to_owned(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// How long after the last renewal was sent nothing of a run is left.
    fn dropped_after(&self) -> Duration {
        self.renew_deadline + self.lease_duration.saturating_sub(self.renew_deadline) / 2
    }
}

/// What a run is given: when to stop, and the numbers that tell its leadership from every other.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// Fires when the leadership is lost, and when the context's shutdown does.
    pub shutdown: Shutdown,
    /// The Lease's `leaseTransitions`: one more than in the leadership before, as long as nobody deletes the Lease.
    pub term: i32,
    /// The Lease's `resourceVersion` at the start: newer than all that earlier leaders had, even if the Lease was deleted.
    pub version: String,
    /// `NAMESPACE/LEASE:TERM`, which writes carry: see [`Context::led`].
    pub(crate) fence: String,
}

/// Competes for the Lease and calls `run` each time it is won, until the context's shutdown fires.
///
/// A run that ends on its own gives the Lease back; it is competed for again after a pause. The run is polled by the task
/// that calls this, and is dropped when its time is up: what it spawned must end with it.
pub async fn lead<F, Fut>(context: &Context, config: LeaderConfig, mut run: F)
where
    F: FnMut(Leadership) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut elector = Elector::new(context, config);
    while let Some((leadership, since)) = compete(context, &mut elector).await {
        let loop_name = elector.config.name.clone();
        tracing::info!(%loop_name, identity = %elector.config.identity, term = leadership.term, "leading");
        let (trigger, shutdown) = context.shutdown.child();
        let leadership = Leadership { shutdown, ..leadership };
        // Boxed, so that it can be dropped before the Lease is given back. A panic is caught, as one in a reconcile is.
        let mut running = Box::pin(AssertUnwindSafe(async { run(leadership).await }).catch_unwind());
        let lost = tokio::select! {
            biased;
            // It goes on after the shutdown: a run that winds down is still the only one.
            deadline = keep(&mut elector, since, &context.random) => Some(deadline),
            ended = &mut running => {
                if ended.is_err() {
                    tracing::error!(%loop_name, "the run panicked; the Lease is given back");
                }
                None
            }
        };
        match lost {
            Some(deadline) => {
                tracing::warn!(%loop_name, "leadership lost; stopping");
                trigger.fire();
                // Without an end by then it is dropped, which ends it as a crash would.
                let _ = timeout_at(deadline, running).await;
            }
            None => {
                drop(running);
                let _ = timeout(FAREWELL, elector.release()).await;
            }
        }
        if !pause(context, elector.config.retry).await {
            return;
        }
    }
}

/// What the server says, without the whole of its Status.
fn in_short(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns with the Lease and the moment from which it counts; nothing when it is time to stop.
async fn compete(context: &Context, elector: &mut Elector) -> Option<(Leadership, Instant)> {
    let mut away = false;
    loop {
        if context.shutdown.has_fired() {
            return None;
        }
        let since = Instant::now();
        let farewell = async {
            context.shutdown.fired().await;
            // A request that is cut off may still win a Lease which nobody then uses.
            sleep(FAREWELL).await;
        };
        let patience = elector.config.renew_deadline;
        let won = tokio::select! {
            biased;
            won = timeout(patience, elector.acquire()) => won,
            () = farewell => return None,
        };
        match won {
            // An answer that took too long stands for a Lease that may have passed to another since.
            Ok(Ok(Some((term, version)))) if since.elapsed() < patience => {
                let fence = format!("{}/{}:{term}", elector.config.namespace, elector.config.name);
                let leadership = Leadership { shutdown: context.shutdown.clone(), term, version, fence };
                return Some((leadership, since));
            }
            Ok(Err(error)) => {
                // Once for each time that it goes away: it is tried again and again.
                if !std::mem::replace(&mut away, true) {
                    let error = in_short(&error);
                    tracing::warn!(name = %elector.config.name, error, "cannot reach the Lease");
                }
            }
            Ok(Ok(_)) => away = false,
            Err(_) => {}
        }
        if !pause(context, elector.config.retry).await {
            return None;
        }
    }
}

/// Renews until that fails for good; returns the moment by which the run must have ended.
async fn keep(elector: &mut Elector, mut since: Instant, random: &Random) -> Instant {
    let mut next = Instant::now() + jittered(elector.config.retry, random);
    loop {
        let deadline = since + elector.config.renew_deadline;
        sleep_until(next.min(deadline)).await;
        let sent = Instant::now();
        next = sent + jittered(elector.config.retry, random);
        // Half of the deadline for one attempt: a request that is lost leaves time for another.
        let patience = deadline.min(sent + elector.config.renew_deadline / 2);
        match timeout_at(patience, elector.renew()).await {
            // Compared once more: a task that did not run for long finds answer and deadline both there.
            Ok(Ok(Renewal::Held)) if Instant::now() < deadline => since = sent,
            Ok(Ok(Renewal::Lost)) => return Instant::now(),
            Ok(Err(error)) => tracing::warn!(name = %elector.config.name, %error, "cannot renew the Lease"),
            _ => {}
        }
        if Instant::now() >= since + elector.config.renew_deadline {
            return since + elector.config.dropped_after();
        }
    }
}

/// Waits for the next look; false if it is time to stop.
async fn pause(context: &Context, retry: Duration) -> bool {
    tokio::select! {
        biased;
        () = context.shutdown.fired() => false,
        () = sleep(jittered(retry, &context.random)) => true,
    }
}

/// Up to half as long again, so that those who compete do not all look at once.
fn jittered(retry: Duration, random: &Random) -> Duration {
    let half = u64::try_from(retry.as_millis() / 2).unwrap_or(u64::MAX);
    retry + Duration::from_millis(random.below(half.saturating_add(1)))
}
