//! One Pod, all nodes, one answer: filter, score, choose. No I/O.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use pintle_meta::Random;

use crate::cache::Cache;
use crate::filters::Filters;
use crate::node::NodeInfo;
use crate::plugins::{Plugin, Score};
use crate::pod::PodInfo;

/// Clusters up to this size are always looked at as a whole.
const FEW: usize = 100;

/// A node as extenders are told of it.
pub type NamedNode = (String, Arc<Node>);

/// Why no node will do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    pub nodes: usize,
    /// Why no node at all will do, whatever it is like.
    pub refusal: Option<String>,
    /// On how many nodes each reason holds.
    pub reasons: BTreeMap<Cow<'static, str>, usize>,
    /// The plugins that said no.
    pub plugins: BTreeSet<&'static str>,
    /// Nodes on which the Pod may fit when other Pods leave them, in the order in which they were looked at.
    pub resolvable: Vec<String>,
    /// What came of the search for Pods that could make room.
    pub preemption: String,
}

impl Diagnosis {
    /// Whether nodes do not come into it: there are none, or the Pod was refused before any was looked at.
    pub(crate) fn is_final(&self) -> bool {
        self.nodes == 0 || self.refusal.is_some()
    }

    pub(crate) fn reject(&mut self, reasons: Vec<Cow<'static, str>>) {
        for reason in reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return formatter.write_str("no nodes available to schedule pods");
        }
        write!(formatter, "0/{} nodes are available:", self.nodes)?;
        // By their text, counts first, as upstream sorts them.
        let mut reasons: Vec<String> = self.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        reasons.sort();
        match &self.refusal {
            Some(refusal) => write!(formatter, " {refusal}.")?,
            None if reasons.is_empty() => {}
            None => write!(formatter, " {}.", reasons.join(", "))?,
        }
        if self.preemption.is_empty() { Ok(()) } else { write!(formatter, " {}", self.preemption) }
    }
}

/// A diagnosis whose nodes are not copied yet: while one node fits, nobody asks for the others.
struct Unfinished<'a> {
    diagnosis: Diagnosis,
    resolvable: Vec<&'a str>,
}

impl Unfinished<'_> {
    fn finish(self) -> Diagnosis {
        let resolvable = self.resolvable.into_iter().map(str::to_owned).collect();
        Diagnosis { resolvable, ..self.diagnosis }
    }
}

/// Chooses nodes. Remembers only where it left off, so that large clusters are filled evenly.
pub struct Cycle {
    plugins: Vec<Box<dyn Plugin>>,
    random: Random,
    next_node: usize,
}

impl Cycle {
    pub fn new(plugins: Vec<Box<dyn Plugin>>, random: Random) -> Self {
        Cycle { plugins, random, next_node: 0 }
    }

    pub fn plugins(&self) -> &[Box<dyn Plugin>] {
        &self.plugins
    }

    pub(crate) fn random(&self) -> &Random {
        &self.random
    }

    /// The name of the best node for the Pod, as far as it is worth looking.
    pub fn schedule(&mut self, pod: &PodInfo, cache: &Cache) -> Result<String, Box<Diagnosis>> {
        if !cache.nominated.is_empty()
            && let Some(node) = self.fitting_nominated_node(pod, cache)
        {
            return Ok(node.name.clone());
        }
        let (feasible, _) = self.search(pod, cache)?;
        let [only] = feasible[..] else { return Ok(self.best(pod, cache, &feasible).name.clone()) };
        Ok(only.name.clone())
    }

    /// The node that the Pod is nominated to, if it fits there.
    pub(crate) fn nominated_node(&self, pod: &PodInfo, cache: &Cache) -> Option<NamedNode> {
        let node = self.fitting_nominated_node(pod, cache)?;
        Some((node.name.clone(), node.node.clone()))
    }

    /// The nodes that would do, for extenders to judge, and what is wrong with the others.
    pub(crate) fn feasible_nodes(
        &mut self,
        pod: &PodInfo,
        cache: &Cache,
    ) -> Result<(Vec<NamedNode>, Diagnosis), Box<Diagnosis>> {
        let (feasible, diagnosis) = self.search(pod, cache)?;
        let nodes = feasible.into_iter().map(|node| (node.name.clone(), node.node.clone())).collect();
        Ok((nodes, diagnosis.finish()))
    }

    /// How good each of these nodes is, as far as they are still there.
    pub fn scores(&self, pod: &PodInfo, cache: &Cache, nodes: &[NamedNode]) -> BTreeMap<String, i64> {
        let there: Vec<&NodeInfo> = nodes.iter().filter_map(|(name, _)| cache.node(name)).collect();
        let sums = self.sums(pod, cache, &there);
        there.iter().map(|node| node.name.clone()).zip(sums).collect()
    }

    /// One with the highest score; empty if there is none at all.
    pub fn choose(&self, scores: &BTreeMap<String, i64>) -> String {
        let highest = scores.values().copied().max().unwrap_or(0);
        let best: Vec<&String> = scores.iter().filter(|(_, score)| **score == highest).map(|(name, _)| name).collect();
        let chosen = usize::try_from(self.random.below(best.len().max(1) as u64)).unwrap_or(0);
        best.get(chosen).map(|name| (*name).clone()).unwrap_or_default()
    }

    /// Room was made there, so that it is likely the only node that will do.
    fn fitting_nominated_node<'a>(&self, pod: &'a PodInfo, cache: &'a Cache) -> Option<&'a NodeInfo> {
        let node = cache.node(cache.nominated.node_of(&pod.uid)?)?;
        let is_refused = self.plugins.iter().any(|plugin| plugin.refusal(pod, cache).is_some());
        let fits = !is_refused && Filters::of(&self.plugins, pod, cache).check(node).is_ok();
        fits.then_some(node)
    }

    fn search<'a>(
        &mut self,
        pod: &'a PodInfo,
        cache: &'a Cache,
    ) -> Result<(Vec<&'a NodeInfo>, Unfinished<'a>), Box<Diagnosis>> {
        let nodes = cache.nodes();
        let mut diagnosis = Diagnosis { nodes: nodes.len(), ..Diagnosis::default() };
        for plugin in &self.plugins {
            if let Some(refusal) = plugin.refusal(pod, cache) {
                diagnosis.plugins.insert(plugin.name());
                return Err(Diagnosis { refusal: Some(refusal), ..diagnosis }.into());
            }
        }
        let mut filters = Filters::of(&self.plugins, pod, cache);
        let enough = enough(nodes.len());
        let (mut feasible, mut resolvable, mut looked_at) = (Vec::new(), Vec::new(), 0);
        while looked_at < nodes.len() && feasible.len() < enough {
            let node = &nodes[(self.next_node + looked_at) % nodes.len()];
            looked_at += 1;
            match filters.check(node) {
                Ok(()) => feasible.push(node),
                Err((plugin, rejection)) => {
                    diagnosis.plugins.insert(plugin);
                    if rejection.is_resolvable {
                        resolvable.push(node.name.as_str());
                    }
                    diagnosis.reject(rejection.reasons);
                }
            }
        }
        self.next_node = (self.next_node + looked_at) % nodes.len().max(1);
        let unfinished = Unfinished { diagnosis, resolvable };
        if feasible.is_empty() { Err(unfinished.finish().into()) } else { Ok((feasible, unfinished)) }
    }

    /// The node with the highest sum of weighted scores; among equals chance decides.
    fn best<'a>(&self, pod: &'a PodInfo, cache: &'a Cache, feasible: &[&'a NodeInfo]) -> &'a NodeInfo {
        let sums = self.sums(pod, cache, feasible);
        let highest = sums.iter().copied().max().unwrap_or(0);
        let best: Vec<&'a NodeInfo> =
            sums.iter().zip(feasible).filter(|(sum, _)| **sum == highest).map(|(_, node)| *node).collect();
        let chosen = usize::try_from(self.random.below(best.len() as u64)).unwrap_or(0);
        best[chosen]
    }

    /// The sum of weighted scores of each node.
    fn sums<'a>(&self, pod: &'a PodInfo, cache: &'a Cache, feasible: &[&'a NodeInfo]) -> Vec<i64> {
        let mut sums = vec![0i64; feasible.len()];
        let mut scores = vec![0i64; feasible.len()];
        for plugin in &self.plugins {
            let Some(score): Option<Box<dyn Score + 'a>> = plugin.score(pod, cache, feasible) else { continue };
            for (value, node) in scores.iter_mut().zip(feasible) {
                *value = score.score(node);
            }
            score.normalize(&mut scores);
            for (sum, value) in sums.iter_mut().zip(&scores) {
                *sum += value * plugin.weight();
            }
        }
        sums
    }
}

/// How many feasible nodes are enough to choose from: half of a small cluster, a twentieth of a huge one.
fn enough(nodes: usize) -> usize {
    if nodes < FEW {
        return nodes;
    }
    let percent = 50usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(FEW)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins;
    use crate::testing::{asking, node, pod};

    fn cycle() -> Cycle {
        Cycle::new(plugins::all(BTreeSet::new()), Random::seeded(1))
    }

    #[test]
    fn a_pod_that_fits_nowhere_is_told_why_in_upstreams_words() {
        let mut cache = Cache::default();
        assert_eq!(
            cycle().schedule(&pod("p", json!({})), &cache).unwrap_err().to_string(),
            "no nodes available to schedule pods"
        );
        cache.set_node(node("a", json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}})));
        cache.set_node(node("b", json!({})));
        cache.set_node(node("c", json!({})));
        let diagnosis = cycle().schedule(&asking("p", "5", "1Gi"), &cache).unwrap_err();
        assert_eq!(
            diagnosis.to_string(),
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
        );
        assert_eq!(diagnosis.plugins, ["NodeResourcesFit", "TaintToleration"].into());
    }

    #[test]
    fn pods_are_spread_over_equal_nodes() {
        let mut cache = Cache::default();
        for index in 0..4 {
            cache.set_node(node(&index.to_string(), json!({})));
        }
        let mut cycle = cycle();
        for index in 0..8 {
            let pod = asking(&index.to_string(), "1", "1Gi");
            let chosen = cycle.schedule(&pod, &cache).unwrap();
            cache.place(pod, &chosen);
        }
        assert!(cache.nodes().iter().all(|node| node.pods.len() == 2));
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let run = || {
            let mut cache = Cache::default();
            (0..5).for_each(|index| cache.set_node(node(&index.to_string(), json!({}))));
            let mut cycle = cycle();
            (0..9).map(|_| cycle.schedule(&pod("p", json!({})), &cache).unwrap()).collect::<Vec<_>>()
        };
        let choices = run();
        assert_eq!(choices, run());
        assert!(choices.iter().any(|choice| *choice != choices[0]), "chance decides among equals");
    }

    #[test]
    fn a_large_cluster_is_not_searched_to_the_end() {
        let cases = [(10, 10), (99, 99), (100, 100), (1000, 420), (5000, 500), (10000, 500)];
        for (nodes, expected) in cases {
            assert_eq!(enough(nodes), expected, "{nodes}");
        }
    }
}
