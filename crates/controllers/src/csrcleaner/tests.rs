//! What somebody who looks for a request would lose too early, or never get rid of.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use super::plan::ends_at;

#[test]
fn a_request_is_kept_while_somebody_may_still_act_on_it() {
    let end = |conditions: Value, certificate: Value| {
        let csr: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"request": "eA==", "signerName": "s/x"},
            "status": {"conditions": conditions, "certificate": certificate}}))
        .unwrap();
        ends_at(&csr).map(|end| end.to_string()).unwrap_or_default()
    };
    let at = |kind: &str| json!([{"type": kind, "status": "True", "lastUpdateTime": "2026-01-02T00:00:00Z"}]);
    assert_eq!(end(json!([]), Value::Null), "2026-01-02T00:00:00Z");
    assert_eq!(end(at("Denied"), Value::Null), "2026-01-02T01:00:00Z");
    assert_eq!(end(at("Failed"), Value::Null), "2026-01-02T01:00:00Z");
    assert_eq!(end(at("Approved"), Value::Null), "2026-01-03T00:00:00Z");
    assert_eq!(end(at("Approved"), json!("eA==")), "2026-01-02T01:00:00Z");
}
