//! Claims, volumes and classes as the scheduler knows them, and which volumes a Pod would have on which node.
//!
//! - A Pod with a bound claim goes where its volume can be reached.
//! - A claim that waits for its first Pod gets a volume with the Pod's node: one that is there, or one that is asked for.
//! - What was chosen counts as taken until the API server shows it, or its write has failed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::StorageClass;
use pintle_rules::placement::term_matches;
use pintle_runtime::{Key, storage};

use crate::node::NodeInfo;
use crate::plugins::Rejection;
use crate::pod::PodInfo;

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const ELSEWHERE: &str = "node(s) didn't match PersistentVolume's node affinity";
const GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

#[derive(Debug, Default)]
pub struct Storage {
    pub(crate) claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    pub(crate) volumes: BTreeMap<String, Arc<PersistentVolume>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
    /// Volumes that were chosen, by name, and for which claim.
    assumed_volumes: BTreeMap<String, Key>,
    /// Claims for which a node was chosen.
    assumed_nodes: BTreeMap<Key, String>,
}

/// What a Pod's volumes ask of its node.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    bound: Vec<&'a PersistentVolumeClaim>,
    /// The smallest first, so that it does not take what a larger one needs.
    delayed: Vec<&'a Arc<PersistentVolumeClaim>>,
}

/// What is to be written before the Pod can have its node.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub(crate) bindings: Vec<(Arc<PersistentVolume>, Arc<PersistentVolumeClaim>)>,
    /// Claims for which someone outside makes a volume that the node can reach.
    pub(crate) provisions: Vec<Arc<PersistentVolumeClaim>>,
}

impl Choice {
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }
}

impl Storage {
    pub fn set_claim(&mut self, key: Key, claim: Option<Arc<PersistentVolumeClaim>>) {
        self.assumed_nodes.remove(&key);
        put(&mut self.claims, key, claim);
    }

    pub fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        self.assumed_volumes.remove(name);
        put(&mut self.volumes, name.to_owned(), volume);
    }

    pub fn set_class(&mut self, name: &str, class: Option<Arc<StorageClass>>) {
        put(&mut self.classes, name.to_owned(), class);
    }

    /// Nothing if the Pod has no claims; an error if it can go nowhere as things are.
    pub(crate) fn asked<'a>(&'a self, pod: &PodInfo) -> Result<Option<Asked<'a>>, String> {
        if pod.claims.is_empty() {
            return Ok(None);
        }
        let mut claims = Vec::new();
        for used in &pod.claims {
            claims.push(self.usable(pod, &used.key, used.is_made)?);
        }
        let mut asked = Asked { bound: Vec::new(), delayed: Vec::new() };
        for claim in claims {
            if storage::is_fully_bound(claim) {
                asked.bound.push(claim);
            } else if storage::volume_name(claim).is_none()
                && self.class_of(claim).is_some_and(storage::waits_for_consumer)
            {
                asked.delayed.push(claim);
            } else {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        let size = |claim: &PersistentVolumeClaim| storage::requested(claim);
        asked.delayed.sort_by(|a, b| size(a).partial_cmp(&size(b)).unwrap_or(std::cmp::Ordering::Equal));
        Ok(Some(asked))
    }

    fn usable(&self, pod: &PodInfo, key: &Key, is_made: bool) -> Result<&Arc<PersistentVolumeClaim>, String> {
        let name = key.name();
        let Some(claim) = self.claims.get(key) else {
            return Err(match is_made {
                true => {
                    format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
                }
                false => format!("persistentvolumeclaim {name:?} not found"),
            });
        };
        if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
            let volume = storage::volume_name(claim).unwrap_or_default();
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        let owned = claim.metadata.owner_references.iter().flatten().any(|owner| owner.uid == pod.uid);
        if is_made && !owned {
            return Err(format!("PVC {key} was not created for pod {} (pod is not owner)", pod.key));
        }
        Ok(claim)
    }

    fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        self.classes.get(storage::class_of_claim(claim)).map(AsRef::as_ref)
    }

    /// Which volumes the Pod would have on this node, or why it cannot have them there.
    pub(crate) fn choose(&self, asked: &Asked<'_>, node: &NodeInfo) -> Result<Choice, Rejection> {
        let mut reasons = BTreeSet::new();
        for claim in &asked.bound {
            match storage::volume_name(claim).and_then(|name| self.volumes.get(name)) {
                None => drop(reasons.insert(GONE)),
                Some(volume) if !reaches(volume, node) => drop(reasons.insert(ELSEWHERE)),
                Some(_) => {}
            }
        }
        let mut choice = Choice::default();
        for claim in &asked.delayed {
            if !self.choose_for(claim, node, &mut choice) {
                reasons.insert(NO_VOLUME);
            }
        }
        if reasons.is_empty() {
            return Ok(choice);
        }
        // What a volume reaches does not depend on other Pods.
        Err(Rejection { reasons: reasons.into_iter().map(Cow::Borrowed).collect(), is_resolvable: false })
    }

    /// True if there is a way.
    fn choose_for(&self, claim: &Arc<PersistentVolumeClaim>, node: &NodeInfo, choice: &mut Choice) -> bool {
        let key = Key::of(claim.as_ref());
        let assumed = self.assumed_nodes.get(&key).map(String::as_str);
        if let Some(selected) = assumed.or(storage::annotation(&claim.metadata, storage::SELECTED_NODE)) {
            let here = selected == node.name && self.is_provided(claim, node);
            choice.provisions.extend(here.then(|| claim.clone()));
            return here;
        }
        let taken = |volume: &PersistentVolume| {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            self.assumed_volumes.get(name).is_some_and(|holder| *holder != key)
                || choice.bindings.iter().any(|(chosen, _)| chosen.metadata.name == volume.metadata.name)
        };
        let all = || self.volumes.values().map(AsRef::as_ref).filter(|volume| !taken(volume));
        let found = match storage::held(claim, all()) {
            // It was chosen before; another node can have it only if it reaches it.
            Some(held) if !reaches(held, node) => return false,
            Some(held) => Some(held),
            None => storage::smallest(claim, all().filter(|volume| reaches(volume, node))),
        };
        let found = found.and_then(|volume| self.volumes.get(volume.metadata.name.as_deref()?)).cloned();
        match found {
            Some(volume) => choice.bindings.push((volume, claim.clone())),
            None if self.is_provided(claim, node) => choice.provisions.push(claim.clone()),
            None => return false,
        }
        true
    }

    /// Whether someone can be asked for a volume that the node reaches.
    fn is_provided(&self, claim: &PersistentVolumeClaim, node: &NodeInfo) -> bool {
        self.class_of(claim).is_some_and(|class| {
            let provisioner = class.provisioner.as_str();
            let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
            !provisioner.is_empty()
                && provisioner != storage::NO_PROVISIONER
                && (topologies.is_empty() || topologies.iter().any(|term| covers(term, node)))
        })
    }

    /// What a Pod gets with a node that it was found to fit.
    pub(crate) fn choice_for(&self, pod: &PodInfo, node: &NodeInfo) -> Choice {
        let asked = self.asked(pod).ok().flatten();
        asked.and_then(|asked| self.choose(&asked, node).ok()).unwrap_or_default()
    }

    pub(crate) fn assume(&mut self, choice: &Choice, node: &str) {
        for (volume, claim) in &choice.bindings {
            let name = volume.metadata.name.clone().unwrap_or_default();
            self.assumed_volumes.insert(name, Key::of(claim.as_ref()));
        }
        for claim in &choice.provisions {
            self.assumed_nodes.insert(Key::of(claim.as_ref()), node.to_owned());
        }
    }

    /// What was chosen is not taken after all.
    pub(crate) fn forget(&mut self, choice: &Choice) {
        for (volume, _) in &choice.bindings {
            self.assumed_volumes.remove(volume.metadata.name.as_deref().unwrap_or_default());
        }
        for claim in &choice.provisions {
            self.assumed_nodes.remove(&Key::of(claim.as_ref()));
        }
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

/// Whether Pods on the node can use the volume.
pub(crate) fn reaches(volume: &PersistentVolume, node: &NodeInfo) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| term_matches(term, &node.node)))
}

fn covers(term: &TopologySelectorTerm, node: &NodeInfo) -> bool {
    let mut expressions = term.match_label_expressions.iter().flatten();
    expressions.all(|expression| {
        node.label(&expression.key).is_some_and(|value| expression.values.iter().any(|allowed| allowed == value))
    })
}
