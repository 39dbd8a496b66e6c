//! A request for a certificate says who asks; not who it says, but who it is. Approving and signing are rights of their own.

use super::{Operation, forbidden};
use crate::authn::{MASTERS, User};
use crate::authz::{Attributes, Authorizer};
use crate::registry::Write;
use crate::resources::certificates::request;
use pintle_meta::{Status, object};
use serde_json::Value;

pub(super) const GROUP: &str = "certificates.k8s.io";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

pub(super) fn sign(user: &User, request: &mut Value) {
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

/// Who approves or signs needs the right to do so for the signer that is named.
pub(super) async fn must_be_entitled(
    authorizer: &Authorizer,
    write: &Write<'_>,
    operation: Operation,
    old: Option<&Value>,
    csr: &Value,
) -> Result<(), Status> {
    let signer = object::text(csr, &["spec", "signerName"]);
    if operation == Operation::Create {
        let asked = request::subject(csr).map(|subject| subject.organizations).unwrap_or_default();
        if signer == CLIENT && asked.iter().any(|group| group == MASTERS) {
            let why = format!("use of {CLIENT} signer with {MASTERS} group is not allowed");
            return Err(forbidden(write, object::name(csr), &why));
        }
        return Ok(());
    }
    let differs = |path: &[&str]| object::at(csr, path) != old.and_then(|old| object::at(old, path));
    let verb = match write.subresource {
        "approval" => "approve",
        "status" if differs(&["status", "certificate"]) || differs(&["status", "conditions"]) => "sign",
        _ => return Ok(()),
    };
    let all = signer.split_once('/').map(|(domain, _)| format!("{domain}/*")).unwrap_or_default();
    for name in [signer, &all] {
        let attributes = Attributes { verb, group: GROUP, resource: "signers", name, ..Attributes::default() };
        if authorizer.allows(write.user, &attributes).await {
            return Ok(());
        }
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(forbidden(write, object::name(csr), &why))
}
