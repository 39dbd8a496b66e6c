//! A Pod that extenders are asked about: the same cycle in pieces, with their answers in between.
//!
//! While an extender is asked nothing is locked; the node that is chosen in the end is looked at again before it is taken, and
//! what happened meanwhile counts when the Pod is set aside.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;

use crate::cache::Cache;
use crate::cycle::{Cycle, Diagnosis};
use crate::evict;
use crate::extender::{Extender, MetaVictims, Nodes};
use crate::plugins::EXTENDER;
use crate::pod::PodInfo;
use crate::preemption::{Candidate, Refused, Victim};
use crate::scheduler::{Shared, Verdict, refused, take};

/// Finds a node with the extenders' help; nothing if the Pod needs no node any more.
pub(crate) async fn attempt(
    shared: &Shared,
    cycle: &mut Cycle,
    pod: &Arc<PodInfo>,
    extenders: &[&Extender],
) -> Option<Verdict> {
    let moment = shared.queue.moment();
    let nominated = cycle.nominated_node(pod, &shared.cache());
    if let Some((name, node)) = nominated {
        // Why it will not do is not said: all nodes are looked at then, this one too.
        let there = filter(extenders, pod, vec![(name.clone(), node)], &mut Diagnosis::default()).await;
        if there.is_ok_and(|nodes| !nodes.is_empty()) {
            return take_if_there(shared, pod, name);
        }
    }
    let feasible = cycle.feasible_nodes(pod, &shared.cache());
    let (feasible, mut diagnosis) = match feasible {
        Ok(found) => found,
        Err(diagnosis) => return Some(preempt(shared, cycle, pod, extenders, (*diagnosis, moment)).await),
    };
    let nodes = match filter(extenders, pod, feasible, &mut diagnosis).await {
        Ok(nodes) => nodes,
        Err(why) => return Some(Verdict::Failed(why)),
    };
    if nodes.is_empty() {
        diagnosis.plugins.insert(EXTENDER);
        return Some(preempt(shared, cycle, pod, extenders, (diagnosis, moment)).await);
    }
    let chosen = match &nodes[..] {
        [(only, _)] => only.clone(),
        _ => {
            let mut scores = {
                let cache = shared.cache();
                cycle.scores(pod, &cache, &nodes)
            };
            for (name, more) in prioritize(extenders, pod, &nodes).await {
                if let Some(score) = scores.get_mut(&name) {
                    *score = score.saturating_add(more);
                }
            }
            cycle.choose(&scores)
        }
    };
    take_if_there(shared, pod, chosen)
}

fn take_if_there(shared: &Shared, pod: &Arc<PodInfo>, node: String) -> Option<Verdict> {
    let mut cache = shared.cache();
    if cache.node(&node).is_none() {
        return Some(Verdict::Failed(format!("node {node:?} is gone")));
    }
    take(shared, &mut cache, pod, node)
}

/// One after the other: each sees what the others have left.
async fn filter(
    extenders: &[&Extender],
    pod: &PodInfo,
    mut nodes: Vec<(String, Arc<Node>)>,
    diagnosis: &mut Diagnosis,
) -> Result<Vec<(String, Arc<Node>)>, String> {
    for extender in extenders.iter().filter(|extender| extender.filters()) {
        if nodes.is_empty() {
            break;
        }
        match extender.filter(&pod.pod, &nodes).await {
            Ok(left) => {
                nodes.retain(|(name, _)| left.nodes.contains(name));
                let reasons = left.failed.values().chain(left.unresolvable.values());
                diagnosis.reject(reasons.map(|reason| Cow::Owned(reason.clone())).collect());
                diagnosis.resolvable.retain(|name| !left.unresolvable.contains_key(name));
                diagnosis.resolvable.extend(left.failed.into_keys());
            }
            Err(why) if extender.is_ignorable() => tracing::info!(pod = %pod.key, why, "an extender is left out"),
            Err(why) => return Err(why),
        }
    }
    Ok(nodes)
}

/// All at once. One that fails gives no scores.
async fn prioritize(extenders: &[&Extender], pod: &PodInfo, nodes: &Nodes) -> BTreeMap<String, i64> {
    let asked = extenders.iter().filter(|extender| extender.prioritizes());
    let answers = join_all(asked.map(|extender| extender.prioritize(&pod.pod, nodes))).await;
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for answer in answers {
        match answer {
            Ok(scores) => {
                for (name, score) in scores {
                    let sum = sums.entry(name).or_default();
                    *sum = sum.saturating_add(score);
                }
            }
            Err(why) => tracing::info!(pod = %pod.key, why, "an extender gives no scores"),
        }
    }
    sums
}

/// Sets the Pod aside, after a search for room in which extenders have a say.
async fn preempt(
    shared: &Shared,
    cycle: &Cycle,
    pod: &Arc<PodInfo>,
    extenders: &[&Extender],
    (mut diagnosis, moment): (Diagnosis, u64),
) -> Verdict {
    let found = match diagnosis.is_final() {
        true => None,
        false => {
            let found = evict::search(shared, cycle, pod, &shared.cache(), &diagnosis);
            Some(match found {
                Ok(candidates) => agree(shared, pod, extenders, candidates).await.map_err(Refused::Failed),
                Err(refused) => Err(refused),
            })
        }
    };
    let mut cache = shared.cache();
    let nomination = match found {
        None => refused(&mut cache, pod, &mut diagnosis),
        Some(found) => {
            let (nomination, message) = evict::decide(shared, &mut cache, pod, found);
            diagnosis.preemption = message;
            nomination
        }
    };
    shared.queue.park_since(pod, &diagnosis.plugins, moment);
    Verdict::Unschedulable(diagnosis, nomination)
}

/// What the extenders leave of the candidates, one after the other.
async fn agree(
    shared: &Shared,
    pod: &PodInfo,
    extenders: &[&Extender],
    mut candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, String> {
    for extender in extenders.iter().filter(|extender| extender.preempts()) {
        if candidates.is_empty() {
            break;
        }
        let answer = match extender.preempt(&pod.pod, &candidates).await {
            Ok(answer) => known(&shared.cache(), &answer, &evict::starts(shared), extender.url()),
            Err(why) => Err(why),
        };
        let mut left = match answer {
            Ok(left) => left,
            Err(why) if extender.is_ignorable() => {
                tracing::info!(pod = %pod.key, why, "an extender is left out");
                continue;
            }
            Err(why) => return Err(why),
        };
        if extender.is_ignorable() {
            left.retain(|candidate| !candidate.victims.is_empty());
        } else if let Some(without) = left.iter().find(|candidate| candidate.victims.is_empty()) {
            return Err(format!("expected at least one victim pod on node {:?}", without.node));
        }
        candidates = left;
    }
    Ok(candidates)
}

/// The Pods that an extender names, of those on the nodes.
fn known(
    cache: &Cache,
    answer: &MetaVictims,
    started: &dyn Fn(&PodInfo) -> jiff::Timestamp,
    url: &str,
) -> Result<Vec<Candidate>, String> {
    let mut left = Vec::new();
    for (name, (uids, violations)) in answer {
        let Some(node) = cache.node(name) else { return Err(format!("nodeinfo not found for node name {name:?}")) };
        let mut victims = Vec::new();
        for uid in uids {
            let Some(pod) = node.pods.get(uid) else {
                return Err(format!(
                    "extender: {url} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is not found on that node"
                ));
            };
            victims.push(Victim { started: started(pod), pod: pod.clone() });
        }
        left.push(Candidate { node: name.clone(), victims, violations: *violations });
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{important, node};

    #[test]
    fn an_extender_can_name_only_pods_that_are_on_the_node() {
        let mut cache = Cache::default();
        cache.set_node(node("a", json!({})));
        cache.place(important("low", 1, "1"), "a");
        let of = |node: &str, uids: &[&str]| -> MetaVictims {
            [(node.to_owned(), (uids.iter().map(|uid| (*uid).to_owned()).collect(), 2))].into()
        };
        let known = |answer: &MetaVictims| known(&cache, answer, &|_| jiff::Timestamp::UNIX_EPOCH, "http://x");
        let left = known(&of("a", &["uid-low"])).unwrap();
        assert_eq!((left[0].node.as_str(), left[0].violations, left[0].victims.len()), ("a", 2, 1));
        assert!(known(&of("a", &[])).unwrap()[0].victims.is_empty());
        assert_eq!(known(&of("b", &[])).unwrap_err(), "nodeinfo not found for node name \"b\"");
        assert_eq!(
            known(&of("a", &["x"])).unwrap_err(),
            "extender: http://x claims to preempt pod (UID: &{x}) on node: a, but the pod is not found on that node"
        );
    }
}
