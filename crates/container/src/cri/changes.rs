//! What has changed by itself: two lists are compared, at an event of the runtime and every second anyway.
//!
//! containerd's own event service tells at once that something happened; what it was is always read from the lists, so that
//! a lost event costs a second and nothing else. CRI-O, or a containerd that does not tell, is looked at every second.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::channel::{Caller, USUAL};
use super::messages as cri;
use super::{read, write};
use crate::sandbox::PodRef;

/// Between two looks when nothing tells of a change.
const LOOK: Duration = Duration::from_secs(1);

/// Events come in bursts: one look serves them all.
const BURST: Duration = Duration::from_millis(20);

/// Before the event service is asked again, after it was lost or refused.
const AGAIN: Duration = Duration::from_secs(10);

/// Everything that starts or ends, and nothing of images.
const TOPICS: [&str; 2] = [r#"topic=="/tasks/exit""#, r#"topic=="/tasks/oom""#];

/// A sandbox's or container's identifier with its state.
type Seen = BTreeMap<String, (i32, PodRef)>;

pub(super) struct Changes {
    caller: Caller,
    events: Option<Streaming<cri::Envelope>>,
    ask_at: Instant,
    seen: Seen,
}

impl Changes {
    pub(super) fn new(caller: Caller) -> Self {
        Changes { caller, events: None, ask_at: Instant::now(), seen: Seen::new() }
    }

    /// Whose containers have changed since the last call.
    pub(super) async fn next(&mut self) -> BTreeSet<PodRef> {
        loop {
            self.wait().await;
            let now = match self.look().await {
                Ok(now) => now,
                Err(status) => {
                    tracing::warn!(error = status.message(), "the container runtime does not say what it runs");
                    continue;
                }
            };
            let changed = differences(&self.seen, &now);
            self.seen = now;
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    /// Until the runtime tells of something, or a second has passed.
    async fn wait(&mut self) {
        if self.events.is_none() && Instant::now() >= self.ask_at {
            self.ask_at = Instant::now() + AGAIN;
            let filters = TOPICS.map(str::to_owned).to_vec();
            let asked = self
                .caller
                .follow("/containerd.services.events.v1.Events/Subscribe", cri::SubscribeRequest { filters });
            self.events = asked.await.ok();
        }
        let Some(events) = &mut self.events else {
            return tokio::time::sleep(LOOK).await;
        };
        let told = tokio::select! {
            biased;
            told = events.message() => told,
            () = tokio::time::sleep(LOOK) => return,
        };
        match told {
            Ok(Some(_)) => tokio::time::sleep(BURST).await,
            Ok(None) | Err(_) => self.events = None,
        }
    }

    async fn look(&self) -> Result<Seen, Status> {
        let request = cri::ListSandboxesRequest::default();
        let sandboxes: cri::ListSandboxesResponse =
            self.caller.call("/runtime.v1.RuntimeService/ListPodSandbox", request, USUAL).await?;
        let request = cri::ListContainersRequest {
            filter: Some(cri::ContainerFilter { label_selector: write::selector(None), ..Default::default() }),
        };
        let containers: cri::ListContainersResponse =
            self.caller.call("/runtime.v1.RuntimeService/ListContainers", request, USUAL).await?;
        let sandboxes = sandboxes.items.into_iter().map(|item| {
            let sandbox = read::sandbox(&item, Vec::new());
            (item.id, (item.state, sandbox.pod))
        });
        let containers = containers.containers.into_iter().map(|item| {
            let pod = read::pod(&item.labels);
            (item.id, (item.state, pod))
        });
        Ok(sandboxes.chain(containers).collect())
    }
}

/// Whose sandboxes and containers came, went or are in another state.
fn differences(before: &Seen, after: &Seen) -> BTreeSet<PodRef> {
    let changed = after.iter().filter(|(id, now)| before.get(*id) != Some(now)).map(|(_, (_, pod))| pod);
    let gone = before.iter().filter(|(id, _)| !after.contains_key(*id)).map(|(_, (_, pod))| pod);
    changed.chain(gone).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_went_or_ended_is_told_and_what_stayed_is_not() {
        let pod = |name: &str| PodRef { name: name.into(), ..PodRef::default() };
        let seen = |items: &[(&str, i32, &str)]| -> Seen {
            items.iter().map(|(id, state, name)| ((*id).to_owned(), (*state, pod(name)))).collect()
        };
        let before = seen(&[("1", 1, "stays"), ("2", 1, "ends"), ("3", 1, "goes")]);
        let after = seen(&[("1", 1, "stays"), ("2", 2, "ends"), ("4", 0, "comes")]);
        assert_eq!(differences(&before, &after), [pod("comes"), pod("ends"), pod("goes")].into());
        assert!(differences(&after, &after).is_empty());
    }
}
