//! What a new Pod gets from its cluster: an account with a token, a priority, tolerations for failing nodes.

use super::forbidden;
use crate::codec;
use crate::registry::{Registry, Write};
use pintle_meta::{Status, object};
use serde_json::{Value, json};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: i64 = 3607;
/// How long a Pod stays on a node that fails.
const TOLERATION_SECONDS: i64 = 300;

pub(super) async fn admit(registry: &Registry, write: &Write<'_>, pod: &mut Value) -> Result<(), Status> {
    priority(registry, write, pod).await?;
    service_account(registry, write, pod).await?;
    limits(registry, write, pod).await;
    tolerations(pod);
    Ok(())
}

async fn read(registry: &Registry, key: &str) -> Option<Value> {
    registry.store.get(key).await.ok()?.map(|entry| codec::decode(&entry.value))
}

async fn service_account(registry: &Registry, write: &Write<'_>, pod: &mut Value) -> Result<(), Status> {
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
    let key = format!("/registry/serviceaccounts/{}/{name}", write.namespace);
    let Some(account) = read(registry, &key).await else {
        let why =
            format!("error looking up service account {}/{name}: serviceaccount {name:?} not found", write.namespace);
        return Err(forbidden(write, object::name(pod), &why));
    };
    let wants = |v: &Value, path: &[&str]| object::at(v, path).and_then(Value::as_bool);
    let mounts = wants(pod, &["spec", "automountServiceAccountToken"])
        .or_else(|| wants(&account, &["automountServiceAccountToken"]))
        .unwrap_or(true);
    if mounts {
        mount_token(registry, pod);
    }
    let secrets = object::list(&account, &["imagePullSecrets"]);
    if object::list(pod, &["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        object::set(pod, &["spec", "imagePullSecrets"], secrets.to_vec());
    }
    Ok(())
}

/// A projected volume with a token that rotates, mounted into every container that mounts nothing there itself.
fn mount_token(registry: &Registry, pod: &mut Value) {
    let volume = format!("kube-api-access-{}", registry.random.suffix(5));
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

/// Turns the name of a priority class into its number.
async fn priority(registry: &Registry, write: &Write<'_>, pod: &mut Value) -> Result<(), Status> {
    let name = object::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if name.is_empty() {
        let range = pintle_store::Range::prefix("/registry/priorityclasses/");
        let page = registry.store.range(range).await.map_err(crate::registry::read_error)?;
        let classes = page.entries.iter().map(|e| codec::decode(&e.value));
        classes.filter(|c| object::flag(c, &["globalDefault"])).min_by_key(|c| object::integer(c, &["value"]))
    } else {
        let found = read(registry, &format!("/registry/priorityclasses/{name}")).await;
        if found.is_none() {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(forbidden(write, object::name(pod), &why));
        }
        found
    };
    let value = class.as_ref().and_then(|c| object::integer(c, &["value"])).unwrap_or(0);
    let policy = class.as_ref().map(|c| object::text(c, &["preemptionPolicy"])).filter(|p| !p.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    if let Some(asked) = object::integer(pod, &["spec", "priority"]).filter(|asked| *asked != value) {
        let why = format!(
            "the integer value of priority ({asked}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(forbidden(write, object::name(pod), &why));
    }
    let spec = object::map_at(pod, "spec");
    if let Some(class) = class.filter(|_| name.is_empty()) {
        spec.insert("priorityClassName".into(), object::name(&class).into());
    }
    spec.insert("priority".into(), value.into());
    object::fill(spec, "preemptionPolicy", policy);
    Ok(())
}

/// Defaults of the namespace's limit ranges for containers that say nothing.
async fn limits(registry: &Registry, write: &Write<'_>, pod: &mut Value) {
    let range = pintle_store::Range::prefix(format!("/registry/limitranges/{}/", write.namespace));
    let Ok(page) = registry.store.range(range).await else { return };
    for entry in &page.entries {
        let limit_range = codec::decode(&entry.value);
        let rules = object::list(&limit_range, &["spec", "limits"]).iter().filter(|l| l["type"] == "Container");
        for rule in rules {
            for (from, to) in [("defaultRequest", "requests"), ("default", "limits")] {
                for (resource, amount) in rule.get(from).and_then(Value::as_object).into_iter().flatten() {
                    for kind in ["initContainers", "containers"] {
                        let containers = object::at_mut(pod, &["spec", kind]).and_then(Value::as_array_mut);
                        for container in containers.into_iter().flatten() {
                            let resources = object::map_at(container, "resources");
                            let slot = object::as_map(resources.entry(to).or_insert_with(|| json!({})));
                            object::fill(slot, resource, amount.clone());
                        }
                    }
                }
            }
        }
    }
}

/// An update gets them too: a list that a client writes anew need not repeat them.
pub(super) fn tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = object::list(pod, &["spec", "tolerations"]).iter().any(|t| {
            let (k, effect) = (object::text(t, &["key"]), object::text(t, &["effect"]));
            (k == key || k.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if tolerated {
            continue;
        }
        let tolerations = object::map_at(pod, "spec").entry("tolerations").or_insert_with(|| json!([]));
        if let Some(tolerations) = tolerations.as_array_mut() {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}));
        }
    }
}
