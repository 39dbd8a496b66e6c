//! What one run of a container is made from, put together.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container as Spec, VolumeMount};
use pintle_container::{ContainerConfig, Image, Mount, Propagation};

use super::expand::expand;
use super::{Facts, resources, security};
use crate::volumes::Mounted;

/// A mount before it is known where on the node its source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedMount {
    pub(crate) volume: String,
    pub(crate) container: String,
    /// Its place in the container's list, which names what is made for it.
    pub(crate) index: usize,
    pub(crate) volume_path: PathBuf,
    /// A part of the volume that the container sees instead of all of it.
    pub(crate) sub_path: Option<String>,
    pub(crate) container_path: String,
    pub(crate) read_only: bool,
    pub(crate) propagation: Propagation,
}

/// The mounts of a container's volumes, in the order of its spec.
pub(crate) fn mounts(
    container: &Spec,
    environment: &[(String, String)],
    mounted: &Mounted,
) -> Result<Vec<WantedMount>, String> {
    if let Some(device) = container.volume_devices.iter().flatten().next() {
        return Err(format!(
            "volumeDevice {:?} is a block device, which this node cannot give to containers",
            device.name
        ));
    }
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    mounts.map(|(index, mount)| wanted(container, environment, mounted, index, mount)).collect()
}

fn wanted(
    container: &Spec,
    environment: &[(String, String)],
    mounted: &Mounted,
    index: usize,
    mount: &VolumeMount,
) -> Result<WantedMount, String> {
    let volume = mounted
        .get(&mount.name)
        .ok_or_else(|| format!("cannot find volume {:?} to mount into container {:?}", mount.name, container.name))?;
    let sub_path = match mount.sub_path_expr.as_deref().filter(|expression| !expression.is_empty()) {
        Some(expression) => Some(expanded_sub_path(expression, environment)?),
        None => mount.sub_path.clone(),
    };
    let sub_path = sub_path.filter(|path| !path.is_empty());
    if let Some(path) = &sub_path {
        if path.starts_with('/') {
            return Err(format!("error SubPath `{path}` must not be an absolute path"));
        }
        if path.split('/').any(|part| part == "..") {
            return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
        }
    }
    let read_only = mount.read_only == Some(true) || volume.read_only;
    if mount.recursive_read_only.as_deref() == Some("Enabled") {
        return Err(format!("volumeMount {:?}: recursiveReadOnly is not supported by this node", mount.name));
    }
    let propagation = match mount.mount_propagation.as_deref() {
        None | Some("None") => Propagation::Private,
        Some("HostToContainer") => Propagation::HostToContainer,
        Some("Bidirectional") => Propagation::Bidirectional,
        Some(other) => return Err(format!("invalid MountPropagation mode: {other:?}")),
    };
    Ok(WantedMount {
        volume: mount.name.clone(),
        container: container.name.clone(),
        index,
        volume_path: volume.path.clone(),
        sub_path,
        container_path: absolute(&mount.mount_path),
        read_only,
        propagation,
    })
}

/// A name without a value must not become a directory of that name.
fn expanded_sub_path(expression: &str, environment: &[(String, String)]) -> Result<String, String> {
    let mut missing = None;
    let expanded = expand(expression, |name| {
        let value = environment.iter().find(|(variable, _)| variable == name).map(|(_, value)| value.clone());
        if value.is_none() {
            missing.get_or_insert_with(|| name.to_owned());
        }
        value
    });
    match missing {
        Some(name) => Err(format!("missing value for {name:?}")),
        None => Ok(expanded),
    }
}

pub(crate) fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Where a container's log is, below the log directory of its Pod.
pub(crate) fn log_path(container: &str, attempt: u32) -> String {
    format!("{container}/{attempt}.log")
}

/// Everything together; `mounts` are those of volumes and of the files that the node keeps for the container.
pub(crate) fn container(
    facts: &Facts<'_>,
    container: &Spec,
    attempt: u32,
    image: &Image,
    environment: Vec<(String, String)>,
    mounts: Vec<Mount>,
    profiles: &Path,
) -> Result<ContainerConfig, String> {
    security::check_not_root(facts, container, image)?;
    let value_of = |name: &str| {
        let found = environment.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value.clone())
    };
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, value_of)).collect()
    };
    let mut labels = facts.identity_labels();
    labels.insert("io.kubernetes.container.name".to_owned(), container.name.clone());
    Ok(ContainerConfig {
        name: container.name.clone(),
        attempt,
        image: container.image.clone().unwrap_or_default(),
        image_id: image.id.clone(),
        command: expanded(&container.command),
        arguments: expanded(&container.args),
        working_directory: container.working_dir.clone().filter(|directory| !directory.is_empty()),
        labels,
        annotations: annotations(facts, container, attempt),
        mounts,
        devices: Vec::new(),
        cdi_devices: Vec::new(),
        log_path: log_path(&container.name, attempt),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        resources: resources::resources(facts, container),
        security: security::security(facts, container, profiles)?,
        environment,
        target: None,
    })
}

/// The Pod's own, and what a node agent that lost everything else needs to bring the container to its end.
fn annotations(facts: &Facts<'_>, container: &Spec, attempt: u32) -> std::collections::BTreeMap<String, String> {
    let mut annotations = facts.pod.metadata.annotations.clone().unwrap_or_default();
    // By these the runtime would add any device of the node, which is for device plugins to say and not for Pods.
    annotations.retain(|name, _| !name.starts_with("cdi.k8s.io/"));
    let mut note = |name: &str, value: String| annotations.insert(format!("io.kubernetes.{name}"), value);
    note("container.restartCount", attempt.to_string());
    note("container.terminationMessagePath", container.termination_message_path.clone().unwrap_or_default());
    note("container.terminationMessagePolicy", container.termination_message_policy.clone().unwrap_or_default());
    if let Some(seconds) = facts.spec.termination_grace_period_seconds {
        note("pod.terminationGracePeriod", seconds.to_string());
    }
    annotations
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing;
    use super::*;
    use crate::volumes::MountedVolume;

    fn mounted() -> Mounted {
        let volume = |path: &str, read_only| MountedVolume { path: path.into(), read_only };
        [("data".to_owned(), volume("/pods/data", false)), ("conf".to_owned(), volume("/pods/conf", true))].into()
    }

    fn wanted_of(mount: Value) -> Result<WantedMount, String> {
        let container: Spec = serde_json::from_value(json!({"name": "c", "volumeMounts": [mount]})).unwrap();
        let environment = [("POD".to_owned(), "web-0".to_owned())];
        mounts(&container, &environment, &mounted()).map(|mut mounts| mounts.remove(0))
    }

    #[test]
    fn a_container_sees_its_volumes_where_it_asked_for_them() {
        let found = wanted_of(json!({"name": "data", "mountPath": "/d", "mountPropagation": "Bidirectional"})).unwrap();
        assert_eq!((found.volume_path.to_str(), found.container_path.as_str()), (Some("/pods/data"), "/d"));
        assert_eq!((found.read_only, found.sub_path, found.propagation), (false, None, Propagation::Bidirectional));
        assert!(wanted_of(json!({"name": "data", "mountPath": "/d", "readOnly": true})).unwrap().read_only);
        assert!(wanted_of(json!({"name": "conf", "mountPath": "d"})).unwrap().read_only);
        let by_name = wanted_of(json!({"name": "data", "mountPath": "/d", "subPathExpr": "logs/$(POD)"})).unwrap();
        assert_eq!(by_name.sub_path.as_deref(), Some("logs/web-0"));
    }

    #[test]
    fn a_mount_that_cannot_be_is_refused_with_its_reason() {
        for (mount, message) in [
            (json!({"name": "none", "mountPath": "/d"}), "cannot find volume \"none\" to mount into container \"c\""),
            (
                json!({"name": "data", "mountPath": "/d", "subPath": "/a"}),
                "error SubPath `/a` must not be an absolute path",
            ),
            (
                json!({"name": "data", "mountPath": "/d", "subPath": "a/../.."}),
                "unable to provision SubPath `a/../..`: must not contain '..'",
            ),
            (json!({"name": "data", "mountPath": "/d", "subPathExpr": "$(NONE)/x"}), "missing value for \"NONE\""),
        ] {
            assert_eq!(wanted_of(mount), Err(message.to_owned()));
        }
    }

    #[test]
    fn a_containers_command_knows_its_variables() {
        let pod = testing::pod(json!({"terminationGracePeriodSeconds": 5, "containers": [{
            "name": "c", "image": "i:1", "command": ["run", "$(NAME)"], "args": ["$$(NAME)", "$(OTHER)"],
            "workingDir": "/w", "stdin": true, "tty": true, "terminationMessagePath": "/dev/termination-log",
        }]}));
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        let image = Image { id: "i@sha256:1".into(), ..Image::default() };
        let environment = vec![("NAME".to_owned(), "n".to_owned())];
        let made =
            container(&facts, &facts.spec.containers[0], 3, &image, environment, Vec::new(), Path::new("/s")).unwrap();
        assert_eq!(
            (made.command, made.arguments),
            (vec!["run".into(), "n".into()], vec!["$(NAME)".into(), "$(OTHER)".into()])
        );
        assert_eq!((made.image.as_str(), made.image_id.as_str(), made.attempt), ("i:1", "i@sha256:1", 3));
        assert_eq!((made.log_path.as_str(), made.working_directory.as_deref()), ("c/3.log", Some("/w")));
        assert!(made.stdin && made.tty && !made.stdin_once);
        assert_eq!(made.labels["io.kubernetes.container.name"], "c");
        assert_eq!(made.labels["io.kubernetes.pod.uid"], "7f0c");
        assert_eq!(made.annotations["io.kubernetes.pod.terminationGracePeriod"], "5");
        assert_eq!(made.annotations["note"], "a \"quoted\"\nline");
    }
}
