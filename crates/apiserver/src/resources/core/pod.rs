//! A Pod: containers that run together on one node.

use super::pod_spec::{default, print, resize, update};
use crate::strategy::{Grace, Printed, Strategy};
use pintle_meta::field::Errors;
use pintle_meta::object;
use serde_json::{Value, json};

pub struct Pod;

impl Strategy for Pod {
    fn default(&self, pod: &mut Value) {
        default::pod(pod);
    }

    fn prepare_create(&self, pod: &mut Value) {
        let class = pintle_rules::pod::quality(pod).name();
        object::set(pod, &["status"], json!({"phase": "Pending", "qosClass": class}));
        if !object::list(pod, &["spec", "schedulingGates"]).is_empty() {
            let condition = json!({"type": "PodScheduled", "status": "False", "lastProbeTime": null,
                "lastTransitionTime": null, "reason": "SchedulingGated", "observedGeneration": 1,
                "message": "Scheduling is blocked due to non-empty scheduling gates"});
            object::set(pod, &["status", "conditions"], json!([condition]));
        }
    }

    fn prepare_update(&self, pod: &mut Value, old: &Value, subresource: &str) {
        if subresource != "ephemeralcontainers" {
            keep(pod, old, &["spec", "ephemeralContainers"]);
        } else {
            let added = object::at(pod, &["spec", "ephemeralContainers"]).cloned();
            keep_spec(pod, old);
            if let Some(added) = added {
                object::set(pod, &["spec", "ephemeralContainers"], added);
            }
        }
        if subresource == "resize" {
            resize::only(pod, old);
        }
        if matches!(subresource, "" | "ephemeralcontainers" | "resize") {
            keep(pod, old, &["status"]);
        }
    }

    fn prepare_status(&self, pod: &mut Value, old: &Value) {
        if object::text(pod, &["status", "qosClass"]).is_empty() {
            keep(pod, old, &["status", "qosClass"]);
        }
        keep_observed_generations(pod, old);
    }

    fn validate_update(&self, pod: &Value, old: &Value, subresource: &str, errors: &mut Errors) {
        match subresource {
            "resize" => resize::check(pod, old, errors),
            _ => update::check(pod, old, subresource, errors),
        }
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn indexed_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName"]
    }

    fn selectable_field(&self, pod: &Value, field: &str) -> String {
        match field {
            "spec.hostNetwork" => object::flag(pod, &["spec", "hostNetwork"]).to_string(),
            "status.podIPs" => {
                let first = object::list(pod, &["status", "podIPs"]).first();
                first.map(|ip| object::text(ip, &["ip"])).unwrap_or_default().to_owned()
            }
            other => object::text(pod, &other.split('.').collect::<Vec<_>>()).to_owned(),
        }
    }

    /// Who runs the Pod ends it; one that no node runs, or that has ended, goes at once.
    fn grace(&self, pod: &Value, asked: Option<i64>) -> Grace {
        let phase = object::text(pod, &["status", "phase"]);
        if object::text(pod, &["spec", "nodeName"]).is_empty() || matches!(phase, "Succeeded" | "Failed") {
            return Grace::Seconds(0);
        }
        let own = || object::integer(pod, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(0);
        let seconds = asked.unwrap_or_else(own);
        Grace::Seconds(if seconds < 0 { 1 } else { seconds })
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn scale(&self) -> Option<crate::strategy::ScalePaths> {
        None
    }

    fn printed(&self) -> &'static [Printed] {
        print::COLUMNS
    }
}

fn keep_spec(pod: &mut Value, old: &Value) {
    keep(pod, old, &["spec"]);
}

fn keep(pod: &mut Value, old: &Value, path: &[&str]) {
    match object::at(old, path) {
        Some(value) => object::set(pod, path, value.clone()),
        None => drop(object::remove(pod, path)),
    }
}

/// A writer that does not know of observed generations does not take them away: neither the status's nor those of conditions.
fn keep_observed_generations(pod: &mut Value, old: &Value) {
    const FIELD: &str = "observedGeneration";
    let is_set = |value: &Value| value[FIELD].as_i64().is_some_and(|generation| generation != 0);
    if let (Some(status), Some(old)) = (pod.get_mut("status"), old.get("status").filter(|old| is_set(old)))
        && status.is_object()
        && !is_set(status)
    {
        status[FIELD] = old[FIELD].clone();
    }
    let before = object::list(old, &["status", "conditions"]);
    let conditions = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter(|condition| condition.is_object()) {
        let same = before.iter().find(|before| before["type"] == condition["type"] && is_set(before));
        if let Some(same) = same.filter(|_| !is_set(condition)) {
            condition[FIELD] = same[FIELD].clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_written_by_an_older_client_keeps_the_observed_generations() {
        let old = json!({"status": {"observedGeneration": 3, "conditions": [
            {"type": "Ready", "status": "True", "observedGeneration": 2}, {"type": "Own", "status": "True"}]}});
        let mut new = json!({"status": {"conditions": [{"type": "Ready", "status": "False"},
            {"type": "Own", "status": "False"}, {"type": "New", "status": "True"}]}});
        Pod.prepare_status(&mut new, &old);
        let expected = json!({"observedGeneration": 3, "conditions": [
            {"type": "Ready", "status": "False", "observedGeneration": 2}, {"type": "Own", "status": "False"},
            {"type": "New", "status": "True"}]});
        assert_eq!(new["status"], expected);
        let mut newer = json!({"status": {"observedGeneration": 4}});
        Pod.prepare_status(&mut newer, &old);
        assert_eq!(newer["status"], json!({"observedGeneration": 4}));
    }
}
