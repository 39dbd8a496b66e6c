//! Which requests are approved without anybody's help.

use core::net::IpAddr;
use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_meta::network;
use pintle_runtime::{Plan, Write};
use serde_json::json;

use crate::csr::{self, Asked};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Approve if the requester may create this subresource, and say so.
    Ask {
        subresource: &'static str,
        message: &'static str,
    },
    Approve(&'static str),
}

/// `node` is the one that the request is for, if it is known; `others` are the addresses of all other nodes.
pub(super) fn steps(request: &CertificateSigningRequest, node: Option<&Node>, others: &BTreeSet<String>) -> Vec<Step> {
    let Some(asked) = open(request) else { return Vec::new() };
    let spec = &request.spec;
    if csr::refusal(&spec.signer_name, &asked, spec.usages.as_deref().unwrap_or_default()).is_some() {
        return Vec::new();
    }
    let is_itself = spec.username.as_deref() == Some(&asked.common_name);
    match spec.signer_name.as_str() {
        csr::NODE_CLIENT => {
            let own = Step::Ask {
                subresource: "selfnodeclient",
                message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
            };
            let first = Step::Ask {
                subresource: "nodeclient",
                message: "Auto approving kubelet client certificate after SubjectAccessReview.",
            };
            if is_itself { vec![own, first] } else { vec![first] }
        }
        csr::NODE_SERVING if is_itself && node.is_some_and(|node| may_serve(node, others, &asked)) => {
            vec![Step::Approve("Auto approving kubelet serving certificate for the names that the Node has.")]
        }
        _ => Vec::new(),
    }
}

/// Approves the request at the version that was read.
pub(super) fn approval(request: &CertificateSigningRequest, message: &str, now: Timestamp) -> Plan {
    let mut conditions = request.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.push(CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some("AutoApproved".to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
    let patch = json!({"status": {"conditions": conditions}});
    Plan::of(vec![Write::merge_at_version(request, patch).of("approval")])
}

/// Whether a request may be approved once the node of that name has other addresses.
pub(super) fn waits_for(request: &CertificateSigningRequest, node: &str) -> bool {
    request.spec.signer_name == csr::NODE_SERVING && open(request).is_some_and(|asked| asked.node() == Some(node))
}

/// What is asked for by a request that nobody has decided about.
fn open(request: &CertificateSigningRequest) -> Option<Asked> {
    let decided = ["Approved", "Denied"].iter().any(|kind| csr::condition(request, kind).is_some());
    if decided || csr::is_issued(request) { None } else { Asked::of(request) }
}

pub(super) fn node_of(request: &CertificateSigningRequest) -> Option<String> {
    Asked::of(request)?.node().map(str::to_owned)
}

pub(super) fn addresses(node: &Node) -> BTreeSet<String> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    addresses.map(|address| address.address.clone()).collect()
}

/// A node serves under its own name, and under addresses that it has and that nobody else is reached at.
///
/// What its status says is the node's own word. So no name counts but the one that its certificate is for, and no address
/// that belongs to Services, to another node or to no machine. (The API server's own are refused by who signs.)
pub(super) fn may_serve(node: &Node, others: &BTreeSet<String>, asked: &Asked) -> bool {
    let own = addresses(node);
    let is_own = |address: &IpAddr| {
        let (text, address) = (address.to_string(), address.to_canonical());
        let nobodys = address.is_unspecified() || address.is_multicast() || network::is_service_address(address);
        own.contains(&text) && !others.contains(&text) && !nobodys
    };
    asked.names.iter().all(|name| Some(name) == node.metadata.name.as_ref() && !is_of_a_service(name))
        && asked.addresses.iter().all(is_own)
}

/// Names under which Pods look for Services, the API server's among them.
fn is_of_a_service(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let labels: Vec<&str> = name.trim_end_matches('.').split('.').collect();
    let local = labels.ends_with(&["cluster", "local"]) || labels.contains(&"svc");
    local || matches!(labels.as_slice(), ["localhost" | "kubernetes"] | ["kubernetes", "default"])
}
