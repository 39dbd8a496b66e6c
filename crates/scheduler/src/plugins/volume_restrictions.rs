//! A claim that only one Pod may use is used by one.

use pintle_runtime::Key;

use super::{Event, Filter, Plugin, Rejection};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

pub(super) struct VolumeRestrictions;

/// Claims for one Pod alone that this one asks for.
struct InUse<'a> {
    claims: Vec<&'a Key>,
    uses: i64,
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn helped_by(&self) -> &'static [Event] {
        &[Event::PodRemoved, Event::StorageChanged]
    }

    fn filter<'a>(&self, pod: &'a PodInfo, cache: &'a Cache) -> Option<Box<dyn Filter<'a> + 'a>> {
        let is_exclusive = |key: &Key| {
            let modes = cache.storage.claims.get(key).and_then(|claim| claim.spec.as_ref()?.access_modes.as_ref());
            modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod"))
        };
        let claims: Vec<&Key> = pod.claims.iter().map(|used| &used.key).filter(|key| is_exclusive(key)).collect();
        let uses: usize = claims.iter().map(|key| cache.uses_of(key)).sum();
        (uses > 0).then(|| Box::new(InUse { claims, uses: i64::try_from(uses).unwrap_or(i64::MAX) }) as _)
    }
}

impl<'a> Filter<'a> for InUse<'a> {
    fn check(&self, _node: &NodeInfo) -> Result<(), Rejection> {
        if self.uses <= 0 {
            return Ok(());
        }
        Rejection::of_pods(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        )
    }

    fn count(&mut self, other: &'a PodInfo, _node: &'a NodeInfo, change: i64) {
        let shared = other.claims.iter().filter(|used| self.claims.contains(&&used.key));
        self.uses += change * i64::try_from(shared.count()).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_runtime::Key;
    use serde_json::json;

    use super::super::testing::verdicts;
    use super::*;
    use crate::testing::{node, pod};

    #[test]
    fn a_claim_for_one_pod_is_given_to_one_at_a_time() {
        let mut cache = Cache::default();
        cache.set_node(node("n", json!({})));
        for (name, mode) in [("own", "ReadWriteOncePod"), ("shared", "ReadWriteOnce")] {
            let claim = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"accessModes": [mode]}});
            let claim = serde_json::from_value(claim).unwrap();
            cache.storage.set_claim(Key::new("shop", name), Some(Arc::new(claim)));
        }
        let using = |name: &str, claim: &str| {
            pod(name, json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
        };
        let fits = |cache: &Cache, claim: &str| {
            verdicts(&VolumeRestrictions, &using("second", claim), cache) == [String::new()]
        };
        for claim in ["own", "shared"] {
            cache.place(using(claim, claim), "n");
        }
        assert!(!fits(&cache, "own") && fits(&cache, "shared"));
        cache.displace("uid-own");
        assert!(fits(&cache, "own"));
    }
}
