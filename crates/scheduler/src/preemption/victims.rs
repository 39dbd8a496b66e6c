//! Who has to leave one node.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::budgets::split;
use super::{Candidate, Facts, Victim};
use crate::filters::Filters;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// The fewest and least important Pods without which the Pod fits; why none will do otherwise.
pub(super) fn victims_on<'a>(
    filters: &mut Filters<'a>,
    pod: &PodInfo,
    node: &'a NodeInfo,
    facts: &Facts<'_>,
) -> Result<Candidate, Vec<Cow<'static, str>>> {
    let mut all: Vec<Victim> = node
        .pods
        .values()
        .filter(|other| other.priority < pod.priority)
        .map(|other| Victim { pod: other.clone(), started: (facts.started)(other) })
        .collect();
    if all.is_empty() {
        return Err(vec![Cow::Borrowed("No preemption victims found for incoming pod")]);
    }
    all.sort_by_key(importance);
    let mut imagined = Imagined { filters, node, left: node.clone() };
    all.iter().for_each(|victim| imagined.take_off(victim));
    let found = imagined.fit().map(|()| {
        let (violating, others) = split(all.clone(), facts.budgets);
        let mut victims: Vec<Victim> = violating.into_iter().filter(|victim| !imagined.may_stay(victim)).collect();
        let violations = i64::try_from(victims.len()).unwrap_or(i64::MAX);
        victims.extend(others.into_iter().filter(|victim| !imagined.may_stay(victim)));
        victims.sort_by_key(importance);
        Candidate { node: node.name.clone(), victims, violations }
    });
    imagined.restore(&all);
    found
}

/// The most important first: by priority, then the one that has run for longer.
fn importance(victim: &Victim) -> (Reverse<i32>, jiff::Timestamp) {
    (Reverse(victim.pod.priority), victim.started)
}

/// The node without some of its Pods.
struct Imagined<'f, 'a> {
    filters: &'f mut Filters<'a>,
    node: &'a NodeInfo,
    left: NodeInfo,
}

impl Imagined<'_, '_> {
    fn take_off(&mut self, victim: &Victim) {
        // What is borrowed must live as long as the cache, not as long as the list of victims.
        if let Some(there) = self.node.pods.get(&victim.pod.uid)
            && self.left.remove(&victim.pod.uid).is_some()
        {
            self.filters.count(there, self.node, -1);
        }
    }

    fn put_back(&mut self, victim: &Victim) {
        if let Some(there) = self.node.pods.get(&victim.pod.uid)
            && !self.left.pods.contains_key(&victim.pod.uid)
        {
            self.left.add(there.clone());
            self.filters.count(there, self.node, 1);
        }
    }

    fn fit(&mut self) -> Result<(), Vec<Cow<'static, str>>> {
        self.filters.check_as_if(self.node, &self.left).map_err(|(_, rejection)| rejection.reasons)
    }

    /// Puts it back, unless the Pod would not fit then.
    fn may_stay(&mut self, victim: &Victim) -> bool {
        self.put_back(victim);
        let fits = self.fit().is_ok();
        if !fits {
            self.take_off(victim);
        }
        fits
    }

    /// The filters count again what is there.
    fn restore(&mut self, victims: &[Victim]) {
        victims.iter().for_each(|victim| self.put_back(victim));
    }
}
