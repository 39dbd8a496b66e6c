//! What a Pod names: Secrets, ConfigMaps, claims and its account, all in its own namespace.

use pintle_meta::object;
use serde_json::Value;
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Secret,
    ConfigMap,
    Claim,
    Account,
}

/// Where kinds of volumes name something: the volume, the path below it, and what is there.
const VOLUMES: &[(&str, &[&str], Kind)] = &[
    ("secret", &["secretName"], Kind::Secret),
    ("configMap", &["name"], Kind::ConfigMap),
    ("persistentVolumeClaim", &["claimName"], Kind::Claim),
    ("azureFile", &["secretName"], Kind::Secret),
    ("cephfs", &["secretRef", "name"], Kind::Secret),
    ("csi", &["nodePublishSecretRef", "name"], Kind::Secret),
    ("flexVolume", &["secretRef", "name"], Kind::Secret),
    ("iscsi", &["secretRef", "name"], Kind::Secret),
    ("rbd", &["secretRef", "name"], Kind::Secret),
    ("scaleIO", &["secretRef", "name"], Kind::Secret),
    ("storageos", &["secretRef", "name"], Kind::Secret),
];

/// All that a Pod names, with repetitions.
pub fn of(pod: &Value) -> impl Iterator<Item = (Kind, Cow<'_, str>)> {
    let list = |path: &'static [&'static str]| object::list(pod, path).iter();
    let containers = list(&["spec", "containers"])
        .chain(list(&["spec", "initContainers"]))
        .chain(list(&["spec", "ephemeralContainers"]))
        .flat_map(of_container);
    let account = (Kind::Account, object::text(pod, &["spec", "serviceAccountName"]));
    let pulls = list(&["spec", "imagePullSecrets"]).map(|secret| (Kind::Secret, object::text(secret, &["name"])));
    let volumes = list(&["spec", "volumes"]).flat_map(of_volume);
    let plain = containers.chain([account]).chain(pulls).chain(volumes).map(|(kind, name)| (kind, Cow::Borrowed(name)));
    // The claim of an ephemeral volume is called after the Pod and the volume.
    let ephemeral = list(&["spec", "volumes"]).filter(|volume| volume.get("ephemeral").is_some()).map(|volume| {
        let name = format!("{}-{}", object::name(pod), object::text(volume, &["name"]));
        (Kind::Claim, Cow::Owned(name))
    });
    plain.chain(ephemeral).filter(|(_, name)| !name.is_empty())
}

/// The kind of thing that ties a Pod to the API server, in the words of a refusal; nothing if it stands alone.
pub fn ties(pod: &Value) -> Option<&'static str> {
    if !object::list(pod, &["spec", "resourceClaims"]).is_empty() {
        return Some("resourceclaims");
    }
    let sources = object::list(pod, &["spec", "volumes"]).iter();
    let mut sources = sources.flat_map(|volume| object::list(volume, &["projected", "sources"]));
    if sources.any(|source| source.get("serviceAccountToken").is_some()) {
        return Some("serviceaccounts");
    }
    of(pod).next().map(|(kind, _)| match kind {
        Kind::Secret => "secrets",
        Kind::ConfigMap => "configmaps",
        Kind::Claim => "persistentvolumeclaims",
        Kind::Account => "serviceaccounts",
    })
}

fn of_container(container: &Value) -> impl Iterator<Item = (Kind, &str)> {
    let one = object::list(container, &["env"]).iter().flat_map(|variable| {
        [
            (Kind::Secret, object::text(variable, &["valueFrom", "secretKeyRef", "name"])),
            (Kind::ConfigMap, object::text(variable, &["valueFrom", "configMapKeyRef", "name"])),
        ]
    });
    let all = object::list(container, &["envFrom"]).iter().flat_map(|source| {
        [
            (Kind::Secret, object::text(source, &["secretRef", "name"])),
            (Kind::ConfigMap, object::text(source, &["configMapRef", "name"])),
        ]
    });
    one.chain(all)
}

fn of_volume(volume: &Value) -> impl Iterator<Item = (Kind, &str)> {
    let plain =
        VOLUMES.iter().filter_map(|(source, path, kind)| Some((*kind, object::text(volume.get(source)?, path))));
    let projected = object::list(volume, &["projected", "sources"]).iter().flat_map(|source| {
        [
            (Kind::Secret, object::text(source, &["secret", "name"])),
            (Kind::ConfigMap, object::text(source, &["configMap", "name"])),
        ]
    });
    plain.chain(projected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_that_a_pod_names_is_missed() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "serviceAccountName": "account",
            "imagePullSecrets": [{"name": "pull"}],
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "one"}}}, {"value": "x"}],
                "envFrom": [{"configMapRef": {"name": "all"}}]}],
            "initContainers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "first"}}}]}],
            "volumes": [{"name": "v", "secret": {"secretName": "files"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "disk"}},
                {"name": "e", "ephemeral": {}}, {"name": "c", "csi": {"nodePublishSecretRef": {"name": "driver"}}},
                {"name": "x", "projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "rest"}}]}}]}});
        let mut found: Vec<String> = of(&pod).map(|(kind, name)| format!("{kind:?} {name}")).collect();
        found.sort();
        assert_eq!(
            found,
            [
                "Account account",
                "Claim disk",
                "Claim p-e",
                "ConfigMap all",
                "ConfigMap first",
                "ConfigMap rest",
                "Secret driver",
                "Secret files",
                "Secret one",
                "Secret part",
                "Secret pull",
            ]
        );
        assert_eq!(ties(&json!({"spec": {"serviceAccountName": "a"}})), Some("serviceaccounts"));
        assert_eq!(
            ties(&json!({"spec": {"containers": [{"env": [{"value": "x"}]}], "volumes": [{"hostPath": {}}]}})),
            None
        );
    }
}
