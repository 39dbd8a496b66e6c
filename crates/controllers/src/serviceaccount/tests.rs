//! What a user of a namespace would lose.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use serde_json::json;

use super::plan;

#[test]
fn pods_find_a_default_account_in_every_active_namespace() {
    let namespace = |phase: &str| -> Namespace {
        serde_json::from_value(json!({"metadata": {"name": "shop"}, "status": {"phase": phase}})).unwrap()
    };
    let planned = |phase: &str, account: Option<&ServiceAccount>| {
        let plan = plan::plan(Some(&namespace(phase)), account);
        plan.writes.iter().map(|write| format!("{write} in {}", write.collection)).collect::<Vec<_>>()
    };
    let create = "create serviceaccounts/default in /api/v1/namespaces/shop/serviceaccounts";
    assert_eq!(planned("Active", None), [create]);
    assert!(planned("Active", Some(&ServiceAccount::default())).is_empty());
    assert!(planned("Terminating", None).is_empty());
    assert!(plan::plan(None, None).writes.is_empty());
}
