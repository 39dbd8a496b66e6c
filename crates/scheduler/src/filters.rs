//! All filters of one Pod, asked about nodes as they are and as they would be with other Pods on them.

use std::sync::Arc;

use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::plugins::{Filter, Plugin, Rejection};
use crate::pod::PodInfo;

/// The plugin that rejected a node, and why.
pub(crate) type Rejected = (&'static str, Rejection);

pub(crate) struct Filters<'a> {
    pod: &'a PodInfo,
    cache: &'a Cache,
    all: Vec<(&'static str, Box<dyn Filter<'a> + 'a>)>,
}

impl<'a> Filters<'a> {
    pub(crate) fn of(plugins: &[Box<dyn Plugin>], pod: &'a PodInfo, cache: &'a Cache) -> Self {
        let all = plugins.iter().filter_map(|plugin| Some((plugin.name(), plugin.filter(pod, cache)?))).collect();
        Filters { pod, cache, all }
    }

    /// Whether the Pod fits there, also with the Pods that are nominated to the node and come first.
    pub(crate) fn check(&mut self, node: &'a NodeInfo) -> Result<(), Rejected> {
        if self.cache.nominated.is_empty() { self.ask(node) } else { self.check_as_if(node, node) }
    }

    /// The same for the node as it is in `as_if`, a changed copy; [`Filters::count`] was told of what is changed.
    ///
    /// A Pod must fit with the nominated ones, for which room was made, and without them, since they may still go
    /// elsewhere.
    pub(crate) fn check_as_if(&mut self, node: &'a NodeInfo, as_if: &NodeInfo) -> Result<(), Rejected> {
        let pod = self.pod;
        let comes_first = |other: &&Arc<PodInfo>| other.priority >= pod.priority && other.uid != pod.uid;
        let nominated: Vec<&'a Arc<PodInfo>> = self.cache.nominated.on(&node.name).filter(comes_first).collect();
        if !nominated.is_empty() {
            let mut with = as_if.clone();
            for other in &nominated {
                with.add((*other).clone());
                self.count(other, node, 1);
            }
            let verdict = self.ask(&with);
            nominated.iter().for_each(|other| self.count(other, node, -1));
            verdict?;
        }
        self.ask(as_if)
    }

    pub(crate) fn count(&mut self, other: &'a PodInfo, node: &'a NodeInfo, change: i64) {
        self.all.iter_mut().for_each(|(_, filter)| filter.count(other, node, change));
    }

    fn ask(&self, node: &NodeInfo) -> Result<(), Rejected> {
        let rejected = self.all.iter().find_map(|(name, filter)| Some((*name, filter.check(node).err()?)));
        rejected.map_or(Ok(()), Err)
    }
}
