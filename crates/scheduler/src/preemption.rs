//! Room for a Pod that fits nowhere: the node on which the least important Pods have to leave for it. No I/O.
//!
//! - Only Pods of lower priority leave, as few and as unimportant ones as will do, and if possible none that a
//!   PodDisruptionBudget protects.
//! - Nothing is searched where the node itself is the reason (its labels, taints, size, volumes).
//! - While Pods that had to leave are still ending, nothing more is taken.
//!
//! Worked example: node `a` of 4 CPUs runs `low` (priority 1, 2 CPUs) and `mid` (priority 5, 2 CPUs). For a Pod of priority
//! 10 and 2 CPUs both are taken off in thought; `mid`, the more important one, is put back and it still fits; `low` is put
//! back and it does not: `low` is the victim.

mod budgets;
mod choose;
#[cfg(test)]
mod tests;
mod victims;

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use pintle_runtime::conditions;

use crate::cache::Cache;
use crate::cycle::{Cycle, Diagnosis};
use crate::filters::Filters;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

pub(crate) use budgets::Budget;
pub(crate) use choose::choose;

/// The reason in the `DisruptionTarget` condition of Pods that have to leave.
pub(crate) const REASON: &str = "PreemptionByScheduler";

/// Of how many nodes the victims are found before one is chosen, in percent of those in question, and at least.
const CANDIDATE_PERCENT: usize = 10;
const MIN_CANDIDATES: usize = 100;

/// What other plugins than preemption say first of every Pod that fits nowhere; Pintle has no resource claims, and says
/// what Kubernetes says of Pods without them.
const NO_CLAIMS: &str = "no new claims to deallocate";

/// What kube-scheduler says when the Pod was refused before any node was looked at.
pub(crate) const NOT_TRIED: &str = "not found";

/// What is known beside the cache.
pub(crate) struct Facts<'a> {
    pub(crate) budgets: &'a [Budget],
    /// When a Pod on a node started.
    pub(crate) started: &'a dyn Fn(&PodInfo) -> Timestamp,
}

/// A node, and who has to leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    pub(crate) victims: Vec<Victim>,
    /// How many of them leave against a PodDisruptionBudget.
    pub(crate) violations: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) pod: Arc<PodInfo>,
    pub(crate) started: Timestamp,
}

impl PartialEq for Victim {
    fn eq(&self, other: &Self) -> bool {
        self.pod.uid == other.pod.uid
    }
}

impl Eq for Victim {}

/// Why no room is made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It would not help: the Pod is not nominated any more.
    Unhelpful(String),
    /// The Pod may not, or has to wait.
    NotNow(String),
    /// Something went wrong.
    Failed(String),
}

impl Refused {
    /// As it is added to the words of an event.
    pub(crate) fn message(&self) -> String {
        match self {
            Refused::Unhelpful(why) | Refused::NotNow(why) => format!("{NO_CLAIMS}, preemption: {why}"),
            Refused::Failed(why) => format!("preemption: {why}"),
        }
    }
}

/// Nodes on which the Pod would fit without some less important Pods. What is diagnosed must be about this very cache.
pub(crate) fn candidates(
    cycle: &Cycle,
    pod: &PodInfo,
    cache: &Cache,
    diagnosis: &Diagnosis,
    facts: &Facts<'_>,
) -> Result<Vec<Candidate>, Refused> {
    is_eligible(pod, cache, diagnosis).map_err(|why| Refused::NotNow(why.to_owned()))?;
    let nodes: Vec<&NodeInfo> = diagnosis.resolvable.iter().filter_map(|name| cache.node(name)).collect();
    let mut unhelpful = Diagnosis { nodes: diagnosis.nodes, ..Diagnosis::default() };
    if nodes.is_empty() {
        return Err(Refused::Unhelpful(not_helpful(unhelpful, diagnosis.nodes)));
    }
    let offset = usize::try_from(cycle.random().below(nodes.len() as u64)).unwrap_or(0);
    let enough = enough(nodes.len());
    let mut filters = Filters::of(cycle.plugins(), pod, cache);
    let (mut peaceful, mut violating, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..nodes.len() {
        let node = nodes[(offset + index) % nodes.len()];
        match victims::victims_on(&mut filters, pod, node, facts) {
            Ok(found) if found.victims.is_empty() => {
                let why = format!("expected at least one victim pod on node {:?}", node.name);
                unhelpful.reject(vec![Cow::Owned(why.clone())]);
                broken.push(why);
            }
            Ok(found) if found.violations == 0 => peaceful.push(found),
            Ok(found) => violating.push(found),
            Err(reasons) => unhelpful.reject(reasons),
        }
        if !peaceful.is_empty() && peaceful.len() + violating.len() >= enough {
            break;
        }
    }
    peaceful.append(&mut violating);
    match (peaceful.is_empty(), broken.len()) {
        (false, _) => Ok(peaceful),
        (true, 0) => Err(Refused::Unhelpful(not_helpful(unhelpful, diagnosis.nodes - nodes.len()))),
        (true, 1) => Err(Refused::Failed(broken.swap_remove(0))),
        (true, _) => Err(Refused::Failed(format!("[{}]", broken.join(", ")))),
    }
}

/// `skipped` is the number of nodes that were not looked at.
fn not_helpful(mut diagnosis: Diagnosis, skipped: usize) -> String {
    if skipped > 0 {
        diagnosis.reasons.insert(Cow::Borrowed("Preemption is not helpful for scheduling"), skipped);
    }
    diagnosis.to_string()
}

fn enough(nodes: usize) -> usize {
    (nodes * CANDIDATE_PERCENT / 100).max(MIN_CANDIDATES).min(nodes)
}

fn is_eligible(pod: &PodInfo, cache: &Cache, diagnosis: &Diagnosis) -> Result<(), &'static str> {
    if pod.spec().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Err("not eligible due to preemptionPolicy=Never.");
    }
    let Some(nominated) = cache.nominated.node_of(&pod.uid) else { return Ok(()) };
    // A node that does not fit even when empty is not worth waiting for.
    if !diagnosis.resolvable.iter().any(|name| name == nominated) {
        return Ok(());
    }
    let mut there = cache.node(nominated).into_iter().flat_map(|node| node.pods.values());
    match there.any(|other| other.priority < pod.priority && is_leaving(&other.pod)) {
        true => Err("not eligible due to a terminating pod on the nominated node."),
        false => Ok(()),
    }
}

/// Whether a Pod is ending because it had to make room.
fn is_leaving(pod: &Pod) -> bool {
    let all = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_some()
        && conditions::find(all, "DisruptionTarget")
            .is_some_and(|found| found.status == "True" && found.reason.as_deref() == Some(REASON))
}

/// What budgets say now, of those that can be read.
pub(crate) fn budgets(all: &[Arc<PodDisruptionBudget>]) -> Vec<Budget> {
    all.iter().filter_map(Budget::of).collect()
}
