//! What PodDisruptionBudgets still allow.

use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::{Selector, SelectorExt};
use pintle_runtime::owner::parse_selector;

use super::Victim;

#[derive(Debug)]
pub(crate) struct Budget {
    budget: Arc<PodDisruptionBudget>,
    selector: Selector,
    allowed: i32,
}

impl Budget {
    /// Nothing if it selects nothing: without a selector, with an empty one, or with one that cannot be read.
    pub(super) fn of(budget: &Arc<PodDisruptionBudget>) -> Option<Self> {
        let selector = parse_selector(budget.spec.as_ref()?.selector.as_ref()?).ok()?;
        let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0);
        (!selector.selects_all()).then(|| Budget { budget: budget.clone(), selector, allowed })
    }

    /// Whether the Pod's end is counted here. One that the API server has already let go is counted there.
    fn covers(&self, victim: &Victim) -> bool {
        let let_go = self.budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
        self.budget.metadata.namespace.as_deref() == Some(victim.pod.key.namespace())
            && self.selector.matches(victim.pod.labels())
            && !let_go.is_some_and(|pods| pods.contains_key(victim.pod.key.name()))
    }
}

/// Those whose end a budget does not allow any more, and the others. Both keep their order, in which they use the budgets up.
pub(super) fn split(victims: Vec<Victim>, budgets: &[Budget]) -> (Vec<Victim>, Vec<Victim>) {
    let mut left: Vec<i32> = budgets.iter().map(|budget| budget.allowed).collect();
    victims.into_iter().partition(|victim| {
        let mut violates = false;
        // Without labels no selector is meant to match.
        let budgets = budgets.iter().zip(&mut left).filter(|_| !victim.pod.labels().is_empty());
        for (_, left) in budgets.filter(|(budget, _)| budget.covers(victim)) {
            *left = left.saturating_sub(1);
            violates |= *left < 0;
        }
        violates
    })
}
