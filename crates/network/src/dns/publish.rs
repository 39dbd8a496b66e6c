//! Says on the Node where its name server is. A loop of the control plane lets Pods find it: nodes write no EndpointSlices.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Patch, PatchParams};
use pintle_meta::network::NAME_SERVER;
use pintle_runtime::{
    Action, Attempt, Context, Controller, Error, Informer, Key, Objects, Reconciler, Selection, error,
};
use serde_json::json;

/// Runs until the context's shutdown fires.
pub async fn run(context: Context, node: String, at: IpAddr) {
    let nodes = context.informers.select::<Node>(Selection::fields(format!("metadata.name={node}")));
    Controller::new("name-server", &context)
        .workers(1)
        .watch(&nodes, |change| vec![change.key()])
        .run(Publish { client: context.client.clone(), nodes, at })
        .await;
}

struct Publish {
    client: Client,
    nodes: Informer<Node>,
    at: IpAddr,
}

impl Reconciler for Publish {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(node) = self.nodes.get(key) else { return Ok(Action::done()) };
        let at = self.at.to_string();
        if node.metadata.annotations.as_ref().and_then(|all| all.get(NAME_SERVER)) == Some(&at) {
            return Ok(Action::done());
        }
        let nodes: Objects<Node> = Objects::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {NAME_SERVER: at}}}));
        error::ignore_not_found(nodes.patch(key.name(), &PatchParams::default(), &patch).await)?;
        Ok(Action::done())
    }
}
