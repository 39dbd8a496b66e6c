//! The csrapproving loop: machines with a token and nodes get the certificates that are theirs without anybody's help.
//!
//! Watches CertificateSigningRequests, and Nodes for the names and addresses that a node may serve under.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::PostParams;
use pintle_runtime::{
    Action, Attempt, Clock, Context, Controller, Error, Executor, Informer, Key, Objects, Reconciler, when,
};

use plan::Step;

/// Runs until the context's shutdown fires. Keys are requests.
pub(crate) async fn run(context: Context) {
    let requests = context.informers.of::<CertificateSigningRequest>();
    let nodes = context.informers.of::<Node>();
    let executor = Executor::new(&context, "certificatesigningrequest-approving-controller");
    let (client, clock) = (context.client.clone(), context.clock.clone());
    Controller::new("csr-approving", &context)
        .watch(&requests, |change| vec![change.key()])
        .watch(&nodes, {
            let requests = requests.clone();
            move |change| {
                if !when::differs(change, |node: &Node| plan::addresses(node)) {
                    return Vec::new();
                }
                let waits = |csr: &CertificateSigningRequest| plan::waits_for(csr, change.key().name());
                requests.all().iter().filter(|csr| waits(csr)).map(|csr| Key::of(csr.as_ref())).collect()
            }
        })
        .run(Approver { client, clock, executor, requests, nodes })
        .await;
}

struct Approver {
    client: Client,
    clock: Clock,
    executor: Executor,
    requests: Informer<CertificateSigningRequest>,
    nodes: Informer<Node>,
}

impl Reconciler for Approver {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(csr) = self.requests.get(key) else { return Ok(Action::done()) };
        let name = plan::node_of(&csr);
        let node = name.as_ref().and_then(|name| self.nodes.get(&Key::cluster(name)));
        let nodes = self.nodes.all();
        let others = nodes.iter().filter(|node| node.metadata.name != name).flat_map(|node| plan::addresses(node));
        for step in plan::steps(&csr, node.as_deref(), &others.collect()) {
            let message = match step {
                Step::Ask { subresource, message } if self.may(&csr, subresource).await? => message,
                Step::Approve(message) => message,
                Step::Ask { .. } => continue,
            };
            let approval = plan::approval(&csr, message, self.clock.now());
            return Ok(self.executor.execute(csr.as_ref(), approval).await?);
        }
        Ok(Action::done())
    }
}

impl Approver {
    /// Whether the requester may have such a certificate without anybody's help.
    async fn may(&self, csr: &CertificateSigningRequest, subresource: &str) -> Result<bool, Error> {
        let spec = &csr.spec;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: spec.username.clone(),
                uid: spec.uid.clone(),
                groups: spec.groups.clone(),
                extra: spec.extra.clone(),
                resource_attributes: Some(ResourceAttributes {
                    group: Some("certificates.k8s.io".to_owned()),
                    resource: Some("certificatesigningrequests".to_owned()),
                    subresource: Some(subresource.to_owned()),
                    verb: Some("create".to_owned()),
                    version: Some("*".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Objects<SubjectAccessReview> = Objects::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
