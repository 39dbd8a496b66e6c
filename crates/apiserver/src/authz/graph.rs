//! Which node is tied to which objects: the Pods on it, what these name, and the volumes behind their claims.

use crate::codec;
use crate::follow::Followed;
use crate::keys;
use crate::resources::core::pod_spec::references::{self, Kind};
use imbl::OrdMap;
use pintle_meta::object;
use pintle_store::Entry;
use std::sync::Arc;

pub const PREFIXES: &[&str] = &[keys::PODS, keys::VOLUMES, keys::VOLUME_ATTACHMENTS];

#[derive(Clone, Default)]
pub struct Graph {
    /// By `namespace/name`: those that have a node.
    pods: OrdMap<Box<str>, Arc<Placed>>,
    /// How many of a node's Pods refer to an object; see [`named`].
    named: OrdMap<Box<str>, u32>,
    /// The claim, `namespace/name`, to which a volume is bound.
    claims: OrdMap<Box<str>, Box<str>>,
    /// The node to which an attachment attaches.
    attachments: OrdMap<Box<str>, Box<str>>,
}

/// A Pod that has a node.
struct Placed {
    node: Box<str>,
    /// Keys of `named`.
    names: Vec<Box<str>>,
}

impl Graph {
    pub fn runs(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.pods.get(format!("{namespace}/{name}").as_str()).is_some_and(|pod| *pod.node == *node)
    }

    /// Whether a Pod on the node names the object.
    pub fn names(&self, node: &str, kind: Kind, namespace: &str, name: &str) -> bool {
        self.named.contains_key(named(node, kind, namespace, name).as_str())
    }

    /// Whether a claim that a Pod on the node names is bound to the volume.
    pub fn is_bound(&self, node: &str, volume: &str) -> bool {
        let claim = self.claims.get(volume).and_then(|claim| claim.split_once('/'));
        claim.is_some_and(|(namespace, name)| self.names(node, Kind::Claim, namespace, name))
    }

    pub fn attaches(&self, node: &str, attachment: &str) -> bool {
        self.attachments.get(attachment).is_some_and(|attached| **attached == *node)
    }

    fn forget_pod(&mut self, key: &str) {
        let Some(pod) = self.pods.remove(key) else { return };
        for name in &pod.names {
            match self.named.get_mut(name) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = self.named.remove(name),
            }
        }
    }

    fn set_pod(&mut self, key: &str, entry: &Entry) {
        let pod = codec::decode(&entry.value);
        let (node, namespace) = (object::text(&pod, &["spec", "nodeName"]), object::namespace(&pod));
        if node.is_empty() {
            return;
        }
        let mut names: Vec<Box<str>> =
            references::of(&pod).map(|(kind, name)| named(node, kind, namespace, &name).into()).collect();
        names.sort_unstable();
        names.dedup();
        for name in &names {
            *self.named.entry(name.clone()).or_insert(0) += 1;
        }
        self.pods.insert(key.into(), Arc::new(Placed { node: node.into(), names }));
    }
}

impl Followed for Graph {
    fn change(&mut self, key: &str, entry: Option<&Entry>) {
        let text = |entry: &Entry, path: &[&str]| object::text(&codec::decode(&entry.value), path).to_owned();
        if let Some(rest) = keys::rest(key, keys::PODS) {
            self.forget_pod(rest);
            if let Some(entry) = entry {
                self.set_pod(rest, entry);
            }
        } else if let Some(name) = keys::rest(key, keys::VOLUMES) {
            self.claims.remove(name);
            let claim = entry.map(|entry| {
                let part = |part| text(entry, &["spec", "claimRef", part]);
                format!("{}/{}", part("namespace"), part("name"))
            });
            if let Some(claim) = claim.filter(|claim| !claim.ends_with('/')) {
                self.claims.insert(name.into(), claim.into());
            }
        } else if let Some(name) = keys::rest(key, keys::VOLUME_ATTACHMENTS) {
            self.attachments.remove(name);
            if let Some(entry) = entry {
                self.attachments.insert(name.into(), text(entry, &["spec", "nodeName"]).into());
            }
        }
    }
}

/// No name of a node, namespace or object holds a slash.
fn named(node: &str, kind: Kind, namespace: &str, name: &str) -> String {
    let kind = match kind {
        Kind::Secret => 's',
        Kind::ConfigMap => 'c',
        Kind::Claim => 'v',
        Kind::Account => 'a',
    };
    format!("{node}/{kind}/{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_store::{MemoryStore, Op, Store, Txn};
    use serde_json::{Value, json};

    async fn put(store: &MemoryStore, key: String, value: Value) {
        let op = Op::Put { key: key.into(), value: codec::encode(&value), expires_at: None };
        store.commit(Txn { ops: vec![op], ..Txn::default() }).await.unwrap();
    }

    #[tokio::test]
    async fn a_node_is_tied_to_what_its_pods_name_as_long_as_they_are_on_it() {
        let store = Arc::new(MemoryStore::new());
        let follower: crate::follow::Follower<Graph> = crate::follow::Follower::new(store.clone(), PREFIXES);
        let pod = |name: &str| {
            json!({"metadata": {"name": name, "namespace": "d"}, "spec": {"nodeName": "a", "serviceAccountName": "s",
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}, {"name": "x", "secret": {"secretName": "x"}}]}})
        };
        put(&store, keys::in_namespace(keys::PODS, "d", "one"), pod("one")).await;
        put(&store, keys::in_namespace(keys::PODS, "d", "two"), pod("two")).await;
        let volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "d", "name": "claim"}}});
        put(&store, keys::named(keys::VOLUMES, "pv"), volume).await;
        let graph = follower.current().await;
        assert!(graph.runs("a", "d", "one") && !graph.runs("b", "d", "one"));
        assert!(graph.names("a", Kind::Secret, "d", "x") && !graph.names("a", Kind::Secret, "e", "x"));
        assert!(graph.is_bound("a", "pv") && !graph.is_bound("b", "pv"));
        for (name, tied) in [("one", true), ("two", false)] {
            let op = Op::Delete { key: keys::in_namespace(keys::PODS, "d", name).into() };
            store.commit(Txn { ops: vec![op], ..Txn::default() }).await.unwrap();
            let graph = follower.current().await;
            assert_eq!(graph.names("a", Kind::Account, "d", "s"), tied);
            assert_eq!(graph.is_bound("a", "pv"), tied);
        }
        assert!(follower.current().await.named.is_empty());
    }
}
