//! Writes a Pod's status when it differs from what the API server has.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Patch, PatchParams};
use pintle_runtime::{ApiError, Error, Objects};
use serde_json::{Map, Value, json};

use super::{Memory, Pods};

/// What this agent wrote last, and the version that it became.
pub(super) struct Written {
    version: Option<u64>,
    status: PodStatus,
}

/// The newer of what the cache has and what was written.
pub(super) fn latest(pod: &Pod, memory: &mut Memory) -> PodStatus {
    let cached = version_of(pod);
    match &memory.written {
        Some(written) if written.version > cached => written.status.clone(),
        _ => {
            memory.written = None;
            pod.status.clone().unwrap_or_default()
        }
    }
}

impl Pods {
    pub(super) async fn write_status(
        &self,
        pod: &Pod,
        old: &PodStatus,
        new: &PodStatus,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(status) = difference(old, new) else { return Ok(()) };
        let Some(uid) = self.uid_on_server(pod) else { return Ok(()) };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let pods: Objects<Pod> = Objects::namespaced(self.context.client.clone(), namespace);
        // The UID makes the write fail on a successor of the same name.
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        match pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(written) => {
                let version = version_of(&written);
                memory.written = Some(Written { version, status: written.status.unwrap_or_default() });
                Ok(())
            }
            // It is gone; the cache will say so.
            Err(error) if error.is_not_found() => Ok(()),
            // Also a conflict is tried again: a server that is written to from many sides gives one for no fault of ours, and if
            // another Pod has taken the name, the next look finds it.
            Err(error) => Err(error.into()),
        }
    }
}

/// A strategic merge patch from one status to the other; nothing if they are the same.
fn difference(old: &PodStatus, new: &PodStatus) -> Option<Value> {
    if old == new {
        return None;
    }
    let (old, new) = (fields(old), fields(new));
    let mut patch = Map::new();
    for (field, value) in &new {
        if old.get(field) == Some(value) {
            continue;
        }
        let value = match field.as_str() {
            "conditions" => match changed_conditions(old.get(field), value) {
                changed if changed.is_empty() => continue,
                changed => Value::Array(changed),
            },
            // Merged by address otherwise, which would keep the old ones.
            "podIPs" | "hostIPs" => {
                let addresses = value.as_array().into_iter().flatten().cloned();
                std::iter::once(json!({"$patch": "replace"})).chain(addresses).collect()
            }
            _ => value.clone(),
        };
        patch.insert(field.clone(), value);
    }
    patch.extend(old.keys().filter(|field| !new.contains_key(*field)).map(|field| (field.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Only those that differ or went, so that what others write beside them is not undone.
fn changed_conditions(old: Option<&Value>, new: &Value) -> Vec<Value> {
    let items = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    let old = items(old);
    let new = items(Some(new));
    let kinds: Vec<&Value> = new.iter().map(|condition| &condition["type"]).collect();
    let gone = old.iter().map(|condition| &condition["type"]).filter(|kind| !kinds.contains(kind));
    let gone: Vec<Value> = gone.map(|kind| json!({"$patch": "delete", "type": kind})).collect();
    let changed = new.iter().filter(|condition| !old.contains(condition)).cloned();
    let changed = changed.map(|mut condition| {
        if let Some(fields) = condition.as_object_mut() {
            for field in ["reason", "message"] {
                fields.entry(field).or_insert(Value::Null);
            }
        }
        condition
    });
    changed.chain(gone).collect()
}

/// As JSON, in which times are what the API server keeps of them.
fn fields(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn version_of(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_ref().and_then(|version| version.parse().ok())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodCondition, PodIP};

    use super::*;

    #[test]
    fn only_what_changed_is_written_and_what_went_is_taken_away() {
        let condition = |kind: &str, status: &str, reason: Option<&str>| PodCondition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.map(str::to_owned),
            ..PodCondition::default()
        };
        let old = PodStatus {
            phase: Some("Pending".into()),
            host_ip: Some("10.0.0.1".into()),
            reason: Some("Odd".into()),
            pod_ips: Some(vec![PodIP { ip: "10.1.1.1".into() }]),
            conditions: Some(vec![
                condition("Ready", "False", Some("No")),
                condition("Gate", "True", None),
                condition("Gone", "True", None),
            ]),
            ..PodStatus::default()
        };
        let new = PodStatus {
            phase: Some("Running".into()),
            reason: None,
            pod_ips: Some(vec![PodIP { ip: "10.1.1.2".into() }]),
            conditions: Some(vec![condition("Ready", "True", None), condition("Gate", "True", None)]),
            ..old.clone()
        };
        assert_eq!(difference(&old, &old), None);
        let expected = json!({
            "phase": "Running",
            "reason": null,
            "podIPs": [{"$patch": "replace"}, {"ip": "10.1.1.2"}],
            "conditions": [
                {"type": "Ready", "status": "True", "reason": null, "message": null},
                {"$patch": "delete", "type": "Gone"}],
        });
        assert_eq!(difference(&old, &new), Some(expected));
    }
}
