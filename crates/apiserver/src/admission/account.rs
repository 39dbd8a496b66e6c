//! Every Pod runs under a service account, and gets a token of it.

use super::{Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Random, Status, object};
use serde_json::{Value, json};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: i64 = 3607;

pub struct Account;

impl Plugin for Account {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("", "pods")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, pod: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(assign(review, pod))
    }
}

async fn assign(review: &Review<'_>, pod: &mut Value) -> Result<(), Status> {
    // A static Pod's mirror stands for what already runs.
    if object::at(pod, &["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some() {
        return Ok(());
    }
    let spec = object::map_at(pod, "spec");
    let name = spec
        .get("serviceAccountName")
        .and_then(Value::as_str)
        .filter(|n| !n.is_empty())
        .unwrap_or("default")
        .to_owned();
    spec.insert("serviceAccountName".into(), name.clone().into());
    spec.insert("serviceAccount".into(), name.clone().into());
    let namespace = review.call.namespace();
    let Some(account) = review.read(&keys::in_namespace(keys::SERVICE_ACCOUNTS, namespace, &name)).await? else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(review.forbidden(object::name(pod), &why));
    };
    let wants = |v: &Value, path: &[&str]| object::at(v, path).and_then(Value::as_bool);
    let mounts = wants(pod, &["spec", "automountServiceAccountToken"])
        .or_else(|| wants(&account, &["automountServiceAccountToken"]))
        .unwrap_or(true);
    if mounts {
        mount_token(&review.registry.random, pod);
    }
    let secrets = object::list(&account, &["imagePullSecrets"]);
    if object::list(pod, &["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        object::set(pod, &["spec", "imagePullSecrets"], secrets.to_vec());
    }
    Ok(())
}

/// A projected volume with a token that rotates, mounted into every container that mounts nothing there itself.
fn mount_token(random: &Random, pod: &mut Value) {
    let volume = format!("kube-api-access-{}", random.suffix(5));
    let mut used = false;
    for kind in ["initContainers", "containers"] {
        let Some(containers) = object::at_mut(pod, &["spec", kind]).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let mounts = object::as_map(container).entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if !mounts.iter().any(|m| m["mountPath"] == TOKEN_PATH) {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
                used = true;
            }
        }
    }
    if !used {
        return;
    }
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]);
    let volumes = object::map_at(pod, "spec").entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(json!({"name": volume, "projected": {"sources": sources, "defaultMode": 420}}));
    }
}
