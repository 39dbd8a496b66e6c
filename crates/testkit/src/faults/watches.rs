//! What may happen to the lines of a watch: held back, delayed, merged, lost.

use super::asked::Asked;
use super::plans::is_meant;
use super::{Answer, BoxError, Faults, lock};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// What a watch does with the lines it has held once the blindness is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Deliver,
    Merge,
    /// They are lost; 410 Gone sends the client to a list.
    Forget,
}

/// A time in which a loop sees nothing new.
#[derive(Debug)]
pub(super) struct Blind {
    pub(super) id: u64,
    pub(super) agent: String,
    /// Empty for every resource.
    pub(super) resource: String,
    pub(super) begins: Instant,
    /// `None` until it is released.
    pub(super) ends: Option<Instant>,
    pub(super) then: Then,
}

/// The body of a watch, under whatever is planned for it.
pub(super) fn shape(faults: &Faults, asked: Asked, body: Answer) -> Answer {
    let feed = Feed {
        faults: faults.clone(),
        asked,
        body,
        partial: BytesMut::new(),
        held: VecDeque::new(),
        late: 0,
        last_due: Instant::now(),
        under: None,
        ends: true,
        ended: false,
    };
    let lines = stream::unfold(feed, |mut feed| async move {
        let next = feed.next().await?;
        Some((next.map(Frame::data), feed))
    });
    StreamBody::new(lines.fuse()).boxed_unsync()
}

struct Feed {
    faults: Faults,
    asked: Asked,
    body: Answer,
    /// The beginning of a line whose end has not come.
    partial: BytesMut,
    /// Whole lines, and when each may go.
    held: VecDeque<(Instant, Bytes)>,
    /// How many lines will go by themselves; a cluster that waits for them is not at rest.
    late: usize,
    last_due: Instant,
    /// The blindness that holds lines now.
    under: Option<u64>,
    /// Whether it ends by itself.
    ends: bool,
    ended: bool,
}

/// What holds for a watch at this moment.
struct View {
    blind: Option<u64>,
    /// When to look again though nobody says so.
    look_at: Option<Instant>,
    lag: Duration,
}

impl View {
    fn is_clear(&self) -> bool {
        self.blind.is_none() && self.lag.is_zero()
    }
}

impl Feed {
    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.partial.is_empty()
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let shared = self.faults.0.clone();
        loop {
            // Made before the look, so that a change in between wakes it.
            let changed = shared.changed.notified();
            // The cut may have come while nobody waited for a line.
            if shared.watches_cut.load(Ordering::SeqCst) {
                return None;
            }
            let now = Instant::now();
            let view = self.view(now);
            if self.under != view.blind {
                if let Some(over) = self.under.take()
                    && self.see_again(over)
                {
                    return Some(Ok(gone()));
                }
                self.under = view.blind;
                self.ends = view.look_at.is_some();
                self.count();
            }
            if view.blind.is_none() {
                if self.held.front().is_some_and(|(due, _)| *due <= now)
                    && let Some((_, line)) = self.pop()
                {
                    return Some(Ok(line));
                }
                if self.ended && self.held.is_empty() {
                    return None;
                }
            }
            let due = self.held.front().map(|(due, _)| *due).filter(|_| view.blind.is_none());
            let look_at = [due, view.look_at].into_iter().flatten().min();
            let timer = async {
                match look_at {
                    Some(moment) => tokio::time::sleep_until(moment).await,
                    None => std::future::pending().await,
                }
            };
            let ended = self.ended;
            let frame = async {
                match ended {
                    true => std::future::pending().await,
                    false => self.body.frame().await,
                }
            };
            let frame = tokio::select! {
                biased;
                () = changed => continue,
                frame = frame => frame,
                () = timer => continue,
            };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => self.ended = true,
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(Err(_trailers))) => {}
                // Nothing is planned and nothing is held: as it came.
                Some(Ok(Ok(data))) if view.is_clear() && self.is_empty() && data.ends_with(b"\n") => {
                    return Some(Ok(data));
                }
                Some(Ok(Ok(data))) => self.keep(&data, view.lag),
            }
        }
    }

    fn view(&self, now: Instant) -> View {
        let state = lock(&self.faults.0.state);
        let mine = |agent: &str, resource: &str| {
            is_meant(agent, &self.asked.agent) && (resource.is_empty() || resource == self.asked.resource)
        };
        let of_mine = || state.blinds.iter().filter(|blind| mine(&blind.agent, &blind.resource));
        let active = of_mine().find(|blind| blind.begins <= now && blind.ends.is_none_or(|ends| ends > now));
        let next = of_mine().map(|blind| blind.begins).filter(|begins| *begins > now).min();
        let lag = state.lags.iter().find(|(agent, resource, _)| mine(agent, resource));
        View {
            blind: active.map(|blind| blind.id),
            look_at: active.map_or(next, |blind| blind.ends),
            lag: lag.map_or(Duration::ZERO, |(_, _, longest)| *longest),
        }
    }

    fn keep(&mut self, data: &[u8], lag: Duration) {
        self.partial.extend_from_slice(data);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line = self.partial.split_to(end + 1).freeze();
            let millis = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
            let wait = Duration::from_millis(self.faults.0.random.below(millis.saturating_add(1)));
            self.last_due = self.last_due.max(Instant::now() + wait);
            self.push(self.last_due, line);
        }
    }

    fn push(&mut self, due: Instant, line: Bytes) {
        self.held.push_back((due, line));
        self.count();
    }

    fn pop(&mut self) -> Option<(Instant, Bytes)> {
        let popped = self.held.pop_front();
        self.count();
        popped
    }

    /// Lines that are held until someone releases them are not late.
    fn count(&mut self) {
        let late = if self.under.is_some() && !self.ends { 0 } else { self.held.len() };
        self.faults.0.late.fetch_add(late, Ordering::SeqCst);
        self.faults.0.late.fetch_sub(std::mem::replace(&mut self.late, late), Ordering::SeqCst);
    }

    /// The blindness is over; whether the client must be told to list again.
    fn see_again(&mut self, over: u64) -> bool {
        let then = lock(&self.faults.0.state).blinds.iter().find(|blind| blind.id == over).map(|blind| blind.then);
        match then {
            Some(Then::Forget) => {
                while self.pop().is_some() {}
                self.ended = true;
                true
            }
            Some(Then::Merge) => {
                let lines: Vec<Bytes> = std::iter::from_fn(|| self.pop().map(|(_, line)| line)).collect();
                let now = Instant::now();
                for line in merged(lines) {
                    self.push(now, line);
                }
                false
            }
            Some(Then::Deliver) | None => false,
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Of several changes to one object in a row the last; a delete and what follows it stay two.
pub(super) fn merged(lines: Vec<Bytes>) -> Vec<Bytes> {
    let mut kept: Vec<Option<Bytes>> = Vec::new();
    // Where an object's last change stands, and whether it was an ADDED.
    let mut last: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for line in lines {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let uid = event["object"]["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let kind = event["type"].as_str().unwrap_or_default();
        let mut line = line;
        match kind {
            "ADDED" | "MODIFIED" if !uid.is_empty() => {
                let mut added = kind == "ADDED";
                if let Some((earlier, was_added)) = last.get(&uid).copied() {
                    kept[earlier] = None;
                    if was_added && !added {
                        added = true;
                        let again = json!({"type": "ADDED", "object": event["object"]});
                        line = Bytes::from(format!("{again}\n"));
                    }
                }
                last.insert(uid, (kept.len(), added));
            }
            "DELETED" => {
                last.remove(&uid);
            }
            _ => {}
        }
        kept.push(Some(line));
    }
    kept.into_iter().flatten().collect()
}

fn gone() -> Bytes {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version (a fault that the test injected)", "reason": "Expired", "code": 410});
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}
