//! The user a container runs as and what it may do: the Pod's security context with the container's over it.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container as Spec, SeccompProfile};
use pintle_container::{Image, Seccomp, Security};

use super::Facts;
use crate::pods::described;

/// What the container's own context says, and the Pod's where it says nothing. `profiles` is where seccomp profiles are.
pub(crate) fn security(facts: &Facts<'_>, container: &Spec, profiles: &Path) -> Result<Security, String> {
    let own = container.security_context.as_ref();
    let of_pod = facts.spec.security_context.as_ref();
    let capabilities = own.and_then(|own| own.capabilities.as_ref());
    let profile = own.and_then(|own| own.seccomp_profile.as_ref());
    let profile = profile.or_else(|| of_pod.and_then(|of_pod| of_pod.seccomp_profile.as_ref()));
    Ok(Security {
        privileged: own.and_then(|own| own.privileged).unwrap_or(false),
        user: user(facts, container),
        group: own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_group)),
        supplemental_groups: supplemental_groups(facts),
        add_capabilities: capabilities.and_then(|capabilities| capabilities.add.clone()).unwrap_or_default(),
        drop_capabilities: capabilities.and_then(|capabilities| capabilities.drop.clone()).unwrap_or_default(),
        read_only_root: own.and_then(|own| own.read_only_root_filesystem).unwrap_or(false),
        // Only who says so gives it up: programs of older images need it.
        no_new_privileges: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        seccomp: seccomp(profile, profiles)?,
        unmasked_proc: own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked"),
    })
}

/// What all containers of the Pod have in common: the sandbox's own process.
pub(crate) fn of_sandbox(facts: &Facts<'_>) -> Security {
    let of_pod = facts.spec.security_context.as_ref();
    let is_privileged =
        |container: &Spec| container.security_context.as_ref().and_then(|context| context.privileged).unwrap_or(false);
    Security {
        privileged: facts.containers().any(is_privileged),
        user: of_pod.and_then(|of_pod| of_pod.run_as_user),
        group: of_pod.and_then(|of_pod| of_pod.run_as_group),
        supplemental_groups: supplemental_groups(facts),
        // Whatever the Pod asks for its containers: the sandbox's process needs nothing special.
        seccomp: Seccomp::RuntimeDefault,
        ..Security::default()
    }
}

/// Refuses a container that must not run as root and would, or might.
pub(crate) fn check_not_root(facts: &Facts<'_>, container: &Spec, image: &Image) -> Result<(), String> {
    let own = container.security_context.as_ref().and_then(|own| own.run_as_non_root);
    let of_pod = facts.spec.security_context.as_ref().and_then(|of_pod| of_pod.run_as_non_root);
    if own.or(of_pod) != Some(true) {
        return Ok(());
    }
    let place = format!("(pod: {:?}, container: {})", described(facts.pod), container.name);
    match (user(facts, container), image.user) {
        (Some(0), _) => Err(format!("container's runAsUser breaks non-root policy {place}")),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => Err(format!("container has runAsNonRoot and image will run as root {place}")),
        (None, None) if !image.user_name.is_empty() => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root {place}",
            image.user_name
        )),
        (None, _) => Ok(()),
    }
}

fn user(facts: &Facts<'_>, container: &Spec) -> Option<i64> {
    let own = container.security_context.as_ref().and_then(|own| own.run_as_user);
    own.or_else(|| facts.spec.security_context.as_ref().and_then(|of_pod| of_pod.run_as_user))
}

/// The group that owns the volumes first.
fn supplemental_groups(facts: &Facts<'_>) -> Vec<i64> {
    let Some(of_pod) = facts.spec.security_context.as_ref() else { return Vec::new() };
    of_pod.fs_group.into_iter().chain(of_pod.supplemental_groups.iter().flatten().copied()).collect()
}

fn seccomp(profile: Option<&SeccompProfile>, profiles: &Path) -> Result<Seccomp, String> {
    let Some(profile) = profile else { return Ok(Seccomp::Unconfined) };
    match profile.type_.as_str() {
        "RuntimeDefault" => Ok(Seccomp::RuntimeDefault),
        "Localhost" => {
            let name = profile.localhost_profile.as_deref().filter(|name| !name.is_empty());
            let name = name.ok_or("localhostProfile must be set if seccompProfile type is Localhost.")?;
            let climbs = Path::new(name).is_absolute() || name.split('/').any(|part| part == "..");
            if climbs {
                return Err(format!("localhostProfile {name:?} must stay below {}", profiles.display()));
            }
            Ok(Seccomp::Localhost(profiles.join(name).to_string_lossy().into_owned()))
        }
        _ => Ok(Seccomp::Unconfined),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing;
    use super::*;

    fn made(of_pod: Value, own: Value) -> (Result<Security, String>, Security) {
        let pod =
            testing::pod(json!({"securityContext": of_pod, "containers": [{"name": "c", "securityContext": own}]}));
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        (security(&facts, &facts.spec.containers[0], Path::new("/data/seccomp")), of_sandbox(&facts))
    }

    fn refused(of_pod: Value, own: Value, user: Option<i64>, user_name: &str) -> Option<String> {
        let pod =
            testing::pod(json!({"securityContext": of_pod, "containers": [{"name": "c", "securityContext": own}]}));
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        let image = Image { user, user_name: user_name.into(), ..Image::default() };
        check_not_root(&facts, &facts.spec.containers[0], &image).err()
    }

    #[test]
    fn what_the_container_says_goes_before_what_the_pod_says() {
        let of_pod = json!({"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "supplementalGroups": [4, 5],
            "seccompProfile": {"type": "RuntimeDefault"}});
        let own = json!({"runAsUser": 7, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "procMount": "Unmasked",
            "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}});
        let (made_of_both, sandbox) = made(of_pod.clone(), own);
        let expected = Security {
            privileged: false,
            user: Some(7),
            group: Some(2000),
            supplemental_groups: vec![3000, 4, 5],
            add_capabilities: vec!["NET_ADMIN".into()],
            drop_capabilities: vec!["ALL".into()],
            read_only_root: true,
            no_new_privileges: true,
            seccomp: Seccomp::Localhost("/data/seccomp/a/b.json".into()),
            unmasked_proc: true,
        };
        assert_eq!(made_of_both, Ok(expected));
        assert_eq!((sandbox.user, sandbox.privileged), (Some(1000), false));

        let (of_pod_alone, sandbox) = made(of_pod, json!({"privileged": true}));
        let of_pod_alone = of_pod_alone.unwrap();
        assert_eq!((of_pod_alone.user, of_pod_alone.seccomp), (Some(1000), Seccomp::RuntimeDefault));
        assert!(of_pod_alone.privileged && sandbox.privileged && !of_pod_alone.no_new_privileges);
        assert_eq!(made(json!({}), json!({})).0, Ok(Security::default()));
    }

    #[test]
    fn a_profile_does_not_climb_out_of_its_directory() {
        for name in ["", "../shadow", "/etc/shadow", "a/../../b"] {
            let own = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": name}});
            assert!(made(json!({}), own).0.is_err(), "{name}");
        }
    }

    #[test]
    fn a_container_that_must_not_be_root_is_not() {
        let yes = || json!({"runAsNonRoot": true});
        let place = "(pod: \"web-0_shop(7f0c)\", container: c)";
        let root = format!("container has runAsNonRoot and image will run as root {place}");
        assert_eq!(refused(yes(), json!({}), Some(0), ""), Some(root));
        let own = format!("container's runAsUser breaks non-root policy {place}");
        assert_eq!(refused(json!({"runAsUser": 0}), yes(), Some(5), ""), Some(own));
        let named = format!(
            "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root {place}"
        );
        assert_eq!(refused(yes(), json!({}), None, "web"), Some(named));
        assert_eq!(refused(yes(), json!({"runAsNonRoot": false}), Some(0), ""), None);
        assert_eq!(refused(yes(), json!({"runAsUser": 5}), Some(0), ""), None);
        assert_eq!(refused(yes(), json!({}), Some(5), ""), None);
        assert_eq!(refused(json!({}), json!({}), Some(0), ""), None);
    }
}
