//! What is remembered of a Pod on its machine between two looks. Losing it costs some requests.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;

use crate::make::Facts;
use crate::plan::Refusal;
use crate::volumes::{self, Sources, Tokens};

/// How often the content of volumes is compared with what the API server has.
const REFRESH: Duration = Duration::from_secs(60);

/// How soon a failed mount is tried again: twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(122);

#[derive(Default)]
pub(crate) struct Attachment {
    tokens: Tokens,
    sources: Option<Sources>,
    hold: Option<Hold>,
    refreshed: Option<Refreshed>,
    /// The Pod has ended and its volumes are gone.
    pub(crate) released: bool,
    /// Containers that could not be made or started, and why.
    pub(crate) refusals: BTreeMap<String, Refusal>,
}

struct Hold {
    until: Timestamp,
    wait: Duration,
}

struct Refreshed {
    at: Timestamp,
    /// What files may tell of the Pod.
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Attachment {
    /// A new look begins: what was read for the last one is old.
    pub(crate) fn begin(&mut self) {
        self.sources = None;
    }

    pub(super) async fn sources(&mut self, client: &Client, facts: &Facts<'_>, now: Timestamp) -> &Sources {
        let sources = match self.sources.take() {
            Some(sources) => sources,
            None => Sources::read(client, facts, &mut self.tokens, now).await,
        };
        self.sources.insert(sources)
    }

    /// Whether a failed mount is not to be tried again yet.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        self.hold.as_ref().is_some_and(|hold| now < hold.until)
    }

    pub(crate) fn note_failure(&mut self, now: Timestamp) {
        let wait = self.hold.as_ref().map_or(FIRST_WAIT, |hold| (hold.wait * 2).min(LONGEST_WAIT));
        self.hold = Some(Hold { until: after(now, wait), wait });
    }

    pub(crate) fn note_success(&mut self) {
        self.hold = None;
    }

    /// Whether the content of volumes may be behind.
    pub(crate) fn is_due(&self, facts: &Facts<'_>, now: Timestamp) -> bool {
        let metadata = &facts.pod.metadata;
        let is_fresh = |refreshed: &Refreshed| {
            now < after(refreshed.at, REFRESH)
                && refreshed.labels == metadata.labels
                && refreshed.annotations == metadata.annotations
        };
        volumes::has_changing(facts) && !self.refreshed.as_ref().is_some_and(is_fresh)
    }

    pub(crate) fn note_refresh(&mut self, facts: &Facts<'_>, now: Timestamp) {
        let metadata = &facts.pod.metadata;
        let (labels, annotations) = (metadata.labels.clone(), metadata.annotations.clone());
        self.refreshed = volumes::has_changing(facts).then_some(Refreshed { at: now, labels, annotations });
    }

    /// When to look at the Pod again for the sake of its volumes. What is past waits for something else.
    pub(crate) fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        let refresh = self.refreshed.as_ref().map(|refreshed| after(refreshed.at, REFRESH));
        self.hold.as_ref().map(|hold| hold.until).into_iter().chain(refresh).filter(|at| *at > now).min()
    }
}

fn after(moment: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    moment.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::make::testing;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn a_mount_that_fails_is_tried_again_less_and_less_often() {
        let mut attachment = Attachment::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert!(!attachment.is_held(now));
            attachment.note_failure(now);
            let next = attachment.next_at(now).unwrap();
            waits.push(next.duration_since(now).as_millis());
            assert!(attachment.is_held(now));
            now = next;
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 122_000, 122_000]);
        attachment.note_success();
        attachment.note_failure(now);
        assert_eq!(attachment.next_at(now).unwrap().duration_since(now).as_millis(), 500);
    }

    #[test]
    fn files_follow_their_source_every_minute_and_the_pod_at_once() {
        let volumes = json!([{"name": "about", "downwardAPI": {"items": []}}]);
        let mut pod = testing::pod(json!({"volumes": volumes, "containers": []}));
        let allocatable = testing::allocatable();
        let mut attachment = Attachment::default();
        let facts = testing::facts(&pod, &allocatable);
        assert!(attachment.is_due(&facts, at(0)));
        attachment.note_refresh(&facts, at(0));
        assert!(!attachment.is_due(&facts, at(59_999)) && attachment.is_due(&facts, at(60_000)));
        assert_eq!(attachment.next_at(at(1)), Some(at(60_000)));
        // A Pod that is being deleted is not refreshed, and not looked at for that over and over.
        assert_eq!(attachment.next_at(at(60_000)), None);
        pod.metadata.labels = None;
        assert!(attachment.is_due(&testing::facts(&pod, &allocatable), at(1)));
        let plain = testing::pod(json!({"volumes": [{"name": "e", "emptyDir": {}}], "containers": []}));
        let facts = testing::facts(&plain, &allocatable);
        attachment.note_refresh(&facts, at(0));
        assert!(!attachment.is_due(&facts, at(100_000)) && attachment.next_at(at(0)).is_none());
    }
}
