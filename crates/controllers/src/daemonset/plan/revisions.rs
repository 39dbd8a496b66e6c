//! The revision of a DaemonSet's template, and those before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_rules::hash::template_hash;
use pintle_runtime::{Plan, Write};
use serde_json::json;

use super::Facts;
use crate::history::{self, POD_REVISION, Place, USUAL_LIMIT};

/// The revision of the template as it is now.
pub(super) struct Revision {
    /// What its Pods are labelled with.
    pub(super) hash: String,
    old: Vec<Arc<ControllerRevision>>,
}

/// The revision, or what must be written before it is known.
pub(super) fn settle(facts: &Facts<'_>) -> Result<Revision, Box<Plan>> {
    let Some(template) = facts.set.spec.as_ref().map(|spec| &spec.template) else { return Err(Box::default()) };
    let unlabelled = facts.revisions.iter().filter(|revision| hash_of(&revision.metadata).is_none());
    let label = |revision: &Arc<ControllerRevision>| {
        let labels = json!({POD_REVISION: history::name(revision)});
        Write::merge_at_version(revision.as_ref(), json!({"metadata": {"labels": labels}}))
    };
    let labelling: Vec<Write> = unlabelled.map(label).collect();
    if !labelling.is_empty() {
        return Err(Plan::of(labelling).into());
    }
    let (same, old): (Vec<_>, Vec<_>) =
        facts.revisions.iter().cloned().partition(|revision| history::is_of(revision, template));
    let number = history::next_number(&old);
    let Some((current, others)) = same.split_last() else {
        let hash = new_revision(facts, template, number)?;
        return Ok(Revision { hash, old });
    };
    let hash = hash_of(&current.metadata).unwrap_or_default().to_owned();
    if !others.is_empty() {
        return Err(Plan::of(merging(facts, &hash, others)).into());
    }
    if current.revision < number {
        return Err(Plan::of(vec![history::renumbering(current, number)]).into());
    }
    Ok(Revision { hash, old })
}

/// The hash of a revision that is there already under the name of the new one, or the plan to make it.
fn new_revision(facts: &Facts<'_>, template: &PodTemplateSpec, number: i64) -> Result<String, Box<Plan>> {
    let set = facts.set;
    let counted = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = |collisions: i32| template_hash(template, (collisions > 0).then_some(collisions));
    match history::place(&set.metadata, template, counted, hash, facts.revision) {
        Place::Taken(revision) => Ok(hash_of(&revision.metadata).unwrap_or_default().to_owned()),
        Place::Free(proposal) => {
            let mut plan = Plan::of(vec![history::creation(set, template, number, &proposal, POD_REVISION)]);
            if proposal.collisions != counted {
                let mut status = set.status.clone().unwrap_or_default();
                status.collision_count = Some(proposal.collisions);
                plan.set_status(set, set.status.as_ref(), &status);
            }
            Err(plan.into())
        }
    }
}

/// Leaves one of several revisions of one template, to which all of their Pods belong then.
fn merging(facts: &Facts<'_>, hash: &str, others: &[Arc<ControllerRevision>]) -> Vec<Write> {
    let of_others = facts.pods.iter().filter(|pod| {
        let own = hash_of(&pod.metadata);
        others.iter().any(|other| own.is_some() && own == hash_of(&other.metadata))
    });
    let relabelling =
        of_others.map(|pod| Write::merge(pod.as_ref(), json!({"metadata": {"labels": {POD_REVISION: hash}}})));
    let deletion = others.iter().map(|other| Write::delete(other.as_ref()));
    relabelling.chain(deletion).collect()
}

impl Revision {
    /// Whether the Pod carries this revision's hash.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        hash_of(&pod.metadata) == Some(&self.hash)
    }

    /// Takes away the oldest revisions of which there are no Pods, beyond the limit.
    pub(super) fn truncation(&self, facts: &Facts<'_>) -> Vec<Write> {
        let limit = facts.set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(USUAL_LIMIT);
        let surplus = self.old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let in_use: BTreeSet<&str> = facts.pods.iter().filter_map(|pod| hash_of(&pod.metadata)).collect();
        let unused =
            self.old.iter().filter(|revision| hash_of(&revision.metadata).is_none_or(|hash| !in_use.contains(hash)));
        unused.take(surplus).map(|revision| Write::delete(revision.as_ref())).collect()
    }
}

fn hash_of(meta: &ObjectMeta) -> Option<&str> {
    meta.labels.as_ref()?.get(POD_REVISION).map(String::as_str)
}
