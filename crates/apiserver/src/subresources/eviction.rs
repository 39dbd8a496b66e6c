//! `pods/…/eviction`: a deletion that asks the disruption budgets first.

use crate::ApiServer;
use crate::admission::Operation;
use crate::body::Body;
use crate::call::Call;
use crate::codec;
use crate::keys;
use crate::notes::Notes;
use crate::registry::{Change, DeleteOptions, Registry, Shown};
use crate::request::Sent;
use crate::response;
use crate::verb::Verb;
use http::Response;
use pintle_meta::{Status, labels::Selector, object};
use pintle_store::{Expect, Op, Range, Txn};
use serde_json::{Value, json};

pub async fn evict(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let mut eviction = super::body_as(call, sent, notes, ("policy", "v1", "Eviction"))?;
    if object::name(&eviction) != call.path.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    super::place(call, &mut eviction)?;
    let registry = &server.registry;
    let stored = registry.stored_resource(call.resource()?);
    let entry = registry.get(&stored, call.namespace(), &call.path.name).await?;
    let pod = codec::decode(&entry.value);
    registry.admission.pass(registry, call, notes, Operation::Create, &mut eviction).await?;
    let options = object::at(&eviction, &["deleteOptions"]).cloned().unwrap_or_else(|| json!({}));
    let mut options = DeleteOptions::from_value(&options)?;
    options.dry_run |= call.dry_run()?;
    // Read before it was judged: another Pod of that name is not deleted in its place.
    options.uid.get_or_insert_with(|| object::uid(&pod).to_owned());
    // A Pod that does not run, or is already going, disrupts nothing.
    let phase = object::text(&pod, &["status", "phase"]);
    if !matches!(phase, "Succeeded" | "Failed" | "Pending") && !object::is_being_deleted(&pod) && !options.dry_run {
        take_from_budget(server, call.namespace(), &pod).await?;
    }
    if !options.dry_run {
        mark_evicted(registry, call, &options).await?;
    }
    registry.delete(call, notes, &options).await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(response::value(201, call.wanted()?, &status))
}

/// Says in the Pod's status why it goes.
async fn mark_evicted(registry: &Registry, call: &Call, options: &DeleteOptions) -> Result<(), Status> {
    let name = &call.path.name;
    let stored = registry.stored_resource(call.resource()?);
    let own = Call::own(Verb::Update, &stored, call.namespace(), name, "kube-apiserver").through("status");
    let now = registry.clock.now_rfc3339();
    let change = |pod: Option<&Value>| {
        let pod = pod.ok_or_else(|| Status::not_found("", "pods", name))?;
        if options.uid.as_deref().is_some_and(|uid| uid != object::uid(pod)) {
            return Err(Status::not_found("", "pods", name));
        }
        let mut pod = pod.clone();
        let status = object::map_at(&mut pod, "status");
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(conditions) = conditions.as_array_mut() {
            let was = conditions.iter().position(|condition| condition["type"] == "DisruptionTarget");
            let was = was.map(|at| conditions.remove(at)).filter(|was| was["status"] == "True");
            let since = was.map_or_else(|| json!(now), |was| was["lastTransitionTime"].clone());
            conditions.push(json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": since, "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}));
        }
        Ok(Change { object: pod, tracked: true, shown: Shown::Nothing })
    };
    registry.update(&own, &Notes::new(), change).await?;
    Ok(())
}

/// Takes one disruption from the budget that covers the Pod; refuses when none is left.
async fn take_from_budget(server: &ApiServer, namespace: &str, pod: &Value) -> Result<(), Status> {
    let store = &server.registry.store;
    loop {
        let range = Range::prefix(keys::namespace(keys::DISRUPTION_BUDGETS, namespace));
        let page = store.range(range).await.map_err(crate::registry::read_error)?;
        let mut covering = page.entries.iter().filter_map(|entry| {
            let budget = codec::decode(&entry.value);
            let selector = Selector::from_label_selector(object::at(&budget, &["spec", "selector"]))?;
            selector.matches_labels(object::at(pod, &["metadata", "labels"])).then(|| (entry.clone(), budget))
        });
        let Some((entry, mut budget)) = covering.next() else { return Ok(()) };
        if covering.next().is_some() {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let allowed = object::integer(&budget, &["status", "disruptionsAllowed"]).unwrap_or(0);
        if allowed <= 0 {
            let name = object::name(&budget);
            let healthy = object::integer(&budget, &["status", "currentHealthy"]).unwrap_or(0);
            let desired = object::integer(&budget, &["status", "desiredHealthy"]).unwrap_or(0);
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let cause =
                format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
            return Err(Status::new(429, "TooManyRequests", message)
                .with_details(json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]})));
        }
        object::set(&mut budget, &["status", "disruptionsAllowed"], allowed - 1);
        object::set(&mut budget, &["status", "disruptedPods", object::name(pod)], server.registry.clock.now_rfc3339());
        let txn = Txn {
            checks: vec![(entry.key.clone(), Expect::Revision(entry.mod_revision))],
            ops: vec![Op::Put { key: entry.key.clone(), value: codec::encode(&budget), expires_at: None }],
            ..Txn::default()
        };
        match store.commit(txn).await {
            Ok(_) => return Ok(()),
            Err(pintle_store::CommitError::Conflict { .. }) => {}
            Err(error) => return Err(Status::unavailable(error.to_string())),
        }
    }
}
