//! Asks who may, and approves.

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use pintle_runtime::{Action, Attempt, Clock, Context, Error, Informer, Key, Reconciler, error};
use serde_json::json;

use super::plan::{self, Step};

pub(super) struct Approver {
    client: Client,
    clock: Clock,
    requests: Informer<CertificateSigningRequest>,
    nodes: Informer<Node>,
}

impl Approver {
    pub(super) fn new(context: &Context, requests: Informer<CertificateSigningRequest>, nodes: Informer<Node>) -> Self {
        Approver { client: context.client.clone(), clock: context.clock.clone(), requests, nodes }
    }

    /// Whether whoever asks may have such a certificate without anybody's help.
    async fn may(&self, csr: &CertificateSigningRequest, subresource: &str) -> Result<bool, Error> {
        let spec = &csr.spec;
        let extra: Option<BTreeMap<String, Vec<String>>> = spec.extra.clone();
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: spec.username.clone(),
                uid: spec.uid.clone(),
                groups: spec.groups.clone(),
                extra,
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
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn approve(&self, csr: &CertificateSigningRequest, message: &str) -> Result<(), Error> {
        let now = Some(Time(self.clock.now()));
        let mut conditions = csr.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.push(CertificateSigningRequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: Some("AutoApproved".to_owned()),
            message: Some(message.to_owned()),
            last_update_time: now.clone(),
            last_transition_time: now,
        });
        let patch = json!({
            "metadata": {"resourceVersion": csr.metadata.resource_version},
            "status": {"conditions": conditions},
        });
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let name = csr.metadata.name.as_deref().unwrap_or_default();
        let written = requests.patch_subresource("approval", name, &PatchParams::default(), &Patch::Merge(patch)).await;
        error::ignore_not_found(written)?;
        Ok(())
    }
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
            self.approve(&csr, message).await?;
            break;
        }
        Ok(Action::done())
    }
}
