//! A request for a certificate says who asks; not who it says, but who it is. Approving and signing are rights of their own.

use super::rights::only_owners_or_finalizers_differ;
use super::{Operation, Plugin, Review};
use crate::authn::{MASTERS, User};
use crate::call::Call;
use crate::request::ResourcePath;
use crate::resources::certificates::request;
use crate::verb::Verb;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

const GROUP: &str = "certificates.k8s.io";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// Writes into a request who asks: nobody asks in another's name.
pub struct Requester;

impl Plugin for Requester {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Create && is_request(review)
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, csr: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        sign(&review.call.user, csr);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Nobody asks for a certificate of an administrator.
pub struct SubjectRestriction;

impl Plugin for SubjectRestriction {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Create && is_request(review)
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, csr: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(csr.map_or(Ok(()), |csr| must_not_be_a_master(review, csr))))
    }
}

/// Approving and signing are rights on the signer that a request names.
pub enum Entitled {
    Approval,
    Signing,
}

impl Plugin for Entitled {
    fn concerns(&self, review: &Review<'_>) -> bool {
        let subresource = match self {
            Entitled::Approval => "approval",
            Entitled::Signing => "status",
        };
        review.operation == Operation::Update && is_request(review) && review.call.path.subresource == subresource
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, csr: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(csr) = csr else { return Ok(()) };
            let differs = |path: &[&str]| object::at(csr, path) != review.old.and_then(|old| object::at(old, path));
            match self {
                Entitled::Approval => must_be_entitled(review, csr, "approve").await,
                Entitled::Signing if differs(&["status", "certificate"]) || differs(&["status", "conditions"]) => {
                    must_be_entitled(review, csr, "sign").await
                }
                Entitled::Signing => Ok(()),
            }
        })
    }
}

fn is_request(review: &Review<'_>) -> bool {
    review.resource.name == "certificatesigningrequests" && review.resource.group == GROUP
}

fn sign(user: &User, request: &mut Value) {
    let spec = object::map_at(request, "spec");
    for key in ["username", "uid", "groups", "extra"] {
        spec.remove(key);
    }
    spec.insert("username".into(), user.name.clone().into());
    if !user.groups.is_empty() {
        spec.insert("groups".into(), user.groups.clone().into());
    }
    if !user.uid.is_empty() {
        spec.insert("uid".into(), user.uid.clone().into());
    }
}

fn must_not_be_a_master(review: &Review<'_>, csr: &Value) -> Result<(), Status> {
    let asked = request::subject(csr).map(|subject| subject.organizations).unwrap_or_default();
    if object::text(csr, &["spec", "signerName"]) == CLIENT && asked.iter().any(|group| group == MASTERS) {
        let why = format!("use of {CLIENT} signer with {MASTERS} group is not allowed");
        return Err(review.forbidden(object::name(csr), &why));
    }
    Ok(())
}

/// Who approves or signs needs the right to do so for the signer that is named.
async fn must_be_entitled(review: &Review<'_>, csr: &Value, verb: &'static str) -> Result<(), Status> {
    // The name of the signer never changes; what is asked of the rights is what is stored.
    let signer = object::text(review.old.unwrap_or(csr), &["spec", "signerName"]);
    if may(review, verb, signer).await {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(review.forbidden(object::name(csr), &why))
}

/// Has the user this right for a signer, or for all signers of its domain?
async fn may(review: &Review<'_>, verb: &'static str, signer: &str) -> bool {
    let all = signer.split_once('/').map(|(domain, _)| format!("{domain}/*")).unwrap_or_default();
    for name in [signer, &all] {
        let path = ResourcePath {
            group: GROUP.to_owned(),
            resource: "signers".to_owned(),
            name: name.to_owned(),
            ..ResourcePath::default()
        };
        let right = Call::asks(review.call.user.clone(), Verb::right(verb), path);
        if review.authorizer().allows(&right).await {
            return true;
        }
    }
    false
}

/// Whoever publishes for a signer which certificates to trust needs the right to vouch for it.
pub struct TrustBundles;

impl Plugin for TrustBundles {
    fn concerns(&self, review: &Review<'_>) -> bool {
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        written && review.is_of(GROUP, "clustertrustbundles", "")
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, bundle: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(bundle) = bundle else { return Ok(()) };
            let signer = object::text(bundle, &["spec", "signerName"]);
            let only_collected = review.old.is_some_and(|old| only_owners_or_finalizers_differ(old, bundle));
            if signer.is_empty() || only_collected || may(review, "attest", signer).await {
                return Ok(());
            }
            let why = format!("user not permitted to attest for signerName {signer:?}");
            Err(review.forbidden(object::name(bundle), &why))
        })
    }
}
