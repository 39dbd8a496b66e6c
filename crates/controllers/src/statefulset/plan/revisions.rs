//! Which revision a StatefulSet comes from and which one it goes to.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use pintle_runtime::{Plan, Write};

use super::Facts;
use crate::history::{self, POD_REVISION, Place};

/// The label of a revision that has its hash.
const HASH: &str = "controller.kubernetes.io/hash";

/// The two revisions between which a set can be.
pub(super) struct History<'a> {
    /// Those Pods that are not to be updated yet have this one.
    pub(super) current: Arc<ControllerRevision>,
    /// The revision of the template as it is now.
    pub(super) update: Arc<ControllerRevision>,
    set: &'a StatefulSet,
}

/// The revisions, or what must be written before they are known: that wakes the set again.
pub(super) fn settle<'a>(facts: &Facts<'a>) -> Result<History<'a>, Box<Plan>> {
    let (set, revisions) = (facts.set, &facts.revisions);
    let Some(template) = set.spec.as_ref().map(|spec| &spec.template) else { return Err(Box::default()) };
    let update = match revisions.iter().rposition(|revision| history::is_of(revision, template)) {
        Some(last) if last + 1 == revisions.len() => revisions[last].clone(),
        // Back to a template that it had before.
        Some(earlier) => {
            let number = history::next_number(revisions);
            return Err(Plan::of(vec![history::renumbering(&revisions[earlier], number)]).into());
        }
        None => new_revision(facts, template)?,
    };
    let current = set.status.as_ref().and_then(|status| status.current_revision.as_deref()).unwrap_or_default();
    let current = revisions.iter().find(|revision| history::name(revision) == current).unwrap_or(&update).clone();
    Ok(History { current, update, set })
}

/// A revision that is there already under the name of the new one, or the plan to make it.
fn new_revision(facts: &Facts<'_>, template: &PodTemplateSpec) -> Result<Arc<ControllerRevision>, Box<Plan>> {
    let set = facts.set;
    let counted = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash_of = |collisions: i32| history::data_hash(template, collisions);
    match history::place(&set.metadata, template, counted, hash_of, facts.revision) {
        Place::Taken(revision) => Ok(revision),
        // What a set that goes would make goes with it.
        Place::Free(_) if set.metadata.deletion_timestamp.is_some() => Err(Box::default()),
        Place::Free(proposal) => {
            let number = history::next_number(&facts.revisions);
            let mut plan = Plan::of(vec![history::creation(set, template, number, &proposal, HASH)]);
            if proposal.collisions != counted {
                let mut status = set.status.clone().unwrap_or_default();
                status.collision_count = Some(proposal.collisions);
                plan.set_status(set, set.status.as_ref(), &status);
            }
            Err(plan.into())
        }
    }
}

impl History<'_> {
    /// The template of Pods of the current revision, or of the one that the set goes to.
    pub(super) fn template(&self, is_current: bool) -> Option<Cow<'_, PodTemplateSpec>> {
        if is_current && self.current.metadata.name != self.update.metadata.name {
            return history::template_in(&self.current).map(Cow::Owned);
        }
        self.set.spec.as_ref().map(|spec| Cow::Borrowed(&spec.template))
    }

    /// Takes away revisions that nothing uses, beyond the limit.
    pub(super) fn truncation(&self, facts: &Facts<'_>) -> Vec<Write> {
        let mut in_use: BTreeSet<&str> = facts.pods.iter().map(|pod| revision_of(pod)).collect();
        in_use.extend([history::name(&self.current), history::name(&self.update)]);
        let limit = self.set.spec.as_ref().and_then(|spec| spec.revision_history_limit);
        history::surplus(&facts.revisions, &in_use, limit).map(|revision| Write::delete(revision.as_ref())).collect()
    }
}

pub(super) fn revision_of(pod: &Pod) -> &str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(POD_REVISION)).map_or("", String::as_str)
}
