//! Static Pods: those that a directory of this machine says, whether or not an API server is there.
//!
//! - `directory`: the files, read again and again
//! - `shape`: from what a file says to a Pod of this node
//! - `mirror`: what the API server shows of them
//!
//! A file that goes, or says something else, ends the Pod that it said before; only then its successor starts.

mod directory;
pub(crate) mod mirror;
mod shape;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pintle_meta::Clock;
use pintle_runtime::{Key, Waker};

use crate::pods::node_of;

/// Where static Pods are written down, and how a file is read.
#[derive(Clone, Debug)]
pub struct StaticPods {
    pub directory: PathBuf,
    /// From the text of a file to a Pod that is complete and correct; the error says what is wrong.
    pub read: fn(&str) -> Result<Pod, String>,
    /// How often the files are looked at.
    pub period: Duration,
}

/// The static Pods of the nodes of this process. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Statics(Arc<Mutex<BTreeMap<Key, Lives>>>);

/// What a name stands for: what is to run, and what ran before and has not come to its end.
#[derive(Default)]
struct Lives {
    wanted: Option<Arc<Pod>>,
    ending: Option<Arc<Pod>>,
}

impl Statics {
    /// The Pod to look after under this name now.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Pod>> {
        self.all().get(key).and_then(|lives| lives.ending.as_ref().or(lives.wanted.as_ref())).cloned()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.all().keys().cloned().collect()
    }

    /// The UIDs of all of them, also of those that come to their end.
    pub(crate) fn uids(&self) -> Vec<String> {
        let all = self.all();
        let pods = all.values().flat_map(|lives| lives.wanted.iter().chain(&lives.ending));
        pods.filter_map(|pod| pod.metadata.uid.clone()).collect()
    }

    /// Nothing of this Pod is left. False if it was none of these.
    pub(crate) fn ended(&self, key: &Key, uid: &str) -> bool {
        let mut all = self.all();
        let Some(lives) = all.get_mut(key) else { return false };
        let ended = lives.ending.take_if(|ending| ending.metadata.uid.as_deref() == Some(uid)).is_some();
        if lives.wanted.is_none() && lives.ending.is_none() {
            all.remove(key);
        }
        ended
    }

    /// Takes in what the files of a node say now; returns the names under which something changed.
    fn say(&self, node: &str, mut said: BTreeMap<Key, Arc<Pod>>, clock: &Clock) -> Vec<Key> {
        let mut all = self.all();
        let mut changed = Vec::new();
        let uid_of = |pod: &Arc<Pod>| pod.metadata.uid.clone();
        let on_node = |pod: &Arc<Pod>| node_of(pod) == Some(node);
        for (key, lives) in all.iter_mut().filter(|(_, lives)| lives.wanted.iter().chain(&lives.ending).any(on_node)) {
            let new = said.remove(key);
            if lives.wanted.as_ref().map(uid_of) == new.as_ref().map(uid_of) {
                continue;
            }
            let before = std::mem::replace(&mut lives.wanted, new);
            // One that was said for a moment while its predecessor came to its end never ran.
            if let Some(before) = before.filter(|_| lives.ending.is_none()) {
                lives.ending = Some(Arc::new(shape::ending(&before, clock.now())));
            }
            changed.push(key.clone());
        }
        for (key, pod) in said {
            all.insert(key.clone(), Lives { wanted: Some(pod), ending: None });
            changed.push(key);
        }
        changed
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, Lives>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the files of one node.
pub(crate) struct Reader {
    pub(crate) node: String,
    pub(crate) from: StaticPods,
    files: directory::Files,
}

impl Reader {
    pub(crate) fn new(node: &str, from: StaticPods) -> Self {
        Reader { node: node.to_owned(), from, files: directory::Files::default() }
    }

    /// One look at the files; the workers of what changed are woken.
    pub(crate) async fn look(&mut self, statics: &Statics, clock: &Clock, waker: &Waker) {
        let said = self.files.read(&self.from, &self.node).await;
        for key in said.map(|said| statics.say(&self.node, said, clock)).into_iter().flatten() {
            waker.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn said(uid: &str) -> BTreeMap<Key, Arc<Pod>> {
        let mut pod = Pod::default();
        (pod.metadata.name, pod.metadata.uid) = (Some("web-n".into()), Some(uid.into()));
        pod.spec = Some(PodSpec { node_name: Some("n".into()), ..PodSpec::default() });
        BTreeMap::from([(Key::new("default", "web-n"), Arc::new(pod))])
    }

    #[test]
    fn what_a_file_said_before_ends_before_what_it_says_now_begins() {
        let (statics, clock, key) = (Statics::default(), Clock::system(), Key::new("default", "web-n"));
        let now = || statics.get(&key).map(|pod| (pod.metadata.uid.clone(), pod.metadata.deletion_timestamp.is_some()));
        assert_eq!(statics.say("n", said("one"), &clock), vec![key.clone()]);
        assert_eq!(statics.say("n", said("one"), &clock), []);
        assert_eq!(now(), Some((Some("one".into()), false)));
        assert_eq!(statics.say("n", said("two"), &clock), vec![key.clone()]);
        assert_eq!(now(), Some((Some("one".into()), true)));
        assert_eq!(statics.say("n", said("three"), &clock), vec![key.clone()]);
        assert_eq!(statics.uids(), ["three", "one"]);
        assert!(statics.ended(&key, "one"));
        assert_eq!(now(), Some((Some("three".into()), false)));
        assert_eq!(statics.say("n", BTreeMap::new(), &clock), vec![key.clone()]);
        assert_eq!(now(), Some((Some("three".into()), true)));
        assert!(statics.ended(&key, "three") && !statics.ended(&key, "three"));
        assert_eq!(now(), None);
    }
}
