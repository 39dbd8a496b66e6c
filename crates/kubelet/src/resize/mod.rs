//! Processors and memory of a Pod that runs: what it asks for, what the node has given it, and what its containers are held to.
//!
//! A Pod may ask for other amounts while it runs. Until the node has room for them, it goes on with those that it was given; what
//! was given is read back from its status, so that an agent that starts anew knows it too.

mod room;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as Spec, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pintle_container::ContainerId;
use serde_json::json;

use crate::make::{amount, containers};
use crate::plan::after;
pub(crate) use room::room;

/// What can change while a container runs.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// How soon a resize that failed, or for which there was no room, is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// What is remembered of a Pod's amounts between two looks.
#[derive(Debug, Default)]
pub(crate) struct Resizing {
    /// By container; nothing before the first look.
    given: Option<BTreeMap<String, ResourceRequirements>>,
    /// What each run is held to.
    held: BTreeMap<ContainerId, ResourceRequirements>,
    /// Why the Pod is not given what it asks for.
    pub(crate) pending: Option<Pending>,
    pub(crate) failure: Option<Failure>,
    /// The Pod was given other amounts, and not all of its containers are held to them yet.
    pub(crate) going: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// `Infeasible` or `Deferred`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// That the containers could not be held to what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) until: Timestamp,
}

/// How the amounts that a run is held to compare with those that it should be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Right,
    /// Nobody remembers: the agent ended before it could say.
    Unknown,
    /// Whether the container wants to be started anew for the change.
    Wrong {
        restart: bool,
    },
}

impl Resizing {
    /// Learns what the Pod was given before this agent began.
    pub(crate) fn recall(&mut self, spec: &PodSpec, status: &PodStatus) {
        self.given.get_or_insert_with(|| given(spec, status));
    }

    /// Whether the Pod asks for something else than it was given.
    pub(crate) fn is_asked_for(&self, spec: &PodSpec) -> bool {
        let differs = |container: &Spec, given: &BTreeMap<String, ResourceRequirements>| {
            given.get(&container.name).is_some_and(|given| !is_same(Some(given), container.resources.as_ref()))
        };
        self.given.as_ref().is_some_and(|given| containers(spec).any(|container| differs(container, given)))
    }

    /// Gives the Pod what it asks for.
    pub(crate) fn give(&mut self, spec: &PodSpec) {
        let all = containers(spec).map(|container| (container.name.clone(), asked(container)));
        self.given = Some(all.collect());
        (self.pending, self.failure, self.going) = (None, None, true);
    }

    /// The Pod as if it asked for what it was given.
    pub(crate) fn sized<'a>(&self, pod: &'a Pod) -> Cow<'a, Pod> {
        match (&self.given, &pod.spec) {
            (Some(given), Some(spec)) if self.is_asked_for(spec) => Cow::Owned(with(pod, given)),
            _ => Cow::Borrowed(pod),
        }
    }

    pub(crate) fn note_held(&mut self, run: &ContainerId, container: &Spec) {
        self.held.insert(run.clone(), asked(container));
    }

    pub(crate) fn forget(&mut self, run: &ContainerId) {
        self.held.remove(run);
    }

    pub(crate) fn fail(&mut self, message: String, now: Timestamp) {
        self.failure = Some(Failure { message, until: after(now, AGAIN) });
    }

    /// When to look again, if it has to be tried again.
    pub(crate) fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        let deferred = self.pending.as_ref().filter(|pending| pending.reason == "Deferred");
        let failed = self.failure.as_ref().map(|failure| failure.until);
        failed.into_iter().chain(deferred.map(|_| after(now, AGAIN))).min()
    }

    /// What a run is held to, as remembered or as last said.
    pub(crate) fn held_by<'a>(
        &'a self,
        run: &ContainerId,
        said: Option<&'a ContainerStatus>,
    ) -> Option<&'a ResourceRequirements> {
        let same = |said: &&ContainerStatus| said.container_id.as_ref().is_some_and(|id| id.ends_with(&run.0));
        self.held.get(run).or_else(|| said.filter(same).and_then(|said| said.resources.as_ref()))
    }

    pub(crate) fn compare(&self, run: &ContainerId, container: &Spec, said: Option<&ContainerStatus>) -> Held {
        let wanted = container.resources.as_ref();
        match self.held_by(run, said) {
            Some(held) if is_same(Some(held), wanted) => Held::Right,
            Some(held) => Held::Wrong { restart: wants_restart(container, held) },
            None if is_same(None, wanted) => Held::Right,
            None => Held::Unknown,
        }
    }
}

/// What its containers were given, as its status tells it; what it asks for, of those of which it tells nothing.
fn given(spec: &PodSpec, status: &PodStatus) -> BTreeMap<String, ResourceRequirements> {
    let said = || status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let of = |container: &Spec| {
        let said = said().find(|said| said.name == container.name && said.container_id.is_some());
        said.map_or_else(
            || asked(container),
            |said| {
                let limits = said.resources.as_ref().and_then(|resources| resources.limits.clone());
                ResourceRequirements { requests: said.allocated_resources.clone(), limits, claims: None }
            },
        )
    };
    containers(spec).map(|container| (container.name.clone(), of(container))).collect()
}

/// A Pod that may be in the midst of a change, as if it asked for what it was given.
pub(crate) fn as_given(pod: &Pod) -> Cow<'_, Pod> {
    let mut resizing = Resizing::default();
    if let (Some(spec), Some(status)) = (&pod.spec, &pod.status) {
        resizing.recall(spec, status);
    }
    resizing.sized(pod)
}

fn with(pod: &Pod, given: &BTreeMap<String, ResourceRequirements>) -> Pod {
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            let Some(given) = given.get(&container.name) else { continue };
            let own = container.resources.get_or_insert_default();
            replace(&mut own.requests, given.requests.as_ref());
            replace(&mut own.limits, given.limits.as_ref());
        }
    }
    pod
}

/// Other resources than those that can change stay as they are.
fn replace(own: &mut Option<BTreeMap<String, Quantity>>, given: Option<&BTreeMap<String, Quantity>>) {
    for name in RESIZABLE {
        match given.and_then(|given| given.get(name)) {
            Some(amount) => {
                own.get_or_insert_default().insert(name.to_owned(), amount.clone());
            }
            None => {
                own.as_mut().and_then(|own| own.remove(name));
            }
        }
    }
}

fn asked(container: &Spec) -> ResourceRequirements {
    container.resources.clone().unwrap_or_default()
}

fn is_same(one: Option<&ResourceRequirements>, other: Option<&ResourceRequirements>) -> bool {
    RESIZABLE.iter().all(|name| has_same(one, other, name))
}

fn has_same(one: Option<&ResourceRequirements>, other: Option<&ResourceRequirements>, name: &str) -> bool {
    let request = |of: Option<&ResourceRequirements>| amount(of.and_then(|of| of.requests.as_ref()), name);
    let limit = |of: Option<&ResourceRequirements>| amount(of.and_then(|of| of.limits.as_ref()), name);
    request(one) == request(other) && limit(one) == limit(other)
}

fn wants_restart(container: &Spec, held: &ResourceRequirements) -> bool {
    let wanted = container.resources.as_ref();
    container.resize_policy.iter().flatten().any(|policy| {
        policy.restart_policy == "RestartContainer" && !has_same(Some(held), wanted, &policy.resource_name)
    })
}

/// What is said of a resize: which containers get what.
pub(crate) fn described(pod: &Pod) -> String {
    let containers = pod.spec.as_ref().map(|spec| {
        containers(spec)
            .map(|container| json!({"name": container.name, "resources": container.resources}))
            .collect::<Vec<_>>()
    });
    json!({"containers": containers, "generation": pod.metadata.generation}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::testing;

    fn container(requests: &str, limits: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {
            "requests": {"cpu": requests, "example.com/lamp": "1"}, "limits": {"cpu": limits}}})
    }

    fn pod(requests: &str, limits: &str) -> Pod {
        testing::pod(json!({"containers": [container(requests, limits)]}))
    }

    fn said(requests: &str, limits: &str) -> PodStatus {
        serde_json::from_value(json!({"containerStatuses": [{
            "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "containerID": "containerd://c-0",
            "allocatedResources": {"cpu": requests},
            "resources": {"requests": {"cpu": requests}, "limits": {"cpu": limits}}}]}))
        .unwrap()
    }

    #[test]
    fn a_pod_goes_on_with_what_it_was_given_until_it_is_given_what_it_asks_for() {
        let wanted = pod("2", "3");
        let spec = wanted.spec.as_ref().unwrap();
        let mut resizing = Resizing::default();
        resizing.recall(spec, &said("500m", "1"));
        assert!(resizing.is_asked_for(spec));
        let sized = resizing.sized(&wanted).into_owned();
        assert_eq!(sized, pod("500m", "1"));
        resizing.give(spec);
        assert!(!resizing.is_asked_for(spec) && resizing.going);
        assert!(matches!(resizing.sized(&wanted), Cow::Borrowed(_)));
    }

    #[test]
    fn the_same_amount_in_other_words_is_no_change_and_a_pod_that_has_not_begun_is_given_what_it_asks_for() {
        let wanted = pod("1000m", "2");
        let spec = wanted.spec.as_ref().unwrap();
        for status in [said("1", "2000m"), PodStatus::default()] {
            let mut resizing = Resizing::default();
            resizing.recall(spec, &status);
            assert!(!resizing.is_asked_for(spec));
        }
    }

    #[test]
    fn a_run_is_known_by_memory_or_by_what_was_said_of_it_or_not_at_all() {
        let wanted = pod("2", "3");
        let mut container = wanted.spec.unwrap().containers.remove(0);
        let (status, run, other) = (said("1", "3"), ContainerId("c-0".into()), ContainerId("c-1".into()));
        let said = status.container_statuses.as_ref().map(|all| &all[0]);
        let mut resizing = Resizing::default();
        assert_eq!(resizing.compare(&run, &container, said), Held::Wrong { restart: false });
        assert_eq!(resizing.compare(&other, &container, said), Held::Unknown);
        let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        container.resize_policy = serde_json::from_value(policy).unwrap();
        assert_eq!(resizing.compare(&run, &container, said), Held::Wrong { restart: true });
        resizing.note_held(&run, &container);
        assert_eq!(resizing.compare(&run, &container, said), Held::Right);
        container.resources = None;
        assert_eq!(Resizing::default().compare(&other, &container, said), Held::Right);
    }
}
