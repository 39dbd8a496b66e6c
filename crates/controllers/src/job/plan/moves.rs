//! Which Pods are made and which are deleted.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::plan::Pace;
use pintle_runtime::{Write, owner};

use super::asked::{Asked, index_of};
use super::backoff::remaining_of_index;
use super::census::Census;
use super::policy::judge;
use super::{COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, Scene, failures_of, ignored_failures_of};
use super::{TRACKING, without_finalizer};
use crate::pods;
use crate::replicaset::rank::{phase_order, restarts};

/// Pods made or deleted in one go, at most.
const BURST: usize = 500;

/// No Pod is waited for for less than this.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The longest `generateName` after which a Pod's name is still a host name.
const LONGEST_PREFIX: usize = 58;

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Writes, and how many Pods there are afterwards.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) writes: Vec<Write>,
    pub(super) active: usize,
    pub(super) ready: usize,
    pub(super) terminating: usize,
    pub(super) again: Option<Duration>,
}

impl Moves {
    pub(super) fn none(census: &Census) -> Self {
        Moves {
            active: census.active.len(),
            ready: census.ready(),
            terminating: census.terminating.len(),
            ..Moves::default()
        }
    }

    fn without(census: &Census, going: &[Arc<Pod>], writes: Vec<Write>) -> Self {
        let before = Moves::none(census);
        let ready = going.iter().filter(|pod| pods::is_ready(pod)).count();
        Moves {
            writes,
            active: before.active.saturating_sub(going.len()),
            ready: before.ready.saturating_sub(ready),
            terminating: before.terminating.saturating_add(going.len()),
            again: None,
        }
    }
}

/// The Job is going to end: nothing runs any longer. Counting decides about the finalizers.
pub(super) fn ending(scene: &Scene<'_>) -> Moves {
    // After finalizers that are removed with others at once.
    let writes = scene.census.active.iter().map(|pod| deletion(pod).paced(Pace::SlowStart)).collect();
    Moves::without(&scene.census, &scene.census.active, writes)
}

/// The Job goes on: as many Pods as may run, or none if it is suspended.
pub(super) fn working(scene: &Scene<'_>) -> Moves {
    let (asked, census) = (&scene.asked, &scene.census);
    if asked.is_suspended {
        return letting_go(census, surplus(asked, &census.active, census.active.len()));
    }
    let wanted = wanted(asked, census);
    let mut going = surplus(asked, &census.active, census.active.len().saturating_sub(wanted));
    if !going.is_empty() {
        going.truncate(BURST);
        return letting_go(census, going);
    }
    let taken = if asked.replaces_only_failed() { census.terminating.len() } else { 0 };
    let missing = wanted.saturating_sub(taken).saturating_sub(census.active.len()).min(BURST);
    if missing > 0 { making(scene, missing) } else { Moves::none(census) }
}

fn wanted(asked: &Asked<'_>, census: &Census) -> usize {
    match asked.completions {
        // One success is enough: what still runs may go on.
        None if census.succeeded > 0 => census.active.len(),
        None => asked.parallelism,
        Some(completions) => {
            let left = usize::try_from(completions).unwrap_or(usize::MAX).saturating_sub(census.succeeded);
            left.min(asked.parallelism)
        }
    }
}

/// Pods that the loop itself stops are not counted: their finalizers go first, all of them before the first deletion.
fn letting_go(census: &Census, going: Vec<Arc<Pod>>) -> Moves {
    let freed = going.iter().flat_map(|pod| without_finalizer(pod));
    let deletions = going.iter().map(|pod| deletion(pod).paced(Pace::SlowStart));
    let writes = freed.chain(deletions).collect();
    Moves::without(census, &going, writes)
}

fn deletion(pod: &Arc<Pod>) -> Write {
    Write::delete(pod.as_ref())
        .saying("SuccessfulDelete", "Deleted pod: {name}")
        .warning("FailedDelete", "Error deleting: {error}")
}

fn making(scene: &Scene<'_>, missing: usize) -> Moves {
    let mut moves = Moves::none(&scene.census);
    if scene.asked.limit_per_index().is_none()
        && let Some(wait) = scene.backoff.remaining(scene.now)
    {
        moves.again = Some(wait.max(SHORTEST_WAIT));
        return moves;
    }
    if !scene.asked.is_indexed {
        moves.writes = vec![creation(&pod_from_template(scene.job, &scene.asked)).times(missing)];
        moves.active = moves.active.saturating_add(missing);
        return moves;
    }
    let indexes = pending_indexes(scene, missing);
    let wait_of = |index: &u32| remaining_of_index(scene.census.awaiting_successor.get(index)?, scene.now);
    let (now, later): (Vec<u32>, Vec<u32>) = indexes.into_iter().partition(|index| wait_of(index).is_none());
    // With indexes that can be made, those that wait are looked at when these have been made.
    let wait = later.iter().filter_map(wait_of).min().filter(|_| now.is_empty());
    moves.again = wait.map(|wait| wait.max(SHORTEST_WAIT));
    moves.writes = now.iter().map(|index| creation(&pod_of_index(scene, *index)).paced(Pace::SlowStart)).collect();
    moves.active = moves.active.saturating_add(now.len());
    moves
}

fn creation(pod: &Pod) -> Write {
    Write::create(pod)
        .saying("SuccessfulCreate", "Created pod: {name}")
        .warning("FailedCreate", "Error creating: {error}")
}

/// The first indexes that neither run nor have ended.
fn pending_indexes(scene: &Scene<'_>, count: usize) -> Vec<u32> {
    let census = &scene.census;
    let holders = match scene.asked.replaces_only_failed() {
        true => census.active.iter().chain(&census.terminating).collect::<Vec<_>>(),
        false => census.active.iter().collect(),
    };
    let held = holders.into_iter().filter_map(|pod| index_of(pod)).collect();
    let taken = census.succeeded_indexes.merged(&held);
    let taken = census.failed_indexes.as_ref().map_or(taken.clone(), |failed| taken.merged(failed));
    taken.missing(count, scene.asked.completions.unwrap_or(0))
}

/// Which Pods go: those whose index another has or the Job has not, then those that have come least far.
fn surplus(asked: &Asked<'_>, active: &[Arc<Pod>], at_least: usize) -> Vec<Arc<Pod>> {
    let (mut going, mut staying) = (Vec::new(), Vec::new());
    if asked.is_indexed {
        let mut by_index: BTreeMap<Option<u32>, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in active {
            by_index.entry(asked.index_of(pod)).or_default().push(pod.clone());
        }
        for (index, mut pods) in by_index {
            pods.sort_by(|a, b| progress(a, b));
            staying.extend(index.and_then(|_| pods.pop()));
            going.extend(pods);
        }
    } else {
        staying = active.to_vec();
    }
    staying.sort_by(|a, b| progress(a, b));
    let more = at_least.saturating_sub(going.len());
    going.extend(staying.into_iter().take(more));
    going
}

/// The Pod that has come less far is less.
fn progress(a: &Pod, b: &Pod) -> Ordering {
    let is_assigned = |pod: &Pod| !pods::node_name(pod).is_empty();
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    // The one that came later is less, and no time at all is least.
    let age = |time: Option<jiff::Timestamp>| time.map(Reverse);
    is_assigned(a)
        .cmp(&is_assigned(b))
        .then_with(|| phase_order(a).cmp(&phase_order(b)))
        .then_with(|| pods::is_ready(a).cmp(&pods::is_ready(b)))
        .then_with(|| age(pods::ready_since(a)).cmp(&age(pods::ready_since(b))))
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| age(created(a)).cmp(&age(created(b))))
}

/// A Pod as the template describes it, named by the server.
fn pod_from_template(job: &Job, asked: &Asked<'_>) -> Pod {
    let described = asked.spec.template.metadata.clone().unwrap_or_default();
    let mut finalizers = described.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", job.metadata.name.as_deref().unwrap_or_default())),
            namespace: job.metadata.namespace.clone(),
            labels: described.labels,
            annotations: described.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![owner::controller_reference(job)]),
            ..ObjectMeta::default()
        },
        spec: asked.spec.template.spec.clone(),
        status: None,
    }
}

/// The same for one index, which the Pod knows by label, annotation, host name and environment.
fn pod_of_index(scene: &Scene<'_>, index: u32) -> Pod {
    let mut pod = pod_from_template(scene.job, &scene.asked);
    let name = scene.job.metadata.name.as_deref().unwrap_or_default();
    pod.metadata.generate_name = Some(prefix_of(name, index));
    pod.metadata.labels.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index.to_string());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(COMPLETION_INDEX.to_owned(), index.to_string());
    if scene.asked.limit_per_index().is_some() {
        let (failures, ignored) = failures_before(scene, index);
        annotations.insert(INDEX_FAILURES.to_owned(), failures.to_string());
        if ignored > 0 {
            annotations.insert(INDEX_IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{name}-{index}"));
        spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(tell_index);
    }
    pod
}

/// How often the index has failed, and how many more failures were ignored.
fn failures_before(scene: &Scene<'_>, index: u32) -> (i32, i32) {
    let Some(last) = scene.census.awaiting_successor.get(&index) else { return (0, 0) };
    let (failures, ignored) = (failures_of(last), ignored_failures_of(last));
    match judge(scene.asked.spec.pod_failure_policy.as_ref(), last).counts() {
        true => (failures.saturating_add(1), ignored),
        false => (failures, ignored.saturating_add(1)),
    }
}

fn tell_index(container: &mut Container) {
    let env = container.env.get_or_insert_default();
    if env.iter().any(|variable| variable.name == INDEX_VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector { field_path: format!("metadata.labels['{COMPLETION_INDEX}']"), api_version: None };
    env.push(EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    });
}

/// `name-7-`, with as much of the name as leaves room for what the server adds.
fn prefix_of(name: &str, index: u32) -> String {
    let tail = format!("-{index}-");
    let mut room = LONGEST_PREFIX.saturating_sub(tail.len()).min(name.len());
    while !name.is_char_boundary(room) {
        room -= 1;
    }
    format!("{}{tail}", &name[..room])
}
