//! Where a Pod's claims can be served: bound volumes must be in reach, others must be had with the node.

use super::{Event, Filter, Plugin, Rejection};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::storage::{Asked, Storage};

pub(super) struct VolumeBinding;

struct Served<'a> {
    asked: Asked<'a>,
    storage: &'a Storage,
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::StorageChanged, Event::NodeAdded, Event::NodeChanged]
    }

    fn refusal(&self, pod: &PodInfo, cache: &Cache) -> Option<String> {
        cache.storage.asked(pod).err()
    }

    fn filter<'a>(&self, pod: &'a PodInfo, cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        let asked = cache.storage.asked(pod).ok()??;
        Some(Box::new(Served { asked, storage: &cache.storage }))
    }
}

impl<'a> Filter<'a> for Served<'a> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        self.storage.choose(&self.asked, node).map(drop)
    }
}

#[cfg(test)]
#[path = "volume_binding_tests.rs"]
mod tests;
