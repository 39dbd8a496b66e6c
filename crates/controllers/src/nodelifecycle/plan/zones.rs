//! How fast the nodes of a zone may be emptied: when many are silent at once, the network is more likely to blame than they are.
//!
//! - One node of a zone every 10 s, while most of the zone is healthy, or while none of it is.
//! - In a zone of which more than two nodes, and 55 % or more, are not ready: one every 100 s if the zone is large, else none.
//! - When no node of the cluster is healthy: none, and those that are being emptied are spared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::health::ready_status;

const USUAL: SignedDuration = SignedDuration::from_secs(10);
const SLOW: SignedDuration = SignedDuration::from_secs(100);

/// Of so many nodes in a hundred that are not ready a zone is in partial disruption.
const UNHEALTHY_PERCENT: usize = 55;

/// A zone with more nodes than this is large.
const LARGE: usize = 50;

/// What the nodes of the cluster look like, and when nodes were last allowed to be emptied.
#[derive(Debug, Default)]
pub(in super::super) struct Zones {
    next: BTreeMap<String, Timestamp>,
    /// No node was healthy when last looked at.
    all_down: bool,
}

/// What may be done about a node that is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Turn {
    Now,
    /// In this time, or when the zone is healthier.
    After(Option<Duration>),
    /// No node is healthy.
    Never,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    ready: usize,
    not_ready: usize,
}

impl Count {
    fn is_down(self) -> bool {
        self.ready == 0
    }

    fn is_partly_down(self) -> bool {
        self.not_ready > 2 && self.not_ready * 100 >= UNHEALTHY_PERCENT * (self.ready + self.not_ready)
    }

    /// What lies between two nodes; nothing if none may be emptied.
    fn interval(self) -> Option<SignedDuration> {
        match (self.is_down(), self.is_partly_down()) {
            (true, _) | (false, false) => Some(USUAL),
            (false, true) => (self.ready + self.not_ready > LARGE).then_some(SLOW),
        }
    }
}

impl Zones {
    /// Looks at all nodes. True if the first one is healthy again after none was: what was silent until then is heard anew.
    pub(in super::super) fn recovered(&mut self, nodes: &[Arc<Node>]) -> bool {
        let all_down = counts(nodes).values().all(|count| count.is_down());
        let was_down = std::mem::replace(&mut self.all_down, all_down);
        was_down && !all_down
    }

    /// What becomes of taints that nodes have already.
    pub(in super::super) fn standing(&self, nodes: &[Arc<Node>]) -> Turn {
        match counts(nodes).values().all(|count| count.is_down()) {
            true => Turn::Never,
            false => Turn::After(None),
        }
    }

    /// Whether it is the node's turn to be emptied; if so, the next one of its zone waits.
    pub(in super::super) fn turn(&mut self, node: &Node, nodes: &[Arc<Node>], now: Timestamp) -> Turn {
        let counts = counts(nodes);
        if counts.values().all(|count| count.is_down()) {
            return Turn::Never;
        }
        self.next.retain(|zone, _| counts.contains_key(zone));
        let zone = zone_of(node);
        let Some(interval) = counts.get(&zone).copied().unwrap_or_default().interval() else {
            return Turn::After(None);
        };
        match self.next.get(&zone) {
            Some(next) if *next > now => Turn::After(Duration::try_from(next.duration_since(now)).ok()),
            _ => {
                self.next.insert(zone, now.checked_add(interval).unwrap_or(now));
                Turn::Now
            }
        }
    }
}

fn counts(nodes: &[Arc<Node>]) -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for node in nodes {
        let count = counts.entry(zone_of(node)).or_default();
        *(if ready_status(node) == "True" { &mut count.ready } else { &mut count.not_ready }) += 1;
    }
    counts
}

/// Region and zone; a colon keeps them apart, which neither can have.
fn zone_of(node: &Node) -> String {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str);
    format!("{}:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}
