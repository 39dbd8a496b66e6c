//! Says when a webhook guards what its own Service needs: once its Pods are gone, they could not be made again.

use super::hook::Hook;
use crate::admission::{Operation, Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Value, json};

/// What a Service of a webhook needs to answer, as group, version and resource.
const NEEDED: [(&str, &str, &str); 6] = [
    ("", "v1", "pods"),
    ("apps", "v1", "replicasets"),
    ("discovery.k8s.io", "v1", "endpointslices"),
    ("", "v1", "endpoints"),
    ("", "v1", "serviceaccounts"),
    ("coordination.k8s.io", "v1", "leases"),
];

pub struct Lockout;

impl Lockout {
    async fn warn(review: &Review<'_>, configuration: &Value) -> Result<(), Status> {
        for (index, webhook) in object::list(configuration, &["webhooks"]).iter().enumerate() {
            let hook = Hook::read(webhook, object::name(configuration), index);
            let Some((namespace, service)) = hook.client.service() else { continue };
            if hook.fails_open {
                continue;
            }
            let Some(needed) = NEEDED.into_iter().find(|needed| guards(&hook, *needed)) else { continue };
            let stored = review.read(&keys::named(keys::NAMESPACES, namespace)).await?;
            let name = json!({"kubernetes.io/metadata.name": namespace});
            let labels =
                stored.as_ref().and_then(|stored| object::at(stored, &["metadata", "labels"])).unwrap_or(&name);
            if hook.namespaces.matches_labels(Some(labels)) {
                review.notes.warn(format!(
                    "webhooks[{index}]: {:?} must be asked before {} are written in namespace {namespace:?}, where its own service {service:?} runs: if that stops answering, it cannot be restarted until this configuration is deleted; exclude the namespace with namespaceSelector, or use failurePolicy Ignore",
                    hook.name, needed.2
                ));
            }
        }
        Ok(())
    }
}

/// Is it asked about creations of this resource, whatever the object?
fn guards(hook: &Hook, (group, version, resource): (&str, &str, &str)) -> bool {
    let has = |words: &[String], word: &str| words.iter().any(|one| one == "*" || one == word);
    hook.objects.is_everything()
        && hook.rules.iter().any(|rule| {
            has(&rule.operations, Operation::Create.as_str())
                && has(&rule.groups, group)
                && has(&rule.versions, version)
                && rule.scope != "Cluster"
                && rule
                    .resources
                    .iter()
                    .any(|(left, right)| (left == "*" || left == resource) && (right.is_empty() || right == "*"))
        })
}

impl Plugin for Lockout {
    fn concerns(&self, review: &Review<'_>) -> bool {
        let kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        let is_written = matches!(review.operation, Operation::Create | Operation::Update);
        is_written && kinds.iter().any(|kind| review.is_of("admissionregistration.k8s.io", kind, ""))
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match object {
                Some(configuration) => Lockout::warn(review, configuration).await,
                None => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_guards_its_own_pods_is_known() {
        let hook = |rules: Value, objects: Value| {
            Hook::read(&json!({"name": "a.b.c", "rules": rules, "objectSelector": objects}), "c", 0)
        };
        let rule = |group: &str, resource: &str, operation: &str| json!([{"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]}]);
        let pods = NEEDED[0];
        assert!(guards(&hook(rule("", "pods", "CREATE"), json!({})), pods));
        assert!(guards(&hook(rule("*", "*/*", "*"), json!({})), pods));
        assert!(!guards(&hook(rule("", "pods", "DELETE"), json!({})), pods));
        assert!(!guards(&hook(rule("", "pods/exec", "CREATE"), json!({})), pods));
        assert!(!guards(&hook(rule("", "pods", "CREATE"), json!({"matchLabels": {"a": "b"}})), pods));
    }
}
