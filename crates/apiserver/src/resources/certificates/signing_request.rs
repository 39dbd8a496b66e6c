//! A CertificateSigningRequest: who wants a certificate, whether it may have one, and the certificate.

use super::validate;
use crate::resources::print::{AGE, NAME, NONE, text, text_or};
use crate::strategy::{Printed, Strategy};
use crate::table;
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

    fn validate(&self, request: &Value, errors: &mut Errors) {
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
