//! Pods that must or would rather be near other Pods, or far from them.
//!
//! Nothing is counted unless this Pod, or one that is placed, says something of the kind.

use std::collections::BTreeMap;

use super::{Event, Filter, MAX_SCORE, Plugin, Rejection, Score};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::terms::{Namespaces, PodTerm};

/// What a required affinity of a placed Pod weighs when nodes are compared.
const REQUIRED_WEIGHT: i64 = 1;

pub(super) struct InterPodAffinity;

/// How much there is of something, by topology key and value.
type Counts<'a> = BTreeMap<&'a str, BTreeMap<&'a str, i64>>;

struct Placement<'a> {
    pod: &'a PodInfo,
    namespaces: &'a Namespaces,
    /// Where placed Pods keep this one away.
    unwelcome: Counts<'a>,
    /// Placed Pods that meet all of this one's affinity terms.
    near: Counts<'a>,
    /// Placed Pods that meet one of this one's anti-affinity terms.
    far: Counts<'a>,
    /// It may be the first of those that want to be together.
    may_be_first: bool,
}

struct Attraction<'a>(Counts<'a>);

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded, Event::NodeChanged, Event::PodPlaced, Event::PodRemoved, Event::NamespaceChanged]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        let has_own = !pod.affinity.is_empty() || !pod.anti_affinity.is_empty();
        if !has_own && cache.with_anti_affinity == 0 {
            return None;
        }
        let mut placement = Placement {
            pod,
            namespaces: &cache.namespaces,
            unwelcome: Counts::new(),
            near: Counts::new(),
            far: Counts::new(),
            may_be_first: pod.affinity.iter().all(|term| term.matches(pod, &cache.namespaces)),
        };
        for node in cache.nodes().iter().filter(|node| has_own || node.with_anti_affinity > 0) {
            for placed in node.pods.values() {
                placement.count(placed, node, 1);
            }
        }
        Some(Box::new(placement))
    }

    fn score<'a>(&self, pod: &'a PodInfo, cache: &'a Cache, _feasible: &[&'a NodeInfo]) -> Option<Box<dyn Score + 'a>> {
        if pod.preferred.is_empty() && cache.with_terms == 0 {
            return None;
        }
        let mut counts = Counts::new();
        for node in cache.nodes().iter().filter(|node| !pod.preferred.is_empty() || node.with_terms > 0) {
            for placed in node.pods.values() {
                for weighted in &pod.preferred {
                    if weighted.term.matches(placed, &cache.namespaces) {
                        count(&mut counts, node, &weighted.term, weighted.weight);
                    }
                }
                for weighted in &placed.preferred {
                    if weighted.term.matches(pod, &cache.namespaces) {
                        count(&mut counts, node, &weighted.term, weighted.weight);
                    }
                }
                for term in &placed.affinity {
                    if term.matches(pod, &cache.namespaces) {
                        count(&mut counts, node, term, REQUIRED_WEIGHT);
                    }
                }
            }
        }
        (!counts.is_empty()).then(|| Box::new(Attraction(counts)) as _)
    }

    fn weight(&self) -> i64 {
        2
    }
}

fn count<'a>(counts: &mut Counts<'a>, node: &'a NodeInfo, term: &'a PodTerm, weight: i64) {
    if let Some(value) = node.label(&term.topology_key) {
        *counts.entry(&term.topology_key).or_default().entry(value).or_default() += weight;
    }
}

impl<'a> Filter<'a> for Placement<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        let found = |counts: &Counts<'_>, key: &str| {
            let values = counts.get(key).zip(node.label(key));
            values.is_some_and(|(values, value)| values.get(value).is_some_and(|count| *count > 0))
        };
        if !self.pod.affinity.is_empty() {
            let labelled = self.pod.affinity.iter().all(|term| node.label(&term.topology_key).is_some());
            let near = self.pod.affinity.iter().all(|term| found(&self.near, &term.topology_key));
            let nowhere = || self.near.values().flat_map(BTreeMap::values).all(|count| *count == 0);
            if !labelled || !(near || (self.may_be_first && nowhere())) {
                return Rejection::of_node("node(s) didn't match pod affinity rules");
            }
        }
        if self.pod.anti_affinity.iter().any(|term| found(&self.far, &term.topology_key)) {
            return Rejection::of_pods("node(s) didn't match pod anti-affinity rules");
        }
        if self.unwelcome.keys().any(|key| found(&self.unwelcome, key)) {
            return Rejection::of_pods("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        Ok(())
    }

    fn count(&mut self, other: &'a PodInfo, node: &'a NodeInfo, change: i64) {
        let (pod, namespaces) = (self.pod, self.namespaces);
        for term in other.anti_affinity.iter().filter(|term| term.matches(pod, namespaces)) {
            count(&mut self.unwelcome, node, term, change);
        }
        let meets = |term: &PodTerm| term.matches(other, namespaces);
        if !pod.affinity.is_empty() && pod.affinity.iter().all(meets) {
            pod.affinity.iter().for_each(|term| count(&mut self.near, node, term, change));
        }
        for term in pod.anti_affinity.iter().filter(|term| meets(term)) {
            count(&mut self.far, node, term, change);
        }
    }
}

impl Score for Attraction<'_> {
    fn score(&self, node: &NodeInfo) -> i64 {
        let here = self.0.iter().filter_map(|(key, values)| values.get(node.label(key)?));
        here.sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        let (lowest, highest) = (scores.iter().copied().min().unwrap_or(0), scores.iter().copied().max().unwrap_or(0));
        for score in scores {
            *score = if highest > lowest { MAX_SCORE * (*score - lowest) / (highest - lowest) } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{scores, verdicts};
    use super::*;
    use crate::testing::{labelled, labelled_pod, pod};

    /// Nodes a and b in zone x, c in zone y; a Pod `app: db` on a.
    fn cache(db: Value) -> Cache {
        let mut cache = Cache::default();
        cache.set_node(labelled("a", json!({"zone": "x"})));
        cache.set_node(labelled("b", json!({"zone": "x"})));
        cache.set_node(labelled("c", json!({"zone": "y"})));
        cache.place(labelled_pod("db", json!({"app": "db"}), db), "a");
        cache
    }

    fn term(app: &str, key: &str) -> Value {
        json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
    }

    fn required(kind: &str, term: Value) -> Value {
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    }

    #[test]
    fn what_must_be_together_is_and_what_must_be_apart_is_not() {
        let (near, far) = ("podAffinity", "podAntiAffinity");
        let unmet = "node(s) didn't match pod affinity rules";
        let clash = "node(s) didn't match pod anti-affinity rules";
        let cases = [
            (required(near, term("db", "zone")), ["", "", unmet]),
            (required(near, term("db", "kubernetes.io/hostname")), ["", unmet, unmet]),
            (required(near, term("other", "zone")), [unmet, unmet, unmet]),
            (required(near, term("db", "rack")), [unmet, unmet, unmet]),
            (required(near, term("web", "zone")), ["", "", ""]),
            (required(far, term("db", "zone")), [clash, clash, ""]),
            (required(far, term("db", "kubernetes.io/hostname")), [clash, "", ""]),
        ];
        for (spec, expected) in cases {
            let web = labelled_pod("web", json!({"app": "web"}), spec.clone());
            assert_eq!(verdicts(&InterPodAffinity, &web, &cache(json!({}))), expected, "{spec}");
        }
    }

    #[test]
    fn a_placed_pod_keeps_others_away() {
        let cache = cache(required("podAntiAffinity", term("web", "zone")));
        let away = "node(s) didn't satisfy existing pods anti-affinity rules";
        let web = labelled_pod("web", json!({"app": "web"}), json!({}));
        assert_eq!(verdicts(&InterPodAffinity, &web, &cache), [away, away, ""]);
        assert_eq!(verdicts(&InterPodAffinity, &pod("other", json!({})), &cache), ["", "", ""]);
    }

    #[test]
    fn preferences_pull_and_push() {
        let preferred = |kind: &str| {
            let term = json!({"weight": 10, "podAffinityTerm": term("db", "zone")});
            json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}})
        };
        let cache = cache(json!({}));
        let scores_of = |spec| scores(&InterPodAffinity, &pod("p", spec), &cache);
        assert_eq!(scores_of(preferred("podAffinity")), Some(vec![100, 100, 0]));
        assert_eq!(scores_of(preferred("podAntiAffinity")), Some(vec![0, 0, 100]));
        assert_eq!(scores_of(json!({})), None);
    }
}
