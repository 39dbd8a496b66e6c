//! A CertificateSigningRequest: who wants a certificate, whether it may have one, and the certificate.

use super::validate;
use crate::resources::print::{AGE, NAME, NONE, text, text_or};
use crate::strategy::{Printed, Strategy};
use crate::table;
use jiff::Timestamp;
use pintle_meta::clock::rfc3339;
use pintle_meta::field::Errors;
use pintle_meta::object;
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    AGE,
    text("SignerName", "certificates.v1.CertificateSigningRequestSpec.signerName", |request, _| {
        text_or(request, &["spec", "signerName"], NONE)
    }),
    text("Requestor", "certificates.v1.CertificateSigningRequestSpec.request", |request, _| {
        object::text(request, &["spec", "username"]).into()
    }),
    text("RequestedDuration", "certificates.v1.CertificateSigningRequestSpec.expirationSeconds", |request, _| {
        object::integer(request, &["spec", "expirationSeconds"])
            .map_or_else(|| NONE.into(), |s| table::duration(s).into())
    }),
    text("Condition", "certificates.v1.CertificateSigningRequestStatus.conditions", |request, _| {
        condition(request).into()
    }),
];

pub struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn prepare_create(&self, request: &mut Value) {
        object::set(request, &["status"], json!({}));
    }

    /// What was asked does not change; through `approval` only the conditions do.
    fn prepare_update(&self, request: &mut Value, old: &Value, subresource: &str) {
        if let Some(spec) = old.get("spec") {
            object::set(request, &["spec"], spec.clone());
        }
        if subresource == "approval" {
            let conditions = object::at(request, &["status", "conditions"]).cloned();
            object::set(request, &["status"], old.get("status").cloned().unwrap_or_else(|| json!({})));
            if let Some(conditions) = conditions {
                object::set(request, &["status", "conditions"], conditions);
            }
        }
    }

    fn prepare_status(&self, request: &mut Value, old: &Value) {
        keep_decision(request, old);
    }

    fn fill_in_times(&self, request: &mut Value, old: &Value, now: Timestamp) {
        let now = rfc3339(now);
        let is_missing = |value: Option<&Value>| value.is_none_or(Value::is_null);
        for condition in conditions_mut(request) {
            if is_missing(condition.get("lastUpdateTime")) {
                condition["lastUpdateTime"] = now.clone().into();
            }
            if is_missing(condition.get("lastTransitionTime")) {
                let same = |before: &&Value| {
                    before["type"] == condition["type"]
                        && before["status"] == condition["status"]
                        && !is_missing(before.get("lastTransitionTime"))
                };
                let before = object::list(old, &["status", "conditions"]).iter().find(same);
                let since = before.map_or_else(|| now.clone().into(), |before| before["lastTransitionTime"].clone());
                condition["lastTransitionTime"] = since;
            }
        }
    }

    fn validate(&self, request: &Value, _old: Option<&Value>, errors: &mut Errors) {
        validate::new(request, errors);
    }

    fn validate_update(&self, request: &Value, old: &Value, subresource: &str, errors: &mut Errors) {
        validate::changed(request, old, subresource, errors);
    }

    fn validate_status(&self, request: &Value, old: &Value, errors: &mut Errors) {
        validate::changed(request, old, "status", errors);
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

/// Whoever signs hands the decision back as it was; what it left out of it, or wrote otherwise, does not count. Decisions that
/// come or go are left for the validation to see.
fn keep_decision(request: &mut Value, old: &Value) {
    for kind in ["Approved", "Denied"] {
        let before = object::list(old, &["status", "conditions"]).iter().filter(|c| c["type"] == kind);
        let before: Vec<Value> = before.cloned().collect();
        let after: Vec<&mut Value> = conditions_mut(request).iter_mut().filter(|c| c["type"] == kind).collect();
        if before.len() == after.len() {
            after.into_iter().zip(before).for_each(|(after, before)| *after = before);
        }
    }
}

fn conditions_mut(request: &mut Value) -> &mut [Value] {
    let conditions = request.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    conditions.map_or(&mut [], Vec::as_mut_slice)
}

fn condition(request: &Value) -> String {
    let has = |kind: &str| object::list(request, &["status", "conditions"]).iter().any(|c| c["type"] == kind);
    let mut word = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (_, true) => "Approved".to_owned(),
        _ => "Pending".to_owned(),
    };
    if has("Failed") {
        word.push_str(",Failed");
    }
    if !object::text(request, &["status", "certificate"]).is_empty() {
        word.push_str(",Issued");
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_signs_changes_no_decision_and_needs_to_know_no_time() {
        let approved = json!({"type": "Approved", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": null});
        let old = json!({"spec": {}, "status": {"conditions": [approved.clone()]}});
        let mut request = json!({"spec": {}, "status": {"conditions": [
            {"type": "Approved", "status": "True", "message": "changed"},
            {"type": "Failed", "status": "True"}]}});
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        CertificateSigningRequest.prepare_status(&mut request, &old);
        assert_eq!(request["status"]["conditions"][0], approved);
        CertificateSigningRequest.fill_in_times(&mut request, &old, now);
        assert_eq!(request["status"]["conditions"][1]["lastTransitionTime"], "2026-01-02T00:00:00Z");
        assert_eq!(request["status"]["conditions"][1]["lastUpdateTime"], "2026-01-02T00:00:00Z");
    }
}
