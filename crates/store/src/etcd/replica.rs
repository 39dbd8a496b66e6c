//! What is in etcd, held here: read once, then kept up to date by one watch.
//!
//! There is one watch, not one for each resource: it keeps the order between resources and brings a
//! transaction over several of them whole. It does not ask for the versions before a change either:
//! they are here.
//!
//! - Whole revisions are published, in order. Readers see nothing of a transaction, or all of it.
//! - A watch that breaks is taken up at any member, at the revision after the last that came.
//! - If etcd has compacted that revision, all is read again and watchers from before are cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

use super::channel::{Cluster, DEADLINE, PUT, RANGE, Repeat, STATUS};
use super::error::Failure;
use super::keys::Keys;
use super::list;
use super::messages::{
    PutRequest, PutResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, WatchCreateRequest,
    WatchEvent, WatchEventKind, WatchProgressRequest, WatchRequest, WatchResponse, revision, watch_request,
};
use super::value::decode;
use crate::state::State;
use crate::watch::{Event, EventKind};
use crate::{Range, Revision};

/// Between attempts to connect; doubled after each failure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Events are on their way for about this long; then etcd is asked whether there are any.
const GRACE: Duration = Duration::from_millis(50);

/// A watch that is taken up again within this time is nobody's concern.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) state: Arc<State>,
    pub(super) keys: Keys,
    pub(super) cluster: Arc<Cluster>,
    /// The published revision, for those who wait for it.
    reached: watch::Sender<Revision>,
    /// The newest revision that somebody waits for.
    wanted: AtomicU64,
    /// Somebody has waited for `GRACE`.
    overdue: Notify,
    link: watch::Sender<Link>,
}

/// Whether the watch is there.
#[derive(Debug)]
enum Link {
    Up,
    Down { since: Instant, reason: String },
}

/// Why a watch has ended.
enum Ended {
    Lost(Failure),
    Compacted,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

/// How a watch is proved to have come as far as etcd when no event says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// etcd says so when it is asked.
    Progress,
    /// An older etcd may say so before it has sent all events, so a key of ours is written and its
    /// event waited for.
    Marker,
}

impl Replica {
    pub(super) fn new(state: Arc<State>, keys: Keys, cluster: Arc<Cluster>) -> Self {
        let reached = watch::Sender::new(state.revision());
        let link = Link::Down { since: Instant::now(), reason: "the watch was not opened yet".to_owned() };
        let (wanted, overdue, link) = (AtomicU64::new(0), Notify::new(), watch::Sender::new(link));
        Self { state, keys, cluster, reached, wanted, overdue, link }
    }

    /// Waits until a revision of etcd is published here; false if it is not in time.
    pub(super) async fn catch_up(&self, revision: Revision, patience: Duration) -> bool {
        let mut reached = self.reached.subscribe();
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left.min(GRACE), reached.wait_for(|reached| *reached >= revision)).await {
                Ok(arrived) => return arrived.is_ok(),
                Err(_) if left <= GRACE => return false,
                Err(_) => {
                    self.wanted.fetch_max(revision, Ordering::Relaxed);
                    self.overdue.notify_one();
                }
            }
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(*self.link.borrow(), Link::Up)
    }

    /// Waits until the watch is there; false if it is not in time.
    pub(super) async fn connected(&self, patience: Duration) -> bool {
        let mut link = self.link.subscribe();
        timeout(patience, link.wait_for(|link| matches!(link, Link::Up))).await.is_ok()
    }

    pub(super) fn health(&self) -> Result<(), String> {
        match &*self.link.borrow() {
            Link::Down { since, reason } if since.elapsed() > UNHEALTHY_AFTER => {
                Err(format!("no watch over etcd for {} s: {reason}", since.elapsed().as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Follows etcd for as long as the store is there.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut pause = SHORTEST_PAUSE;
        let mut member = self.cluster.preferred();
        loop {
            match self.follow_member(member).await {
                Ended::Compacted => match list::all(&self.cluster, &self.keys).await {
                    Ok(snapshot) => {
                        tracing::warn!(revision = snapshot.revision(), "etcd was compacted; all was read again");
                        let revision = snapshot.revision();
                        self.state.replace(snapshot);
                        self.reached.send_replace(revision);
                        continue;
                    }
                    Err(failure) => self.down(failure.reason()),
                },
                Ended::Lost(failure) => {
                    if self.down(failure.reason()) {
                        pause = SHORTEST_PAUSE;
                    }
                    self.cluster.avoid(member);
                    member = (member + 1) % self.cluster.len();
                    false
                }
            };
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Follows one member until that ends.
    async fn follow_member(&self, member: usize) -> Ended {
        match self.open(member).await {
            Ok((proof, requests, stream)) => {
                self.link.send_replace(Link::Up);
                self.receive(member, proof, &requests, stream).await
            }
            Err(ended) => ended,
        }
    }

    async fn open(
        &self,
        member: usize,
    ) -> Result<(Proof, mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), Ended> {
        let status: StatusResponse =
            self.cluster.call_member(member, STATUS, &StatusRequest::default(), DEADLINE).await?;
        let last = self.state.revision();
        let now = self.revision_of(member).await?;
        if now < last {
            let message = format!(
                "it is at revision {now}, but {last} was seen before: was it restored from an older copy? \
                 Restart every server of this cluster"
            );
            return Err(self.cluster.lost(member, message).into());
        }
        let (key, range_end) = self.keys.bounds(&Range::prefix(""));
        let start_revision = i64::try_from(last + 1).unwrap_or(i64::MAX);
        let create = WatchCreateRequest { key, range_end, start_revision, progress_notify: true, fragment: true };
        let (requests, queue) = mpsc::channel(1);
        let first = WatchRequest { kind: Some(watch_request::Kind::Create(create)) };
        // There is room for it, and the other end is here.
        let _ = requests.try_send(first);
        let mut stream = self.cluster.watch(member, queue).await?;
        match timeout(DEADLINE, stream.message()).await {
            Ok(Ok(Some(response))) if response.created && !response.canceled => {
                Ok((proof(&status.version), requests, stream))
            }
            Ok(Ok(Some(response))) => Err(self.canceled(member, &response)),
            Ok(Ok(None)) => Err(self.cluster.lost(member, "the watch ended at once").into()),
            Ok(Err(status)) => Err(self.cluster.failure(member, &status).into()),
            Err(_) => Err(self.cluster.lost(member, "the watch was not opened in time").into()),
        }
    }

    async fn receive(
        &self,
        member: usize,
        proof: Proof,
        requests: &mpsc::Sender<WatchRequest>,
        mut stream: Streaming<WatchResponse>,
    ) -> Ended {
        let mut pending = Vec::new();
        loop {
            let message = tokio::select! {
                biased;
                message = stream.message() => message,
                () = self.overdue.notified() => {
                    self.prove(proof, requests).await;
                    continue;
                }
            };
            match message {
                Ok(Some(response)) if response.canceled => return self.canceled(member, &response),
                Ok(Some(mut response)) => {
                    pending.append(&mut response.events);
                    // Fragments of one response may cut a transaction; the last of them is not marked.
                    if !response.fragment {
                        self.publish(std::mem::take(&mut pending), revision(response.header.as_ref()));
                    }
                }
                Ok(None) => return self.cluster.lost(member, "the watch ended").into(),
                Err(status) => return self.cluster.failure(member, &status).into(),
            }
        }
    }

    /// Shows what a response of etcd brought. One without events says how far etcd has come.
    fn publish(&self, events: Vec<WatchEvent>, progress: Revision) {
        let mut stage = self.state.stage();
        let before = stage.revision();
        if events.is_empty() {
            stage.advance(progress);
        }
        for event in events {
            let Some(stored) = event.kv else { continue };
            let revision = stored.mod_revision.unsigned_abs();
            if revision <= before {
                continue;
            }
            let Some(name) = self.keys.name(&stored.key) else {
                stage.advance(revision);
                continue;
            };
            let previous = stage.get(name).cloned();
            let key = previous.as_ref().map_or_else(|| Arc::from(name), |previous| Arc::clone(&previous.key));
            let (kind, entry) = match (event.kind == WatchEventKind::Delete as i32, &previous) {
                (false, _) => (EventKind::Put, decode(key, &stored)),
                (true, Some(previous)) => (EventKind::Delete, previous.deleted(revision)),
                (true, None) => {
                    stage.advance(revision);
                    continue;
                }
            };
            stage.record(Event { kind, entry: Arc::new(entry), previous, revision });
        }
        let revision = stage.revision();
        let published = self.state.publish(stage);
        // Writers wait for their own revision here, and go on before watchers do.
        self.reached.send_if_modified(|reached| revision > std::mem::replace(reached, revision));
        drop(published);
    }

    /// Makes etcd say how far the watch has come, if somebody still waits for that.
    async fn prove(&self, proof: Proof, requests: &mpsc::Sender<WatchRequest>) {
        // Where every key is ours each revision has an event, and it is only late.
        if self.keys.are_all() || self.wanted.load(Ordering::Relaxed) <= self.state.revision() {
            return;
        }
        match proof {
            Proof::Progress => {
                let request = watch_request::Kind::Progress(WatchProgressRequest::default());
                // If there is no room, one is on its way.
                let _ = requests.try_send(WatchRequest { kind: Some(request) });
            }
            Proof::Marker => {
                let request = PutRequest { key: self.keys.marker(), ..PutRequest::default() };
                let put: Result<PutResponse, Failure> = self.cluster.call(PUT, &request, Repeat::Always).await;
                match put {
                    Ok(answer) => tracing::trace!(revision = revision(answer.header.as_ref()), "marker"),
                    Err(failure) => tracing::debug!(reason = failure.reason(), "no marker could be written"),
                }
            }
        }
    }

    /// The revision of the whole cluster, by one member.
    async fn revision_of(&self, member: usize) -> Result<Revision, Failure> {
        let answer: RangeResponse =
            self.cluster.call_member(member, RANGE, &revision_request(&self.keys), DEADLINE).await?;
        Ok(revision(answer.header.as_ref()))
    }

    fn canceled(&self, member: usize, response: &WatchResponse) -> Ended {
        if response.compact_revision > 0 {
            return Ended::Compacted;
        }
        self.cluster.lost(member, format!("the watch was cancelled: {}", response.cancel_reason)).into()
    }

    /// Notes that there is no watch; true if there was one until now.
    fn down(&self, reason: String) -> bool {
        let mut was_up = false;
        self.link.send_modify(|link| match link {
            Link::Down { reason: last, .. } => *last = reason,
            Link::Up => {
                tracing::warn!(reason, "the watch over etcd was lost; taking it up again");
                *link = Link::Down { since: Instant::now(), reason };
                was_up = true;
            }
        });
        was_up
    }
}

/// Asks for nothing but etcd's revision: it is linearizable, so no commit that was answered is missed.
pub(super) fn revision_request(keys: &Keys) -> RangeRequest {
    RangeRequest { key: keys.marker(), limit: 1, count_only: true, ..RangeRequest::default() }
}

/// Before 3.4.25 and 3.5.8, an answer about progress could overtake events (etcd's issue 15220).
fn proof(version: &str) -> Proof {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let version = [next(), next(), next()];
    let first_fixed = match version {
        [3, 4, _] => [3, 4, 25],
        _ => [3, 5, 8],
    };
    if version >= first_fixed { Proof::Progress } else { Proof::Marker }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_believed_only_from_versions_that_tell_the_truth() {
        for version in ["3.4.25", "3.4.30", "3.5.8", "3.5.21", "3.6.0", "3.6.0-rc.1", "4.0.0"] {
            assert_eq!(proof(version), Proof::Progress, "{version}");
        }
        for version in ["3.3.27", "3.4.0", "3.4.23", "3.4.24+dfsg", "3.5.0", "3.5.7", "", "unknown"] {
            assert_eq!(proof(version), Proof::Marker, "{version}");
        }
    }
}
