//! How the runtime is to run a Pod: the handler that the Pod's RuntimeClass names.

use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Client;
use pintle_runtime::Objects;

use crate::make::Facts;

/// Empty for the runtime's own choice. An error is for the Pod's owner.
pub(super) async fn handler(client: &Client, facts: &Facts<'_>) -> Result<String, String> {
    let Some(name) = facts.spec.runtime_class_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(String::new());
    };
    let classes: Objects<RuntimeClass> = Objects::all(client.clone());
    let said = |why: String| format!("failed to get sandbox runtime: {why}");
    match classes.get_opt(name).await {
        Ok(Some(class)) => Ok(class.handler),
        Ok(None) => Err(said(format!("runtimeclass.node.k8s.io {name:?} not found"))),
        Err(error) => Err(said(error.to_string())),
    }
}
