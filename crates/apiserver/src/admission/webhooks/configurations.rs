//! All webhooks of one kind, in the order in which they are asked, and an index by the resources that their rules name.

use super::hook::Hook;
use crate::codec;
use crate::follow::Followed;
use crate::keys;
use imbl::OrdMap;
use pintle_meta::object;
use pintle_store::Entry;
use std::collections::HashMap;
use std::sync::Arc;

/// Configurations by name, each with its webhooks in order.
#[derive(Clone, Default)]
pub struct Configurations {
    by_name: OrdMap<String, Arc<[Arc<Hook>]>>,
    index: Arc<Index>,
}

#[derive(Default)]
struct Index {
    /// Ordered by configuration and place in it.
    hooks: Vec<Arc<Hook>>,
    by_resource: HashMap<String, Vec<usize>>,
    /// Those with a rule for every resource.
    of_all: Vec<usize>,
}

pub const MUTATING: &[&str] = &[keys::MUTATING_WEBHOOKS];
pub const VALIDATING: &[&str] = &[keys::VALIDATING_WEBHOOKS];

impl Followed for Configurations {
    fn change(&mut self, key: &str, entry: Option<&Entry>) {
        let prefix = MUTATING.iter().chain(VALIDATING).find_map(|prefix| keys::rest(key, prefix));
        let Some(name) = prefix else { return };
        match entry {
            None => _ = self.by_name.remove(name),
            Some(entry) => {
                let configuration = codec::decode(&entry.value);
                let webhooks = object::list(&configuration, &["webhooks"]).iter().enumerate();
                let hooks = webhooks.map(|(index, webhook)| Arc::new(Hook::read(webhook, name, index))).collect();
                self.by_name.insert(name.to_owned(), hooks);
            }
        }
    }

    fn settle(&mut self) {
        let mut index = Index {
            hooks: self.by_name.values().flat_map(|hooks| hooks.iter().cloned()).collect(),
            ..Index::default()
        };
        for (at, hook) in index.hooks.iter().enumerate() {
            let mut resources: Vec<&str> =
                hook.rules.iter().flat_map(|rule| &rule.resources).map(|(resource, _)| resource.as_str()).collect();
            resources.sort_unstable();
            resources.dedup();
            if resources.contains(&"*") {
                index.of_all.push(at);
                continue;
            }
            for resource in resources {
                index.by_resource.entry(resource.to_owned()).or_default().push(at);
            }
        }
        self.index = Arc::new(index);
    }
}

impl Configurations {
    /// Webhooks that may have a rule for a resource, in order.
    pub(super) fn about(&self, resource: &str) -> impl Iterator<Item = &Arc<Hook>> {
        let named = self.index.by_resource.get(resource).map_or(&[][..], Vec::as_slice);
        merged(named, &self.index.of_all).map(|at| &self.index.hooks[at])
    }
}

/// Two ascending lists without common members as one.
fn merged<'a>(mut left: &'a [usize], mut right: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    std::iter::from_fn(move || {
        let takes_left = match (left.first(), right.first()) {
            (Some(l), Some(r)) => l < r,
            (first, _) => first.is_some(),
        };
        let side = if takes_left { &mut left } else { &mut right };
        let (first, rest) = side.split_first()?;
        *side = rest;
        Some(*first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_asked_in_order_whatever_their_rules_name() {
        assert_eq!(merged(&[1, 4], &[0, 2, 5]).collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
        assert_eq!(merged(&[], &[3]).collect::<Vec<_>>(), [3]);
        assert_eq!(merged(&[3], &[]).collect::<Vec<_>>(), [3]);
    }
}
