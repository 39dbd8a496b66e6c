//! The clusterdns loop: Pods find the name servers of the nodes behind the Service `kube-dns`.
//!
//! Watches Nodes, that Service and its slices. A node says in an annotation where it answers names; it may not write slices
//! itself.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_meta::network::NAME_SERVER;
use pintle_runtime::{Change, Context, Controller, Executor, Key};

use plan::{NAME, NAMESPACE};

/// Runs until the context's shutdown fires. Keys are Nodes.
pub(crate) async fn run(context: Context) {
    let nodes = context.informers.of::<Node>();
    let services = context.informers.of::<Service>();
    let slices = context.informers.of::<EndpointSlice>();
    let said = |node: &Node| {
        let annotations = node.metadata.annotations.as_ref();
        (
            annotations.and_then(|all| all.get(NAME_SERVER).cloned()),
            node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone()),
        )
    };
    let matters = move |change: &Change<Node>| change.old().is_none_or(|old| said(old) != said(change.object()));
    let all = nodes.clone();
    let every_node = move |is_meant: bool| match is_meant {
        true => all.all().iter().map(|node| Key::of(node.as_ref())).collect(),
        false => Vec::new(),
    };
    let node_of = |key: Key| {
        let node = key.name().strip_prefix(NAME)?.strip_prefix('-')?;
        (key.namespace() == NAMESPACE).then(|| Key::cluster(node))
    };
    let executor = Executor::new(&context, "cluster-dns-controller");
    Controller::new("cluster-dns", &context)
        .workers(1)
        .watch(&nodes, move |change| if matters(change) { vec![change.key()] } else { Vec::new() })
        .watch(&services, move |change| every_node(change.key() == Key::new(NAMESPACE, NAME)))
        .watch(&slices, move |change| node_of(change.key()).into_iter().collect())
        .run_plans(executor, move |key| {
            let service = services.get(&Key::new(NAMESPACE, NAME));
            let slice = slices.get(&Key::new(NAMESPACE, plan::slice_name(key.name())));
            plan::plan(service.as_deref(), nodes.get(key).as_deref(), slice.as_deref())
        })
        .await;
}
