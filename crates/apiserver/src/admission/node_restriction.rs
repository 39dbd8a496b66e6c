//! What a node may write: its own Node and Lease, the status of its own Pods, and mirrors of its own static Pods.

use super::{Operation, Plugin, Review};
use crate::call::Call;
use crate::keys;
use crate::request::ResourcePath;
use crate::resources::certificates::request;
use crate::resources::check;
use crate::resources::core::pod_spec::references;
use crate::verb::Verb;
use futures::future::BoxFuture;
use pintle_meta::rules::is_closed_to_nodes;
use pintle_meta::{Status, object};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const MIRROR: &str = "kubernetes.io/config.mirror";

pub struct NodeRestriction;

impl Plugin for NodeRestriction {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.call.user.node().is_some()
    }

    /// Before the object is prepared: what counts is what the node sent.
    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(node) = review.call.user.node() else { return Ok(()) };
            if review.is_of("", "serviceaccounts", "token") {
                return token(review, node, object).await;
            }
            let judged = match (review.operation, review.is_of("", "pods", ""), review.is_of("", "pods", "eviction")) {
                (Operation::Create, true, _) => {
                    let own = review.read(&keys::named(keys::NODES, node)).await?;
                    mirror(node, own.as_ref().map(object::uid).unwrap_or_default(), object)
                }
                (Operation::Create, _, true) => evicts(review, node).await?,
                _ => judge(node, review, object),
            };
            judged.map_err(|why| review.forbidden(object::name(object), &why))
        })
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, _: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        let (node, old) = (review.call.user.node(), review.old.filter(|_| review.operation == Operation::Delete));
        let judged = match (node, old) {
            (Some(node), Some(old)) => judge(node, review, old).map_err(|why| (object::name(old), why)),
            _ => Ok(()),
        };
        Box::pin(std::future::ready(judged.map_err(|(name, why)| review.forbidden(name, &why))))
    }
}

/// A node evicts only Pods that run on it.
async fn evicts(review: &Review<'_>, node: &str) -> Result<Result<(), String>, Status> {
    let key = keys::in_namespace(keys::PODS, review.call.namespace(), &review.call.path.name);
    let pod = review.read(&key).await?;
    let runs = pod.is_none_or(|pod| runs_here(&pod, node));
    Ok(runs.then_some(()).ok_or_else(|| format!("node {node} can only evict pods with spec.nodeName set to itself")))
}

fn judge(node: &str, review: &Review<'_>, object: &Value) -> Result<(), String> {
    if node.is_empty() {
        return Err(format!("could not determine node from user {:?}", review.call.user.name));
    }
    let (operation, old) = (review.operation, review.old);
    let is_own = object::name(object) == node;
    let (group, resource) = (review.resource.group.as_str(), review.resource.name.as_str());
    match (group, resource, review.call.path.subresource.as_str()) {
        ("", "pods", "") if operation == Operation::Delete => match runs_here(object, node) {
            true => Ok(()),
            false => Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself")),
        },
        ("", "pods", "status") => status(node, old, object),
        ("", "pods", "") => Err(format!("unexpected operation, node {node:?} can only create and delete mirror pods")),
        ("", "pods", other) => {
            Err(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"))
        }
        ("", "nodes", _) if operation == Operation::Delete && is_own => Ok(()),
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
    // Others send packets there: which addresses a node's Pods have is decided elsewhere.
    let before = old.unwrap_or(&Value::Null);
    if differs(before, object, &["spec", "podCIDR"]) || differs(before, object, &["spec", "podCIDRs"]) {
        return Err(format!("node {node:?} is not allowed to set its podCIDRs"));
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
    keys.into_iter().filter(|key| value(old, key) != value(new, key) && is_closed_to_nodes(key)).collect()
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

/// A node asks for tokens only for its own Pods, and only for the audiences that they name.
async fn token(review: &Review<'_>, node: &str, request: &Value) -> Result<(), Status> {
    let (namespace, account) = (review.call.namespace(), review.call.path.name.as_str());
    let refuse = |why: String| review.forbidden(account, &why);
    let bound = |key: &str| object::text(request, &["spec", "boundObjectRef", key]);
    if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
        return Err(refuse("node requested token not bound to a pod".to_owned()));
    }
    if bound("uid").is_empty() {
        return Err(refuse("node requested token with a pod binding without a uid".to_owned()));
    }
    let pod = review.read(&keys::in_namespace(keys::PODS, namespace, bound("name"))).await?;
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
    let audience = match object::list(request, &["spec", "audiences"]) {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Err(refuse("node may only request 0 or 1 audiences".to_owned())),
    };
    if names_audience(&pod, audience) {
        return Ok(());
    }
    let path = ResourcePath {
        resource: audience.to_owned(),
        namespace: namespace.to_owned(),
        name: account.to_owned(),
        ..ResourcePath::default()
    };
    let user = &review.call.user;
    let right = Call::asks(user.clone(), Verb::right("request-serviceaccounts-token-audience"), path);
    match review.authorizer().allows(&right).await {
        true => Ok(()),
        false => Err(refuse(format!("{} is not authorized to request tokens for audience {audience:?}", user.name))),
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
