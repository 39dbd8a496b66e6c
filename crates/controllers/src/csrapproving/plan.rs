//! Which requests are approved without anybody's help.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;

use crate::csr::{self, Asked};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Approve if whoever asks may create this subresource, and say so.
    Ask {
        subresource: &'static str,
        message: &'static str,
    },
    Approve(&'static str),
}

/// `node` is the one that the request is for, if it is known.
pub(super) fn steps(request: &CertificateSigningRequest, node: Option<&Node>) -> Vec<Step> {
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
        csr::NODE_SERVING if is_itself && node.is_some_and(|node| has_all(node, &asked)) => {
            vec![Step::Approve("Auto approving kubelet serving certificate for the names that the Node has.")]
        }
        _ => Vec::new(),
    }
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

fn has_all(node: &Node, asked: &Asked) -> bool {
    let own = addresses(node);
    asked.names.iter().all(|name| own.contains(name))
        && asked.addresses.iter().all(|address| own.contains(&address.to_string()))
}
