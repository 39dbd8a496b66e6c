//! Scaling: one set to a size, or all of them in proportion.

use std::cmp::Reverse;

use super::revision::{DESIRED_REPLICAS, MAX_REPLICAS};
use super::{Rollout, fenceposts};

impl Rollout {
    /// Whether the Deployment's size has changed since its sets were last scaled.
    pub(super) fn was_scaled(&self) -> bool {
        let wanted = self.wanted();
        let mut active = self.sets.iter().filter(|set| set.replicas() > 0);
        active.any(|set| number(set.annotation(DESIRED_REPLICAS)).is_some_and(|desired| desired != wanted))
    }

    /// Gives a set a size, with an event; `always` notes the Deployment's size on it even if its own stays.
    pub(super) fn scale_set(&mut self, index: usize, replicas: i32, always: bool) -> bool {
        let (desired, most) = (self.wanted(), self.wanted() + fenceposts::max_surge(&self.deployment));
        let set = &mut self.sets[index];
        let before = set.replicas();
        if !always && before == replicas {
            return false;
        }
        set.annotate(DESIRED_REPLICAS, &desired.to_string());
        set.annotate(MAX_REPLICAS, &most.to_string());
        if before == replicas {
            return false;
        }
        if let Some(spec) = &mut set.object.spec {
            spec.replicas = Some(replicas);
        }
        set.changed = true;
        true
    }

    /// Scales without hastening a rollout: every set gets its share of what comes or goes.
    pub(super) fn scale(&mut self) {
        if let Some(only) = self.active_or_latest() {
            self.scale_set(only, self.wanted(), false);
            return;
        }
        if self.is_saturated() {
            for old in self.old() {
                self.scale_set(old, 0, false);
            }
            return;
        }
        if fenceposts::is_rolling(&self.deployment) {
            self.scale_in_proportion();
        }
    }

    /// The set to scale if there is only one to choose: the only active one, or the latest if none is active.
    fn active_or_latest(&self) -> Option<usize> {
        let active: Vec<usize> = (0..self.sets.len()).filter(|index| self.sets[*index].replicas() > 0).collect();
        match active.as_slice() {
            [] => self.new.or_else(|| self.sets.len().checked_sub(1)),
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Whether the new set alone serves what is wanted.
    fn is_saturated(&self) -> bool {
        let Some(set) = self.new.map(|new| &self.sets[new]) else { return false };
        let wanted = self.wanted();
        let desired = number(set.annotation(DESIRED_REPLICAS));
        set.replicas() == wanted && desired == Some(wanted) && set.available() == wanted
    }

    fn scale_in_proportion(&mut self) {
        let wanted = self.wanted();
        let allowed = if wanted > 0 { wanted + fenceposts::max_surge(&self.deployment) } else { 0 };
        let mut active: Vec<usize> = (0..self.sets.len()).filter(|index| self.sets[*index].replicas() > 0).collect();
        let to_add = allowed - active.iter().map(|index| self.sets[*index].replicas()).sum::<i32>();
        // Largest first; of equals the newest grows first and the oldest shrinks first.
        let replicas = |index: &usize| self.sets[*index].replicas();
        match to_add > 0 {
            true => active.sort_by_key(|index| (Reverse(replicas(index)), Reverse(*index))),
            false => active.sort_by_key(|index| (Reverse(replicas(index)), *index)),
        }
        let mut sizes = Vec::new();
        let mut added = 0;
        for index in active {
            let share = self.share(index, to_add, added);
            added += share;
            sizes.push((index, self.sets[index].replicas() + share));
        }
        // What rounding left over goes to the largest.
        if let Some((_, size)) = sizes.first_mut() {
            *size = (*size + to_add - added).max(0);
        }
        for (index, size) in sizes {
            self.scale_set(index, size, true);
        }
    }

    /// A set's part of what is to be added (or taken away), given what others already got.
    fn share(&self, index: usize, to_add: i32, added: i32) -> i32 {
        if to_add == 0 || to_add == added {
            return 0;
        }
        let (fraction, left) = (self.fraction(index), to_add - added);
        if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
    }

    fn fraction(&self, index: usize) -> i32 {
        let set = &self.sets[index];
        if self.wanted() == 0 {
            return -set.replicas();
        }
        let most_before = number(set.annotation(MAX_REPLICAS)).filter(|most| *most > 0);
        let most_before = most_before.unwrap_or_else(|| self.status().replicas.unwrap_or(0));
        if most_before == 0 {
            return 0;
        }
        let most = self.wanted() + fenceposts::max_surge(&self.deployment);
        let size = f64::from(set.replicas()) * f64::from(most) / f64::from(most_before);
        // Both are Pod counts, far below where the conversion would lose anything.
        size.round() as i32 - set.replicas()
    }
}

fn number(annotation: Option<&str>) -> Option<i32> {
    annotation?.parse().ok().filter(|number| *number >= 0)
}
