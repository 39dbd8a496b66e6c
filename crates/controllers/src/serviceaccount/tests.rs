//! What a user of a namespace would lose.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use serde_json::json;

use super::plan;

#[test]
fn pods_find_a_default_account_in_every_active_namespace() {
    let namespace = |phase: &str| -> Namespace {
        serde_json::from_value(json!({"metadata": {"name": "shop"}, "status": {"phase": phase}})).unwrap()
    };
    let account = plan::missing(&namespace("Active"), None).unwrap();
    assert_eq!(account.metadata.name.as_deref(), Some("default"));
    assert_eq!(account.metadata.namespace.as_deref(), Some("shop"));
    assert!(plan::missing(&namespace("Active"), Some(&ServiceAccount::default())).is_none());
    assert!(plan::missing(&namespace("Terminating"), None).is_none());
}
