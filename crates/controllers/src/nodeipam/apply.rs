//! Gives nodes their ranges, and says what is wrong with those that they have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use pintle_meta::Range;
use pintle_meta::network::CLUSTER_CIDRS;
use pintle_runtime::{Action, ApiError, Attempt, Context, Error, Informer, Key, Reconciler, Recorder};
use serde_json::json;
use tokio::sync::Mutex;

use super::plan::{self, Plan};

pub(super) struct Giver {
    client: Client,
    nodes: Informer<Node>,
    cluster: Vec<Range>,
    recorder: Recorder,
    /// What was written and may not be seen yet.
    given: Mutex<BTreeMap<String, Vec<Range>>>,
}

impl Giver {
    pub(super) fn new(context: &Context, nodes: Informer<Node>, cluster: Vec<Range>) -> Self {
        let recorder = context.recorder("node-ipam-controller");
        Giver { client: context.client.clone(), nodes, cluster, recorder, given: Mutex::default() }
    }
}

impl Reconciler for Giver {
    async fn reconcile(&self, _: &Key, _: &Attempt) -> Result<Action, Error> {
        let mut given = self.given.lock().await;
        let nodes = self.nodes.all();
        given.retain(|name, _| self.nodes.get(&Key::cluster(name)).is_some_and(|node| plan::ranges(&node).is_empty()));
        let Plan { give, without, overlapping } = plan::plan(nodes.iter().map(AsRef::as_ref), &self.cluster, &given);
        for name in without {
            let why = format!("Node {name} status is now: CIDRNotAvailable");
            self.say(&name, "CIDRNotAvailable", why);
        }
        for (name, range, other, taken) in overlapping {
            let why = format!(
                "its Pods' addresses {range} overlap with {taken} of node {other}: its Pods are not reached from other nodes; delete the Node, so that it gets another range when it joins again"
            );
            self.say(&name, "CIDROverlap", why);
        }
        for (name, ranges) in give {
            self.give(&name, &ranges).await?;
            given.insert(name, ranges);
        }
        Ok(Action::done())
    }
}

impl Giver {
    async fn give(&self, name: &str, ranges: &[Range]) -> Result<(), Error> {
        let Some(node) = self.nodes.get(&Key::cluster(name)) else { return Ok(()) };
        let text = |ranges: &[Range]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (own, all) = (text(ranges), text(&self.cluster).join(","));
        let patch = json!({
            "metadata": {"uid": node.metadata.uid, "annotations": {CLUSTER_CIDRS: all}},
            "spec": {"podCIDR": own.first(), "podCIDRs": own},
        });
        let nodes: Api<Node> = Api::all(self.client.clone());
        match nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            // It is gone, or was made anew: that will be seen.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    fn say(&self, name: &str, reason: &str, message: String) {
        let Some(node) = self.nodes.get(&Key::cluster(name)) else { return };
        tracing::warn!(node = name, reason, message);
        self.recorder.warning(node.as_ref(), reason, message);
    }
}
