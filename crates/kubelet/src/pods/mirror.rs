//! Shows static Pods on the API server.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, PostParams, Preconditions};
use pintle_runtime::{ApiError, Error, Key, Objects};

use super::{Pods, node_of};
use crate::statics::mirror::{Step, of, plan};
pub(super) use crate::statics::mirror::{faced, shown_by};

impl Pods {
    /// Makes or removes the mirror, as the file wants it.
    pub(super) async fn mirror(&self, key: &Key, of_file: Option<&Pod>, known: Option<&Pod>) -> Result<(), Error> {
        // Another node's mirror is not ours.
        if of_file.or(known).and_then(node_of).and_then(|node| self.home(node)).is_none() {
            return Ok(());
        }
        let pods: Objects<Pod> = Objects::namespaced(self.context.client.clone(), key.namespace());
        let done = match (plan(of_file, known), of_file, known) {
            (Step::Create, Some(pod), _) => {
                let nodes: Objects<Node> = Objects::all(self.context.client.clone());
                let node = nodes.get_opt(node_of(pod).unwrap_or_default()).await?;
                pods.create(&PostParams::default(), &of(pod, node.as_ref())).await.map(drop)
            }
            (Step::Delete, _, Some(known)) => {
                let preconditions = Preconditions { uid: known.metadata.uid.clone(), resource_version: None };
                let now = DeleteParams::default().grace_period(0).preconditions(preconditions);
                pods.delete(key.name(), &now).await.map(drop)
            }
            _ => return Ok(()),
        };
        match done {
            // The cache will say so, and wake us. A conflict may be nobody's fault: it is tried again.
            Err(error) if error.is_not_found() => Ok(()),
            done => Ok(done?),
        }
    }

    /// The UID under which the API server has the Pod; nothing if it has none.
    pub(super) fn uid_on_server(&self, pod: &Pod) -> Option<String> {
        let key = Key::of(pod);
        if self.statics.get(&key).is_none_or(|of_file| of_file.metadata.uid != pod.metadata.uid) {
            return pod.metadata.uid.clone();
        }
        let known = self.pods.get(&key)?;
        let is_mirror = shown_by(&known) == pod.metadata.uid.as_deref();
        known.metadata.uid.clone().filter(|_| is_mirror)
    }
}
