//! What each check says of a Pod that breaks it, by level and version.

use super::super::policy::{Level, Standard, Version};
use super::*;
use serde_json::json;

fn said(level: Level, version: Version, pod: &Value) -> String {
    let subject = Subject { metadata: &pod["metadata"], spec: &pod["spec"] };
    details(&violations(Standard { level, version }, &subject))
}

fn of_container(container: Value) -> Value {
    let mut named = json!({"name": "c"});
    object::as_map(&mut named).extend(container.as_object().cloned().unwrap_or_default());
    json!({"metadata": {}, "spec": {"containers": [named]}})
}

/// Breaks nothing but what is added.
fn hardened(spec: Value) -> Value {
    let mut pod = json!({"metadata": {}, "spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}});
    object::as_map(&mut pod["spec"]).extend(spec.as_object().cloned().unwrap_or_default());
    pod
}

#[test]
fn what_the_baseline_refuses_is_said_with_names() {
    for (pod, detail) in [
        (of_container(json!({})), ""),
        (
            of_container(json!({"securityContext": {"privileged": true}})),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            of_container(json!({"ports": [{"hostPort": 80}, {"hostPort": 443}]})),
            "hostPort (container \"c\" uses hostPorts 443, 80)",
        ),
        (
            of_container(
                json!({"livenessProbe": {"httpGet": {"host": "h"}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "g"}}}}),
            ),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle hosts \"g\", \"h\")",
        ),
        (
            of_container(json!({"securityContext": {"procMount": "Unmasked"}})),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            of_container(json!({"securityContext": {"seLinuxOptions": {"type": "t", "user": "u"}}})),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"t\"; user may not be set)",
        ),
        (
            of_container(json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}})),
            "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}, "spec": {}}),
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")",
        ),
        (
            json!({"spec": {"securityContext": {"windowsOptions": {"hostProcess": true}}}}),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            json!({"spec": {"volumes": [{"name": "a", "hostPath": {}}, {"name": "b", "hostPath": {}}]}}),
            "hostPath volumes (volumes \"a\", \"b\")",
        ),
    ] {
        assert_eq!(said(Level::Baseline, Version::Latest, &pod), detail, "{pod}");
        assert_eq!(said(Level::Privileged, Version::Latest, &pod), "");
    }
}

#[test]
fn what_is_restricted_beyond_that_is_said_too() {
    for (spec, detail) in [
        (json!({}), ""),
        (
            json!({"volumes": [{"name": "v", "hostPath": {}}]}),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")",
        ),
        (
            json!({"securityContext": {"runAsNonRoot": false, "runAsUser": 0, "seccompProfile": {"type": "Unconfined"}}}),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set runAsUser=0), \
             seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        // Whoever is root in a user namespace is nobody on the node.
        (json!({"hostUsers": false, "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "Localhost"}}}), ""),
    ] {
        assert_eq!(said(Level::Restricted, Version::Latest, &hardened(spec.clone())), detail, "{spec}");
    }
    assert_eq!(
        said(Level::Restricted, Version::Latest, &of_container(json!({}))),
        "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    let windows = json!({"spec": {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c"}]}});
    assert_eq!(said(Level::Restricted, Version::Latest, &windows), "");
}

#[test]
fn a_version_has_the_checks_of_its_time() {
    let sysctl = json!({"spec": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}});
    for (minor, detail) in [(31, "forbidden sysctls (net.ipv4.tcp_rmem)"), (32, ""), (99, "")] {
        assert_eq!(said(Level::Baseline, Version::Minor(minor), &sysctl), detail, "v1.{minor}");
    }
    let silent = of_container(json!({}));
    assert!(!said(Level::Restricted, Version::Minor(7), &silent).contains("allowPrivilegeEscalation"));
    assert!(!said(Level::Restricted, Version::Minor(18), &silent).contains("seccompProfile"));
    let annotated =
        json!({"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}, "spec": {}});
    assert!(said(Level::Baseline, Version::Minor(18), &annotated).contains("forbidden annotation"));
    assert_eq!(said(Level::Baseline, Version::Minor(19), &annotated), "");
}
