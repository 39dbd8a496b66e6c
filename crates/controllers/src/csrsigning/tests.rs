//! What a machine that was approved would lose.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use super::plan::{Step, step};

const FOR_CLIENT: &str = include_str!("../csrapproving/testdata/client.b64");

fn request(change: impl FnOnce(&mut Value)) -> CertificateSigningRequest {
    let mut request = json!({"metadata": {"name": "r"},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": FOR_CLIENT,
            "usages": ["digital signature", "client auth"]},
        "status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    change(&mut request);
    serde_json::from_value(request).unwrap()
}

#[test]
fn what_was_approved_is_signed_once_and_nothing_else() {
    let now = Timestamp::UNIX_EPOCH;
    let decide = |change: fn(&mut Value)| step(&request(change), now, 1);
    assert!(matches!(decide(|_| {}), Step::Sign(_)));
    assert_eq!(decide(|r| r["status"] = json!({})), Step::Nothing);
    assert_eq!(decide(|r| r["status"]["certificate"] = "eA==".into()), Step::Nothing);
    assert_eq!(decide(|r| r["status"]["conditions"][0]["type"] = "Failed".into()), Step::Nothing);
    assert_eq!(decide(|r| r["spec"]["signerName"] = "example.com/x".into()), Step::Nothing);
    assert!(matches!(decide(|r| r["spec"]["usages"] = json!(["cert sign"])), Step::Fail(_)));
}

#[test]
fn a_certificate_holds_for_as_long_as_was_asked_and_at_most_a_year() {
    let now = Timestamp::UNIX_EPOCH;
    let life = |seconds: Value| {
        let Step::Sign(order) = step(&request(|r| r["spec"]["expirationSeconds"] = seconds), now, 1) else {
            panic!("it is not signed")
        };
        order.not_after.duration_since(now)
    };
    let year = SignedDuration::from_hours(365 * 24) - SignedDuration::from_mins(5);
    assert_eq!(life(Value::Null), year);
    assert_eq!(life(json!(2_000_000_000)), year);
    assert_eq!(life(json!(3600)), SignedDuration::from_hours(1));
    assert_eq!(life(json!(1)), SignedDuration::from_mins(10));
}
