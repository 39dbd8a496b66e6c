//! What a Pod says about where other Pods are: affinity, anti-affinity and spread.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{Selector, SelectorExt};
use pintle_runtime::owner::parse_selector;

use crate::pod::PodInfo;

/// Labels of namespaces, by name.
pub type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// Which Pods are meant, and what counts as near them.
#[derive(Debug)]
pub struct PodTerm {
    /// Nothing selects nothing.
    selector: Option<Selector>,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<Selector>,
    pub topology_key: String,
}

#[derive(Debug)]
pub struct WeightedPodTerm {
    pub term: PodTerm,
    pub weight: i64,
}

impl PodTerm {
    pub fn matches(&self, pod: &PodInfo, namespaces: &Namespaces) -> bool {
        let in_namespace = self.namespaces.contains(pod.key.namespace())
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                namespaces.get(pod.key.namespace()).is_some_and(|labels| selector.matches(labels))
            });
        in_namespace && self.selector.as_ref().is_some_and(|selector| selector.matches(pod.labels()))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) affinity: Vec<PodTerm>,
    pub(crate) anti_affinity: Vec<PodTerm>,
    pub(crate) preferred: Vec<WeightedPodTerm>,
}

pub(crate) fn terms(pod: &Pod) -> Terms {
    let Some(affinity) = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()) else { return Terms::default() };
    let required =
        |terms: Option<&Vec<PodAffinityTerm>>| terms.into_iter().flatten().map(|term| read(pod, term)).collect();
    let weighted = |terms: Option<&Vec<WeightedPodAffinityTerm>>, sign: i64| -> Vec<WeightedPodTerm> {
        let terms = terms.into_iter().flatten();
        terms
            .map(|weighted| WeightedPodTerm {
                term: read(pod, &weighted.pod_affinity_term),
                weight: sign * i64::from(weighted.weight),
            })
            .collect()
    };
    let (near, far) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
    let mut preferred =
        weighted(near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref()), 1);
    preferred
        .extend(weighted(far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref()), -1));
    Terms {
        affinity: required(near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())),
        anti_affinity: required(far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref())),
        preferred,
    }
}

fn read(pod: &Pod, term: &PodAffinityTerm) -> PodTerm {
    let mut selector = term.label_selector.clone();
    if let Some(selector) = &mut selector {
        for (keys, operator) in [(&term.match_label_keys, "In"), (&term.mismatch_label_keys, "NotIn")] {
            merge_keys(selector, pod, keys.as_deref().unwrap_or_default(), operator);
        }
    }
    let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
    // Said nothing about namespaces: the Pod's own.
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.extend(pod.metadata.namespace.clone());
    }
    PodTerm {
        selector: selector.and_then(|selector| parse_selector(&selector).ok()),
        namespaces,
        namespace_selector: term.namespace_selector.as_ref().and_then(|selector| parse_selector(selector).ok()),
        topology_key: term.topology_key.clone(),
    }
}

/// Makes the Pod's own values of these labels part of a selector.
fn merge_keys(selector: &mut LabelSelector, pod: &Pod, keys: &[String], operator: &str) {
    let labels = pod.metadata.labels.as_ref();
    for key in keys {
        if let Some(value) = labels.and_then(|labels| labels.get(key)) {
            selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            });
        }
    }
}

/// How evenly Pods like this one are to stand in a topology.
#[derive(Debug)]
pub struct Spread {
    pub topology_key: String,
    pub max_skew: i64,
    pub min_domains: i64,
    /// `DoNotSchedule`; the other is a wish.
    pub required: bool,
    selector: Option<Selector>,
    /// Nodes that the Pod's node affinity excludes do not count.
    pub honors_affinity: bool,
    /// Nodes whose taints the Pod does not tolerate do not count.
    pub honors_taints: bool,
}

impl Spread {
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

pub(crate) fn spreads(pod: &Pod) -> Vec<Spread> {
    let constraints = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_ref());
    let read = |constraint: &TopologySpreadConstraint| {
        let mut selector = constraint.label_selector.clone();
        if let Some(selector) = &mut selector {
            merge_keys(selector, pod, constraint.match_label_keys.as_deref().unwrap_or_default(), "In");
        }
        Spread {
            topology_key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            required: constraint.when_unsatisfiable == "DoNotSchedule",
            selector: selector.and_then(|selector| parse_selector(&selector).ok()),
            honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    };
    constraints.into_iter().flatten().map(read).collect()
}
