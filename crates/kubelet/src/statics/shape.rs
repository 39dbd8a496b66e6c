//! From what a file says to a Pod of this node: a name that no other node has, and a UID that the same words always make.

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::mirror::{HASH, SOURCE};

/// How much of the digest is enough; as long as upstream's.
const UID_BYTES: usize = 16;

pub(super) fn of_node(mut pod: Pod, node: &str) -> Result<Pod, String> {
    let spec = pod.spec.as_mut().ok_or("it has no spec")?;
    spec.node_name = Some(node.to_owned());
    // Whatever befalls the node, its own Pods stay.
    let stays =
        Toleration { operator: Some("Exists".into()), effect: Some("NoExecute".into()), ..Toleration::default() };
    let tolerations = spec.tolerations.get_or_insert_default();
    if !tolerations.contains(&stays) {
        tolerations.push(stays);
    }
    if let Some(needed) = needs_server(spec) {
        return Err(format!("a static Pod runs without an API server and may not use {needed}"));
    }
    let meta = &mut pod.metadata;
    let name = meta.name.as_deref().filter(|name| !name.is_empty()).ok_or("metadata.name is missing")?;
    meta.name = Some(format!("{name}-{}", node.to_lowercase()));
    meta.namespace = Some(meta.namespace.take().filter(|given| !given.is_empty()).unwrap_or_else(|| "default".into()));
    meta.uid = None;
    let text = serde_json::to_vec(&pod).map_err(|error| error.to_string())?;
    let hash: String =
        digest(&SHA256, &text).as_ref().iter().take(UID_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE.to_owned(), "file".to_owned());
    annotations.insert(HASH.to_owned(), hash.clone());
    pod.metadata.uid = Some(hash);
    Ok(pod)
}

/// The same Pod, on its way to its end.
pub(super) fn ending(pod: &Pod, now: Timestamp) -> Pod {
    let mut pod = pod.clone();
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod.metadata.deletion_timestamp = Some(Time(now));
    pod
}

/// What only an API server could give, if the Pod asks for that.
fn needs_server(spec: &PodSpec) -> Option<&'static str> {
    let volumes = || spec.volumes.iter().flatten();
    let sources =
        || volumes().filter_map(|volume| volume.projected.as_ref()).flat_map(|volume| volume.sources.iter().flatten());
    let env = || crate::make::containers(spec).flat_map(|container| container.env.iter().flatten());
    let env_from = || crate::make::containers(spec).flat_map(|container| container.env_from.iter().flatten());
    let given = || env().filter_map(|variable| variable.value_from.as_ref());
    let uses = [
        ("a ServiceAccount", spec.service_account_name.as_deref().is_some_and(|name| !name.is_empty())),
        ("pull secrets", spec.image_pull_secrets.as_ref().is_some_and(|secrets| !secrets.is_empty())),
        (
            "a Secret",
            volumes().any(|volume| volume.secret.is_some())
                || sources().any(|source| source.secret.is_some())
                || given().any(|source| source.secret_key_ref.is_some())
                || env_from().any(|source| source.secret_ref.is_some()),
        ),
        (
            "a ConfigMap",
            volumes().any(|volume| volume.config_map.is_some())
                || sources().any(|source| source.config_map.is_some())
                || given().any(|source| source.config_map_key_ref.is_some())
                || env_from().any(|source| source.config_map_ref.is_some()),
        ),
        ("a service account token", sources().any(|source| source.service_account_token.is_some())),
        (
            "a PersistentVolumeClaim",
            volumes().any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()),
        ),
        ("a RuntimeClass", spec.runtime_class_name.as_deref().is_some_and(|name| !name.is_empty())),
        ("ephemeral containers", spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty())),
    ];
    uses.into_iter().find(|(_, used)| *used).map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shaped(spec: Value) -> Result<Pod, String> {
        let pod = json!({"metadata": {"name": "web"}, "spec": spec});
        of_node(serde_json::from_value(pod).unwrap(), "Node-1")
    }

    #[test]
    fn the_same_words_are_the_same_pod_and_others_are_another() {
        let one = shaped(json!({"containers": [{"name": "c", "image": "i"}]})).unwrap();
        let again = shaped(json!({"containers": [{"name": "c", "image": "i"}]})).unwrap();
        let other = shaped(json!({"containers": [{"name": "c", "image": "j"}]})).unwrap();
        assert_eq!(one, again);
        assert_ne!(one.metadata.uid, other.metadata.uid);
        assert_eq!(one.metadata.name.as_deref(), Some("web-node-1"));
        assert_eq!(one.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(one.metadata.annotations.unwrap()[HASH], one.metadata.uid.unwrap());
        assert_eq!(one.spec.unwrap().node_name.as_deref(), Some("Node-1"));
    }

    #[test]
    fn a_pod_that_could_not_start_without_a_server_is_refused_by_name() {
        let refused = |spec: Value| shaped(spec).unwrap_err();
        let with = |field: &str, value: Value| refused(json!({"containers": [], field: value}));
        assert!(with("serviceAccountName", json!("x")).ends_with("a ServiceAccount"));
        assert!(with("volumes", json!([{"name": "v", "secret": {"secretName": "s"}}])).ends_with("a Secret"));
        let env = json!([{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]);
        assert!(refused(json!({"containers": env})).ends_with("a ConfigMap"));
        assert_eq!(of_node(Pod::default(), "n").unwrap_err(), "it has no spec");
    }
}
