//! What someone who deletes a namespace would lose.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::conditions;
use serde_json::json;

use super::plan::{self, Findings, Next};

fn objects(count: usize, finalizer: Option<&str>) -> Vec<ObjectMeta> {
    let finalizers = finalizer.map(|name| vec![name.to_owned()]);
    vec![ObjectMeta { finalizers, ..ObjectMeta::default() }; count]
}

#[test]
fn a_namespace_goes_only_when_nothing_is_left_in_it() {
    let mut findings = Findings::default();
    findings.note("configmaps", "", &[], 0);
    assert_eq!(findings.next(), Next::Finalize);
    findings.note("pods", "", &objects(2, None), 30);
    assert_eq!(findings.next(), Next::Wait(Duration::from_secs(2)));
    findings.note("secrets", "", &objects(1, None), 0);
    assert!(matches!(findings.next(), Next::Fail(_)), "what should be gone and is not is an error");
}

#[test]
fn a_namespace_stays_while_it_is_not_known_what_another_api_server_has_in_it() {
    let mut findings = Findings::default();
    findings.discovery_error = plan::undiscovered(&[]);
    assert_eq!(findings.next(), Next::Finalize);
    findings.discovery_error = plan::undiscovered(&["things.example.com/v1".to_owned()]);
    let said = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
        things.example.com/v1: stale GroupVersion discovery: things.example.com/v1";
    assert_eq!(findings.discovery_error.as_deref(), Some(said));
    assert!(matches!(findings.next(), Next::Fail(_)));
}

#[test]
fn what_holds_up_a_deletion_can_be_read_in_the_conditions() {
    let mut findings = Findings::default();
    findings.note("widgets", "example.com", &objects(3, Some("example.com/hold")), 0);
    let namespace = Namespace::default();
    let told = findings.conditions(&namespace, Timestamp::UNIX_EPOCH).unwrap();
    let message = |kind: &str| conditions::find(&told, kind).unwrap().message.clone().unwrap();
    assert_eq!(
        message("NamespaceContentRemaining"),
        "Some resources are remaining: widgets.example.com has 3 resource instances"
    );
    assert_eq!(
        message("NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances"
    );
    assert_eq!(told.iter().filter(|condition| condition.status == "True").count(), 2);
    let status = json!({"status": {"conditions": told}});
    let telling: Namespace = serde_json::from_value(status).unwrap();
    assert_eq!(findings.conditions(&telling, Timestamp::UNIX_EPOCH), None, "not told twice");
}

#[test]
fn pods_get_their_grace_and_no_more() {
    let pod: Pod =
        serde_json::from_value(json!({"spec": {"terminationGracePeriodSeconds": 30, "containers": []}})).unwrap();
    let at = |second| Timestamp::from_second(second).unwrap();
    assert_eq!(plan::grace_of(std::slice::from_ref(&pod), at(0), at(10)), 30);
    assert_eq!(plan::grace_of(&[pod], at(0), at(30)), 0);
}

#[test]
fn another_owners_finalizer_stays() {
    let namespace: Namespace =
        serde_json::from_value(json!({"spec": {"finalizers": ["kubernetes", "example.com/audit"]}})).unwrap();
    assert_eq!(plan::finalized(&namespace).spec.unwrap().finalizers.unwrap(), ["example.com/audit"]);
    assert!(!plan::is_finalized(&namespace));
}
