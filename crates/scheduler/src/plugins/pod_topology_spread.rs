//! Pods of one kind stand evenly over zones, racks or nodes.

use std::collections::BTreeMap;

use super::node_affinity::Required;
use super::taint_toleration::{is_tolerated, tolerations};
use super::{Event, Filter, MAX_SCORE, Plugin, Rejection, Score};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::terms::Spread;

pub(super) struct PodTopologySpread;

/// How many Pods a constraint counts in each domain of its topology.
struct Count<'a> {
    spread: &'a Spread,
    domains: BTreeMap<&'a str, i64>,
    /// Whether this Pod counts too once it is placed.
    counts_itself: bool,
}

struct Limits<'a> {
    pod: &'a PodInfo,
    counts: Vec<Count<'a>>,
}

struct Wishes<'a>(Vec<Count<'a>>);

/// The raw score of a node that lacks a topology's label.
const OUTSIDE: i64 = -1;

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::NodeAdded, Event::NodeChanged, Event::PodPlaced, Event::PodRemoved]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        let counts = counts(pod, cache, true);
        (!counts.is_empty()).then(|| Box::new(Limits { pod, counts }) as _)
    }

    fn score<'a>(&self, pod: &'a PodInfo, cache: &'a Cache, _feasible: &[&'a NodeInfo]) -> Option<Box<dyn Score + 'a>> {
        let counts = counts(pod, cache, false);
        (!counts.is_empty()).then(|| Box::new(Wishes(counts)) as _)
    }

    fn weight(&self) -> i64 {
        2
    }
}

fn counts<'a>(pod: &'a PodInfo, cache: &'a Cache, required: bool) -> Vec<Count<'a>> {
    let spreads: Vec<&Spread> = pod.spreads.iter().filter(|spread| spread.required == required).collect();
    let affinity = Required::of(pod);
    let of = |spread: &'a Spread| {
        let mut domains = BTreeMap::new();
        for node in cache.nodes() {
            // A node that lacks a label of any constraint is outside all of them.
            let labelled = spreads.iter().all(|spread| node.label(&spread.topology_key).is_some());
            if !labelled || is_excluded(spread, pod, affinity.as_ref(), node) {
                continue;
            }
            if let Some(value) = node.label(&spread.topology_key) {
                let alike = node.pods.values().filter(|placed| is_alike(spread, pod, placed)).count();
                *domains.entry(value).or_default() += i64::try_from(alike).unwrap_or(i64::MAX);
            }
        }
        Count { spread, domains, counts_itself: spread.selects(pod.labels()) }
    };
    spreads.iter().map(|spread| of(spread)).collect()
}

/// Whether the Pods of a node do not count for a constraint.
fn is_excluded(spread: &Spread, pod: &PodInfo, affinity: Option<&Required<'_>>, node: &NodeInfo) -> bool {
    spread.honors_affinity && affinity.is_some_and(|required| !required.matches(node))
        || spread.honors_taints && !is_tolerated(tolerations(pod), node)
}

fn is_alike(spread: &Spread, pod: &PodInfo, placed: &PodInfo) -> bool {
    placed.key.namespace() == pod.key.namespace() && !placed.is_going() && spread.selects(placed.labels())
}

impl<'a> Filter<'a> for Limits<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        for count in &self.counts {
            let Some(value) = node.label(&count.spread.topology_key) else {
                return Rejection::of_node(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                );
            };
            let domains = i64::try_from(count.domains.len()).unwrap_or(i64::MAX);
            // Domains that are still to come count as empty.
            let fewest =
                if domains < count.spread.min_domains { 0 } else { count.domains.values().copied().min().unwrap_or(0) };
            let here = count.domains.get(value).copied().unwrap_or(0) + i64::from(count.counts_itself);
            if here - fewest > count.spread.max_skew {
                return Rejection::of_pods("node(s) didn't match pod topology spread constraints");
            }
        }
        Ok(())
    }

    fn count(&mut self, other: &'a PodInfo, node: &'a NodeInfo, change: i64) {
        if self.counts.iter().any(|count| node.label(&count.spread.topology_key).is_none()) {
            return;
        }
        let (pod, affinity) = (self.pod, Required::of(self.pod));
        for count in &mut self.counts {
            let counts = is_alike(count.spread, pod, other) && !is_excluded(count.spread, pod, affinity.as_ref(), node);
            if let Some(value) = node.label(&count.spread.topology_key).filter(|_| counts) {
                *count.domains.entry(value).or_default() += change;
            }
        }
    }
}

impl Score for Wishes<'_> {
    /// The fewer there are, the better; `normalize` turns it round.
    fn score(&self, node: &NodeInfo) -> i64 {
        let mut sum = 0.0;
        for count in &self.0 {
            let Some(value) = node.label(&count.spread.topology_key) else { return OUTSIDE };
            let here = count.domains.get(value).copied().unwrap_or(0) as f64;
            // Many domains make one Pod more or less weigh more.
            let weight = ((count.domains.len() + 2) as f64).ln();
            sum += here * weight + (count.spread.max_skew - 1) as f64;
        }
        sum.round() as i64
    }

    fn normalize(&self, scores: &mut [i64]) {
        let inside = || scores.iter().copied().filter(|score| *score != OUTSIDE);
        let (lowest, highest) = (inside().min().unwrap_or(0), inside().max().unwrap_or(0));
        for score in scores {
            *score = match *score {
                OUTSIDE => 0,
                _ if highest == 0 => MAX_SCORE,
                raw => MAX_SCORE * (highest + lowest - raw) / highest,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{scores, verdicts};
    use super::*;
    use crate::testing::{labelled, labelled_pod};

    /// Zone x with two nodes and two Pods `app: web`, zone y with one and none, and a node in no zone.
    fn cache() -> Cache {
        let mut cache = Cache::default();
        cache.set_node(labelled("a", json!({"zone": "x"})));
        cache.set_node(labelled("b", json!({"zone": "x"})));
        cache.set_node(labelled("c", json!({"zone": "y"})));
        cache.set_node(labelled("d", json!({})));
        for name in ["w1", "w2"] {
            cache.place(labelled_pod(name, json!({"app": "web"}), json!({})), "a");
        }
        cache
    }

    fn web(skew: i64, when: &str, extra: Value) -> std::sync::Arc<PodInfo> {
        let mut constraint = json!({"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": when,
                                    "labelSelector": {"matchLabels": {"app": "web"}}});
        for (field, value) in extra.as_object().into_iter().flatten() {
            constraint[field] = value.clone();
        }
        labelled_pod("p", json!({"app": "web"}), json!({"topologySpreadConstraints": [constraint]}))
    }

    #[test]
    fn a_domain_may_not_run_too_far_ahead() {
        let skewed = "node(s) didn't match pod topology spread constraints";
        let outside = "node(s) didn't match pod topology spread constraints (missing required label)";
        let cases = [
            (1, json!({}), [skewed, skewed, "", outside]),
            (3, json!({}), ["", "", "", outside]),
            (2, json!({"minDomains": 3}), [skewed, skewed, "", outside]),
        ];
        for (skew, extra, expected) in cases {
            let pod = web(skew, "DoNotSchedule", extra);
            assert_eq!(verdicts(&PodTopologySpread, &pod, &cache()), expected, "{skew}");
        }
    }

    #[test]
    fn emptier_domains_are_better_if_it_is_a_wish() {
        let pod = web(1, "ScheduleAnyway", json!({}));
        assert_eq!(verdicts(&PodTopologySpread, &pod, &cache()), ["", "", "", ""]);
        assert_eq!(scores(&PodTopologySpread, &pod, &cache()), Some(vec![0, 0, 100, 0]));
    }
}
