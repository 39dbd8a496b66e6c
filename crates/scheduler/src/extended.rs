//! A Pod that extenders are asked about: the same cycle in pieces, with their answers in between.
//!
//! While an extender is asked nothing is locked; the node that is chosen in the end is looked at again before it is taken.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;

use crate::cycle::{Cycle, Diagnosis};
use crate::extender::{Extender, Nodes};
use crate::plugins::EXTENDER;
use crate::pod::PodInfo;
use crate::scheduler::{Shared, Verdict, take};

/// Finds a node with the extenders' help; nothing if the Pod needs no node any more.
pub(crate) async fn attempt(
    shared: &Shared,
    cycle: &mut Cycle,
    pod: &Arc<PodInfo>,
    extenders: &[&Extender],
) -> Option<Verdict> {
    let feasible = {
        let cache = shared.cache();
        match cycle.feasible_nodes(pod, &cache) {
            Ok(nodes) => nodes,
            Err(diagnosis) => {
                shared.queue.park(pod, &diagnosis.plugins);
                return Some(Verdict::Unschedulable(diagnosis));
            }
        }
    };
    let all = feasible.len();
    let mut diagnosis = Diagnosis { nodes: all, ..Diagnosis::default() };
    let nodes = match filter(extenders, pod, feasible, &mut diagnosis).await {
        Ok(nodes) => nodes,
        Err(why) => return Some(Verdict::Failed(why)),
    };
    if nodes.is_empty() {
        let cache = shared.cache();
        diagnosis.nodes = cache.nodes().len();
        diagnosis.plugins.insert(EXTENDER);
        shared.queue.park(pod, &diagnosis.plugins);
        return Some(Verdict::Unschedulable(diagnosis));
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
    let mut cache = shared.cache();
    if cache.node(&chosen).is_none() {
        return Some(Verdict::Failed(format!("node {chosen:?} is gone")));
    }
    take(shared, &mut cache, pod, chosen)
}

/// One after the other: each sees what the others have left.
async fn filter(
    extenders: &[&Extender],
    pod: &PodInfo,
    mut nodes: Vec<(String, Arc<k8s_openapi::api::core::v1::Node>)>,
    diagnosis: &mut Diagnosis,
) -> Result<Vec<(String, Arc<k8s_openapi::api::core::v1::Node>)>, String> {
    for extender in extenders.iter().filter(|extender| extender.filters()) {
        if nodes.is_empty() {
            break;
        }
        match extender.filter(&pod.pod, &nodes).await {
            Ok(left) => {
                nodes.retain(|(name, _)| left.nodes.contains(name));
                for reason in left.failed.into_values() {
                    *diagnosis.reasons.entry(Cow::Owned(reason)).or_default() += 1;
                }
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
