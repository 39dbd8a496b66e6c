//! The two ways from the old template to the new: rolling and recreating; and forgetting what is long past.

use super::revision::revision_of;
use super::{Rollout, Set, fenceposts, progress};

impl Rollout {
    /// Grows the new set as far as the surge allows, or else shrinks the old ones as far as availability allows.
    pub(super) fn roll(&mut self) {
        if self.new.is_none() {
            self.create_new();
        }
        let Some(new) = self.new else { return };
        let wanted = self.wanted();
        let target = if self.sets[new].replicas() > wanted { wanted } else { self.replicas_for_new() };
        if self.scale_set(new, target, false) || self.shrink_old(new) {
            return;
        }
        if progress::is_complete(&self.deployment, &self.status()) {
            self.clean_up();
        }
    }

    /// Ends every old Pod before the first new one.
    pub(super) fn recreate(&mut self) {
        let mut scaled_down = false;
        for old in self.old() {
            scaled_down |= self.scale_set(old, 0, false);
        }
        if scaled_down || self.old_pods_run() {
            return;
        }
        if self.new.is_none() {
            self.create_new();
        }
        if let Some(new) = self.new {
            self.scale_set(new, self.wanted(), false);
        }
        if progress::is_complete(&self.deployment, &self.status()) {
            self.clean_up();
        }
    }

    fn old_pods_run(&self) -> bool {
        let runs = |set: &Set| {
            let uid = set.object.metadata.uid.as_deref().unwrap_or_default();
            set.actual() > 0 || self.with_running_pods.contains(uid)
        };
        self.old().into_iter().any(|index| runs(&self.sets[index]))
    }

    fn shrink_old(&mut self, new: usize) -> bool {
        let old: Vec<usize> = self.old().into_iter().filter(|index| self.sets[*index].replicas() > 0).collect();
        if old.is_empty() {
            return false;
        }
        let least = self.wanted() - fenceposts::max_unavailable(&self.deployment);
        // New Pods that are not available yet must not be an excuse to take old ones away.
        let unavailable_new = self.sets[new].replicas() - self.sets[new].available();
        let most = self.total_replicas() - least - unavailable_new;
        if most <= 0 {
            return false;
        }
        // Pods that serve no one go first, or they would hold up the rollout.
        let mut taken = 0;
        for index in &old {
            let unhealthy = (self.sets[*index].replicas() - self.sets[*index].available()).max(0);
            let count = unhealthy.min(most - taken);
            self.scale_set(*index, self.sets[*index].replicas() - count, false);
            taken += count;
        }
        let available: i32 = self.sets.iter().map(Set::available).sum();
        let mut spare = available - least;
        for index in old {
            let count = self.sets[index].replicas().min(spare.max(0));
            self.scale_set(index, self.sets[index].replicas() - count, false);
            spare -= count;
            taken += count;
        }
        taken > 0
    }

    /// Drops the oldest empty sets beyond what the history limit keeps.
    pub(super) fn clean_up(&mut self) {
        let limit = self.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return };
        let mut old: Vec<&Set> = self.old().into_iter().map(|index| &self.sets[index]).collect();
        old.retain(|set| set.object.metadata.deletion_timestamp.is_none());
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|set| (revision_of(set), set.object.metadata.creation_timestamp.clone()));
        let dropped = old.into_iter().take(surplus).filter(|set| is_settled_and_empty(set));
        self.dropped = dropped.map(|set| set.object.clone()).collect();
    }
}

fn is_settled_and_empty(set: &Set) -> bool {
    let observed = set.object.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
    set.actual() == 0 && set.replicas() == 0 && set.object.metadata.generation.unwrap_or(0) <= observed
}
