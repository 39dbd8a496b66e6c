//! Whether a node can give a Pod the isolation that its spec asks for. What it cannot, it refuses: a Pod that runs with less than
//! it was promised is worse than one that does not run. No I/O but for what the kernel says of itself, once.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container as Spec, Pod, PodSpec};

use crate::{ephemeral, make};

/// Sysctls that are of a Pod's own namespaces and do not touch others.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// How the profile of a container was asked for before there was a field.
const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// What a node has to isolate with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guards {
    /// Also allowed, beside the safe ones; one that ends in `*` stands for all that begin so.
    pub(crate) unsafe_sysctls: Vec<String>,
    /// The kernel enforces AppArmor's profiles.
    pub(crate) apparmor: bool,
    /// The kernel enforces SELinux's labels.
    pub(crate) selinux: bool,
}

impl Guards {
    /// Those of this machine.
    pub(crate) fn of_machine(unsafe_sysctls: Vec<String>) -> Self {
        let apparmor = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
        Guards {
            unsafe_sysctls,
            apparmor: apparmor.is_ok_and(|enabled| enabled.starts_with('Y')),
            selinux: std::path::Path::new("/sys/fs/selinux/enforce").exists(),
        }
    }

    /// Those of a machine that is not there.
    pub(crate) fn simulated(unsafe_sysctls: Vec<String>) -> Self {
        Guards { unsafe_sysctls, apparmor: true, selinux: false }
    }

    /// Why the Pod is not taken on, if it is not: a reason and a message.
    pub(crate) fn refusal(&self, pod: &Pod, spec: &PodSpec) -> Option<(&'static str, String)> {
        let unsupported = |what: &str| Some(("PodFeatureUnsupported", format!("{what} is not supported by this node")));
        let context = spec.security_context.as_ref();
        if let Some(name) = spec.os.as_ref().map(|os| os.name.as_str()).filter(|name| !matches!(*name, "" | "linux")) {
            let message = format!("Failed to admit pod as the OS field doesn't match node OS: {name} is not linux");
            return Some(("PodOSNotSupported", message));
        }
        if spec.host_users == Some(false) {
            return unsupported("hostUsers: false (a user namespace of its own)");
        }
        if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
            return unsupported("resourceClaims (dynamic resource allocation)");
        }
        for sysctl in context.into_iter().flat_map(|context| context.sysctls.iter().flatten()) {
            if let Some(why) = self.forbids(&normalized(&sysctl.name), spec) {
                return Some(("SysctlForbidden", format!("forbidden sysctl: {why}")));
            }
        }
        if context.and_then(|context| context.supplemental_groups_policy.as_deref()) == Some("Strict") {
            let message = "SupplementalGroupsPolicy=Strict is not supported in this node".to_owned();
            return Some(("SupplementalGroupsPolicyNotSupported", message));
        }
        let beside = ephemeral::containers(spec);
        make::containers(spec).chain(&beside).find_map(|container| self.refuses(pod, spec, container))
    }

    fn forbids(&self, sysctl: &str, spec: &PodSpec) -> Option<String> {
        let listed = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => sysctl.starts_with(&normalized(prefix)),
            None => sysctl == normalized(pattern),
        };
        if !SAFE_SYSCTLS.contains(&sysctl) && !self.unsafe_sysctls.iter().any(listed) {
            return Some(format!("{sysctl:?} not allowlisted"));
        }
        let of_network = sysctl.starts_with("net.");
        match (of_network, spec.host_network, spec.host_ipc) {
            (true, Some(true), _) => Some(format!("{sysctl:?} not allowed with host network enabled")),
            (false, _, Some(true)) => Some(format!("{sysctl:?} not allowed with host ipc enabled")),
            _ => None,
        }
    }

    fn refuses(&self, pod: &Pod, spec: &PodSpec, container: &Spec) -> Option<(&'static str, String)> {
        let (own, of_pod) = (container.security_context.as_ref(), spec.security_context.as_ref());
        let name = &container.name;
        if own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked") {
            let message = format!("procMount: Unmasked of container {name} is not supported by this node");
            return Some(("PodFeatureUnsupported", message));
        }
        let labelled = own.is_some_and(|own| own.se_linux_options.is_some())
            || of_pod.is_some_and(|of_pod| of_pod.se_linux_options.is_some());
        if labelled && self.selinux {
            let message = format!("seLinuxOptions of container {name} are not supported by this node");
            return Some(("PodFeatureUnsupported", message));
        }
        let field = own.and_then(|own| own.app_armor_profile.as_ref());
        let field = field.or_else(|| of_pod.and_then(|of_pod| of_pod.app_armor_profile.as_ref()));
        let profile = match field {
            Some(AppArmorProfile { type_, .. }) => type_.as_str(),
            None => {
                let annotations = pod.metadata.annotations.as_ref();
                let said = annotations.and_then(|said| said.get(&format!("{APPARMOR_ANNOTATION}{name}")));
                match said.map(String::as_str) {
                    None | Some("" | "unconfined") => "Unconfined",
                    Some("runtime/default") => "RuntimeDefault",
                    Some(_) => "Localhost",
                }
            }
        };
        let why = match profile {
            "Unconfined" => return None,
            _ if !self.apparmor => "AppArmor is not enabled on the host",
            // The runtime's default is what a container has in any case.
            "RuntimeDefault" => return None,
            _ => "profiles of the host are not supported by this node",
        };
        Some(("AppArmor", format!("Cannot enforce AppArmor: {why}")))
    }
}

/// With dots between its parts: `net/ipv4/conf/eno2.100/rp_filter` is `net.ipv4.conf.eno2/100.rp_filter`.
pub(crate) fn normalized(sysctl: &str) -> String {
    let swap = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    match sysctl.find(['.', '/']).and_then(|first| sysctl.get(first..=first)) {
        Some("/") => sysctl.chars().map(swap).collect(),
        _ => sysctl.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::make::testing;

    fn bare() -> Guards {
        Guards { unsafe_sysctls: vec!["net.core.*".into(), "kernel/msgmax".into()], apparmor: false, selinux: true }
    }

    fn refused(guards: &Guards, spec: Value) -> Option<(&'static str, String)> {
        let pod = testing::pod(spec);
        guards.refusal(&pod, pod.spec.as_ref().unwrap())
    }

    fn sysctl(name: &str) -> Value {
        json!({"containers": [], "securityContext": {"sysctls": [{"name": name, "value": "1"}]}})
    }

    fn container(context: Value) -> Value {
        json!({"containers": [{"name": "c", "securityContext": context}]})
    }

    #[test]
    fn a_pod_does_not_run_with_less_isolation_than_it_asks_for() {
        let whole = Guards { unsafe_sysctls: Vec::new(), apparmor: true, selinux: false };
        for (guards, spec, reason) in [
            (&whole, json!({"containers": [{"name": "c"}]}), None),
            (&whole, json!({"containers": [], "hostUsers": true}), None),
            (&whole, json!({"containers": [], "hostUsers": false}), Some("PodFeatureUnsupported")),
            (&whole, json!({"containers": [], "os": {"name": "linux"}}), None),
            (&whole, json!({"containers": [], "os": {"name": "windows"}}), Some("PodOSNotSupported")),
            (&whole, json!({"containers": [], "resourceClaims": [{"name": "gpu"}]}), Some("PodFeatureUnsupported")),
            (
                &whole,
                json!({"containers": [], "securityContext": {"supplementalGroupsPolicy": "Strict"}}),
                Some("SupplementalGroupsPolicyNotSupported"),
            ),
            (&whole, json!({"containers": [], "securityContext": {"supplementalGroupsPolicy": "Merge"}}), None),
            (&whole, sysctl("net.ipv4.tcp_syncookies"), None),
            (&whole, sysctl("kernel/shm_rmid_forced"), None),
            (&whole, sysctl("kernel.msgmax"), Some("SysctlForbidden")),
            (&bare(), sysctl("kernel.msgmax"), None),
            (&bare(), sysctl("net.core.somaxconn"), None),
            (&bare(), sysctl("net.ipv4.forwarding"), Some("SysctlForbidden")),
            (&whole, container(json!({"procMount": "Default"})), None),
            (&whole, container(json!({"procMount": "Unmasked"})), Some("PodFeatureUnsupported")),
            (&whole, container(json!({"seLinuxOptions": {"level": "s0"}})), None),
            (&bare(), container(json!({"seLinuxOptions": {"level": "s0"}})), Some("PodFeatureUnsupported")),
            (&whole, container(json!({"appArmorProfile": {"type": "RuntimeDefault"}})), None),
            (&bare(), container(json!({"appArmorProfile": {"type": "RuntimeDefault"}})), Some("AppArmor")),
            (&bare(), container(json!({"appArmorProfile": {"type": "Unconfined"}})), None),
            (
                &whole,
                container(json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}})),
                Some("AppArmor"),
            ),
        ] {
            let found = refused(guards, spec.clone());
            assert_eq!(found.as_ref().map(|(reason, _)| *reason), reason, "{spec} {found:?}");
        }
    }

    #[test]
    fn what_is_forbidden_is_said_in_upstreams_words() {
        let message = |spec| refused(&bare(), spec).map(|(_, message)| message);
        let unlisted = "forbidden sysctl: \"kernel.sem\" not allowlisted";
        assert_eq!(message(sysctl("kernel.sem")).as_deref(), Some(unlisted));
        let mut shared = sysctl("net.ipv4.tcp_syncookies");
        shared["hostNetwork"] = json!(true);
        let with_host = "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host network enabled";
        assert_eq!(message(shared).as_deref(), Some(with_host));
        let confined = container(json!({"appArmorProfile": {"type": "RuntimeDefault"}}));
        let disabled = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        assert_eq!(message(confined).as_deref(), Some(disabled));
    }

    #[test]
    fn a_profile_that_an_annotation_asks_for_counts_too() {
        let mut pod = testing::pod(json!({"containers": [{"name": "c"}]}));
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(format!("{APPARMOR_ANNOTATION}c"), "localhost/p".to_owned());
        let found = Guards::simulated(Vec::new()).refusal(&pod, pod.spec.as_ref().unwrap());
        assert_eq!(found.map(|(reason, _)| reason), Some("AppArmor"));
    }

    #[test]
    fn names_with_slashes_are_the_same_sysctls() {
        for (given, name) in [
            ("kernel.msgmax", "kernel.msgmax"),
            ("kernel/msgmax", "kernel.msgmax"),
            ("net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
            ("net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
            ("", ""),
        ] {
            assert_eq!(normalized(given), name);
        }
    }
}
