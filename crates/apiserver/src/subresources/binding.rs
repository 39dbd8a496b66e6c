//! `pods/…/binding`: the scheduler's word on where a Pod runs.

use crate::ApiServer;
use crate::admission::Operation;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::registry::{Change, Shown};
use crate::request::Sent;
use crate::response;
use http::Response;
use pintle_meta::{Status, field, object};
use serde_json::{Value, json};

pub async fn bind(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let mut binding = super::body_as(call, sent, notes, ("", "v1", "Binding"))?;
    let name = &call.path.name;
    if object::name(&binding) != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    super::place(call, &mut binding)?;
    let registry = &server.registry;
    registry.admission.pass(registry, call, notes, Operation::Create, &mut binding).await?;
    let node = object::text(&binding, &["target", "name"]);
    let kind = object::text(&binding, &["target", "kind"]);
    let mut errors = Vec::new();
    let target = field::Path::new("target");
    if !kind.is_empty() && kind != "Node" {
        errors.push(field::Error::not_supported(&target.child("kind"), kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(field::Error::required(&target.child("name"), ""));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "Binding", name, &errors));
    }
    let now = registry.clock.now_rfc3339();
    let uid = object::uid(&binding);
    let change = |pod: Option<&Value>| {
        let Some(pod) = pod else { return Err(Status::not_found("", "pods", name)) };
        let conflict = |why: String| Status::conflict("", "pods/binding", name, &why);
        if !uid.is_empty() && uid != object::uid(pod) {
            return Err(conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(pod)
            )));
        }
        if object::is_being_deleted(pod) {
            return Err(conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let assigned = object::text(pod, &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return Err(conflict(format!("pod {name} is already assigned to node {assigned:?}")));
        }
        if !object::list(pod, &["spec", "schedulingGates"]).is_empty() {
            return Err(conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        Ok(Change { shown: Shown::Nothing, ..Change::new(bound(pod, node, &binding, &now)) })
    };
    // Remarks on the Pod were made when it was created.
    registry.update(call, &Notes::new(), change).await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(response::value(201, call.wanted()?, &status))
}

fn bound(pod: &Value, node: &str, binding: &Value, now: &str) -> Value {
    let mut pod = pod.clone();
    object::set(&mut pod, &["spec", "nodeName"], node);
    // It was a plan, and is carried out or overtaken.
    object::remove(&mut pod, &["status", "nominatedNodeName"]);
    for kind in ["annotations", "labels"] {
        for (key, value) in object::at(binding, &["metadata", kind]).and_then(Value::as_object).into_iter().flatten() {
            object::set(&mut pod, &["metadata", kind, key], value.clone());
        }
    }
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let mut conditions: Vec<Value> = object::list(&pod, &["status", "conditions"]).to_vec();
    conditions.retain(|c| c["type"] != "PodScheduled");
    conditions.push(condition);
    object::set(&mut pod, &["status", "conditions"], conditions);
    pod
}
