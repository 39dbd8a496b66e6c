//! What a node may write: its own Node and Lease, the status of its own Pods, and mirrors of its own static Pods.

use super::{Operation, forbidden};
use crate::ApiServer;
use crate::authz::Attributes;
use crate::codec;
use crate::exchange::Exchange;
use crate::registry::{Registry, Write};
use crate::resources::certificates::request;
use crate::resources::check;
use crate::resources::core::pod_spec::references;
use pintle_meta::{Status, names, object};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const MIRROR: &str = "kubernetes.io/config.mirror";
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Labels of Kubernetes' own that a node agent sets; all others of theirs are for administrators.
const OWN_LABELS: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// A write of a node, before anything else has a say. Who is no node is not concerned.
pub(super) async fn on_write(
    registry: &Registry,
    write: &Write<'_>,
    operation: Operation,
    old: Option<&Value>,
    object: &Value,
) -> Result<(), Status> {
    let Some(node) = write.user.node() else { return Ok(()) };
    let own = match (write.resource.group.as_str(), write.resource.name.as_str()) {
        ("", "pods") if operation == Operation::Create => {
            let key = format!("/registry/minions/{node}");
            let entry = registry.store.get(&key).await.map_err(crate::registry::read_error)?;
            let uid = entry.map(|entry| object::uid(&codec::decode(&entry.value)).to_owned());
            mirror(node, uid.as_deref().unwrap_or_default(), object)
        }
        _ => judge(node, write, operation, old, object),
    };
    own.map_err(|why| forbidden(write, object::name(object), &why))
}

/// The same for a deletion, of which an eviction is one.
pub(super) fn on_delete(write: &Write<'_>, object: &Value) -> Result<(), Status> {
    let Some(node) = write.user.node() else { return Ok(()) };
    judge(node, write, Operation::Delete, None, object).map_err(|why| forbidden(write, object::name(object), &why))
}

fn judge(
    node: &str,
    write: &Write<'_>,
    operation: Operation,
    old: Option<&Value>,
    object: &Value,
) -> Result<(), String> {
    if node.is_empty() {
        return Err(format!("could not determine node from user {:?}", write.user.name));
    }
    let is_own = object::name(object) == node;
    match (write.resource.group.as_str(), write.resource.name.as_str(), write.subresource) {
        ("", "pods", "" | "eviction") if operation == Operation::Delete => match runs_here(object, node) {
            true => Ok(()),
            false if write.subresource == "eviction" => {
                Err(format!("node {node} can only evict pods with spec.nodeName set to itself"))
            }
            false => Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself")),
        },
        ("", "pods", "status") => status(node, old, object),
        ("", "pods", "") => Err(format!("unexpected operation, node {node:?} can only create and delete mirror pods")),
        ("", "pods", other) => {
            Err(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"))
        }
        ("", "nodes", _) => own_node(node, old, object),
        ("", "persistentvolumeclaims", "status") => claim_status(node, old, object),
        ("", "persistentvolumeclaims", _) => Err("may only update PVC status".to_owned()),
        ("coordination.k8s.io", "leases", _) if !is_own => {
            Err("can only access node lease with the same name as the requesting node".to_owned())
        }
        ("storage.k8s.io", "csinodes", _) if !is_own => {
            Err("can only access CSINode with the same name as the requesting node".to_owned())
        }
        ("certificates.k8s.io", "certificatesigningrequests", "") if operation == Operation::Create => {
            own_request(node, object)
        }
        _ => Ok(()),
    }
}

fn runs_here(pod: &Value, node: &str) -> bool {
    object::text(pod, &["spec", "nodeName"]) == node
}

fn mirror(node: &str, node_uid: &str, pod: &Value) -> Result<(), String> {
    if object::at(pod, &["metadata", "annotations", MIRROR]).is_none() {
        return Err(format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"));
    }
    if !runs_here(pod, node) {
        return Err(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    let owner = match object::list(pod, &["metadata", "ownerReferences"]) {
        [owner] => owner,
        [] => return Err(format!("node {node:?} can only create pods with an owner reference set to itself")),
        _ => return Err(format!("node {node:?} can only create pods with a single owner reference set to itself")),
    };
    let says = |key: &str, value: &str| object::text(owner, &[key]) == value;
    if !(says("apiVersion", "v1") && says("kind", "Node") && says("name", node)) {
        return Err(format!("node {node:?} can only create pods with an owner reference set to itself"));
    }
    if !object::flag(owner, &["controller"]) {
        return Err(format!("node {node:?} can only create pods with a controller owner reference set to itself"));
    }
    if object::flag(owner, &["blockOwnerDeletion"]) {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    if !says("uid", node_uid) {
        let given = object::text(owner, &["uid"]);
        return Err(format!("node {node} UID mismatch: expected {given} got {node_uid}"));
    }
    match references::ties(pod) {
        Some(resource) => Err(format!("node {node:?} can not create pods that reference {resource}")),
        None => Ok(()),
    }
}

fn status(node: &str, old: Option<&Value>, pod: &Value) -> Result<(), String> {
    let Some(old) = old.filter(|old| runs_here(old, node)) else {
        return Err(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"));
    };
    if differs(old, pod, &["metadata", "labels"]) {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    if differs(old, pod, &["status", "resourceClaimStatuses"]) {
        return Err(format!("node {node:?} cannot update resource claim statues"));
    }
    Ok(())
}

fn own_node(node: &str, old: Option<&Value>, object: &Value) -> Result<(), String> {
    if object::name(object) != node {
        return Err(format!("node {node:?} is not allowed to modify node {:?}", object::name(object)));
    }
    if let Some(old) = old {
        if differs(old, object, &["spec", "taints"]) {
            return Err(format!("node {node:?} is not allowed to modify taints"));
        }
        if differs(old, object, &["metadata", "ownerReferences"]) {
            return Err(format!("node {node:?} is not allowed to modify ownerReferences"));
        }
    }
    let labels = |object| object::at(object, &["metadata", "labels"]).and_then(Value::as_object);
    let refused = refused_labels(old.and_then(labels), labels(object)).join(", ");
    match (refused.as_str(), old) {
        ("", _) => Ok(()),
        (refused, None) => Err(format!("node {node:?} is not allowed to set the following labels: {refused}")),
        (refused, Some(_)) => Err(format!("is not allowed to modify labels: {refused}")),
    }
}

fn differs(old: &Value, new: &Value, path: &[&str]) -> bool {
    let at = |object| object::at(object, path).cloned().unwrap_or_default();
    !check::same(&at(old), &at(new))
}

/// Labels that differ and that a node must not change, in order.
fn refused_labels<'a>(old: Option<&'a Map<String, Value>>, new: Option<&'a Map<String, Value>>) -> Vec<&'a str> {
    let keys: BTreeSet<&str> = old.into_iter().chain(new).flat_map(Map::keys).map(String::as_str).collect();
    let value = |map: Option<&'a Map<String, Value>>, key: &str| map.and_then(|map| map.get(key));
    keys.into_iter().filter(|key| value(old, key) != value(new, key) && is_refused(key)).collect()
}

fn is_refused(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    let own = OWN_LABELS.contains(&label) || within("kubelet.kubernetes.io") || within("node.kubernetes.io");
    within(RESTRICTED) || ((within("kubernetes.io") || within("k8s.io")) && !own)
}

/// A node tells how far a volume has grown, and nothing else.
fn claim_status(node: &str, old: Option<&Value>, claim: &Value) -> Result<(), String> {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        for key in ["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"] {
            object::remove(&mut rest, &["status", key]);
        }
        for key in ["managedFields", "resourceVersion"] {
            object::remove(&mut rest, &["metadata", key]);
        }
        rest
    };
    match old.is_some_and(|old| check::same(&rest(old), &rest(claim))) {
        true => Ok(()),
        false => Err(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
        )),
    }
}

fn own_request(node: &str, csr: &Value) -> Result<(), String> {
    let signer = object::text(csr, &["spec", "signerName"]);
    if !matches!(signer, "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet") {
        return Ok(());
    }
    let subject = request::subject(csr).map_err(|why| format!("unable to parse csr: {why}"))?;
    match subject.common_name.strip_prefix("system:node:") == Some(node) {
        true => Ok(()),
        false => Err(format!("can only create a node CSR with CN=system:node:{node}")),
    }
}

/// A node asks for tokens only for its own Pods, and only for those whom they name as their audience.
pub(crate) async fn token(server: &ApiServer, exchange: &Exchange, review: &Value) -> Result<(), Status> {
    let Some(node) = exchange.user.node() else { return Ok(()) };
    let (namespace, account) = (exchange.namespace(), exchange.path.name.as_str());
    let refuse = |why: String| {
        let resource = names::qualified_resource("", "serviceaccounts");
        Status::new(403, "Forbidden", format!("{resource} {account:?} is forbidden: {why}"))
            .with_details(pintle_meta::status::about(account, "", "serviceaccounts"))
    };
    let bound = |key: &str| object::text(review, &["spec", "boundObjectRef", key]);
    if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
        return Err(refuse("node requested token not bound to a pod".to_owned()));
    }
    if bound("uid").is_empty() {
        return Err(refuse("node requested token with a pod binding without a uid".to_owned()));
    }
    let key = format!("/registry/pods/{namespace}/{}", bound("name"));
    let entry = server.registry.store.get(&key).await.map_err(crate::registry::read_error)?;
    let pod = entry.map(|entry| codec::decode(&entry.value));
    let pod = pod.ok_or_else(|| Status::not_found("", "pods", bound("name")))?;
    if object::uid(&pod) != bound("uid") {
        let uid = bound("uid");
        return Err(refuse(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        )));
    }
    if !runs_here(&pod, node) {
        return Err(refuse("node requested token bound to a pod scheduled on a different node".to_owned()));
    }
    let audience = match object::list(review, &["spec", "audiences"]) {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Err(refuse("node may only request 0 or 1 audiences".to_owned())),
    };
    if names_audience(&pod, audience) {
        return Ok(());
    }
    let verb = "request-serviceaccounts-token-audience";
    let attributes = Attributes { verb, resource: audience, namespace, name: account, ..Attributes::default() };
    match server.authorizer.allows(&exchange.user, &attributes).await {
        true => Ok(()),
        false => {
            Err(refuse(format!("{} is not authorized to request tokens for audience {audience:?}", exchange.user.name)))
        }
    }
}

fn names_audience(pod: &Value, audience: &str) -> bool {
    let volumes = object::list(pod, &["spec", "volumes"]).iter();
    let sources = volumes.flat_map(|volume| object::list(volume, &["projected", "sources"]));
    let mut tokens = sources.filter_map(|source| source.get("serviceAccountToken"));
    tokens.any(|token| object::text(token, &["audience"]) == audience)
}

#[cfg(test)]
#[path = "node_restriction_tests.rs"]
mod tests;
