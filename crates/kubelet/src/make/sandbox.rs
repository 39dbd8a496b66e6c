//! What a Pod's sandbox is made from: its names, ports and namespaces.

use std::path::{Path, PathBuf};

use pintle_container::{Dns, Namespaces, PidNamespace, PodRef, Port, Protocol, SandboxConfig};

use super::{Facts, resources, security};
use crate::pods::guards::normalized;

/// What the kernel takes as a host name, and what a label of a domain name may have.
const LONGEST_KERNEL_NAME: usize = 64;
const LONGEST_LABEL: usize = 63;

/// A Pod's name on the network, and the domain that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hostname {
    pub(crate) name: String,
    /// Empty for a Pod that is in none.
    pub(crate) domain: String,
}

pub(crate) fn hostname(facts: &Facts<'_>, cluster_domain: &str) -> Hostname {
    let spec = facts.spec;
    if let Some(name) = &spec.hostname_override {
        return Hostname { name: shortened(name), domain: String::new() };
    }
    let name = spec.hostname.as_deref().filter(|name| !name.is_empty()).unwrap_or(facts.name());
    let subdomain = spec.subdomain.as_deref().filter(|subdomain| !subdomain.is_empty());
    let domain = subdomain.map(|subdomain| format!("{subdomain}.{}.svc.{cluster_domain}", facts.namespace()));
    Hostname { name: shortened(name), domain: domain.unwrap_or_default() }
}

/// A Pod's name may be longer than a host's.
fn shortened(name: &str) -> String {
    let end = (0..=LONGEST_LABEL.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    let cut = if name.len() > LONGEST_LABEL { name[..end].trim_end_matches(['-', '.']) } else { name };
    cut.to_owned()
}

/// Where the logs of a Pod's containers go.
pub(crate) fn log_directory(facts: &Facts<'_>, logs: &Path) -> PathBuf {
    logs.join(format!("{}_{}_{}", facts.namespace(), facts.name(), facts.uid()))
}

pub(crate) fn sandbox(
    facts: &Facts<'_>,
    attempt: u32,
    hostname: &Hostname,
    dns: Dns,
    logs: &Path,
) -> Result<SandboxConfig, String> {
    let (spec, metadata) = (facts.spec, &facts.pod.metadata);
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.extend(facts.identity_labels());
    let sysctls = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    Ok(SandboxConfig {
        pod: PodRef {
            namespace: facts.namespace().to_owned(),
            name: facts.name().to_owned(),
            uid: facts.uid().to_owned(),
        },
        attempt,
        labels,
        annotations: metadata.annotations.clone().unwrap_or_default(),
        namespaces: namespaces(facts),
        hostname: if facts.on_host_network() { String::new() } else { kernel_name(facts, hostname)? },
        log_directory: log_directory(facts, logs).to_string_lossy().into_owned(),
        dns,
        ports: if facts.on_host_network() { Vec::new() } else { ports(facts) },
        cgroup_parent: resources::cgroup_parent(facts),
        sysctls: sysctls.map(|sysctl| (normalized(&sysctl.name), sysctl.value.clone())).collect(),
        security: security::of_sandbox(facts),
        ..SandboxConfig::default()
    })
}

pub(crate) fn namespaces(facts: &Facts<'_>) -> Namespaces {
    let spec = facts.spec;
    let pid = match (spec.host_pid, spec.share_process_namespace) {
        (Some(true), _) => PidNamespace::Node,
        (_, Some(true)) => PidNamespace::Pod,
        _ => PidNamespace::Container,
    };
    Namespaces { host_network: facts.on_host_network(), host_ipc: spec.host_ipc == Some(true), pid }
}

fn kernel_name(facts: &Facts<'_>, hostname: &Hostname) -> Result<String, String> {
    if facts.spec.set_hostname_as_fqdn != Some(true) || hostname.domain.is_empty() {
        return Ok(hostname.name.clone());
    }
    let whole = format!("{}.{}", hostname.name, hostname.domain);
    if whole.len() > LONGEST_KERNEL_NAME {
        return Err(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {whole} is too long \
             ({LONGEST_KERNEL_NAME} characters is the max, {} characters requested)",
            whole.len()
        ));
    }
    Ok(whole)
}

fn ports(facts: &Facts<'_>) -> Vec<Port> {
    let lasting = |container: &&k8s_openapi::api::core::v1::Container| {
        container.restart_policy.as_deref() == Some("Always") || facts.spec.containers.contains(container)
    };
    let declared = facts.containers().filter(lasting).flat_map(|container| container.ports.iter().flatten());
    let mut ports: Vec<Port> = Vec::new();
    for port in declared {
        let number = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
        let (Some(container_port), Some(host_port)) = (number(port.container_port), port.host_port.and_then(number))
        else {
            continue;
        };
        let protocol = match port.protocol.as_deref() {
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            _ => Protocol::Tcp,
        };
        let port = Port { protocol, container_port, host_port, host_address: port.host_ip.clone().unwrap_or_default() };
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing;
    use super::*;

    fn made(spec: Value) -> Result<SandboxConfig, String> {
        let pod = testing::pod(spec);
        let allocatable = testing::allocatable();
        let facts = testing::facts(&pod, &allocatable);
        sandbox(&facts, 2, &hostname(&facts, "cluster.local"), Dns::default(), Path::new("/var/log/pods"))
    }

    #[test]
    fn a_sandbox_is_found_by_the_labels_of_its_pod() {
        let made = made(json!({"containers": []})).unwrap();
        assert_eq!(made.labels["app"], "web");
        assert_eq!(made.labels["io.kubernetes.pod.name"], "web-0");
        assert_eq!(made.labels["io.kubernetes.pod.namespace"], "shop");
        assert_eq!(made.labels["io.kubernetes.pod.uid"], "7f0c");
        assert_eq!(made.log_directory, "/var/log/pods/shop_web-0_7f0c");
        assert_eq!((made.attempt, made.cgroup_parent.as_str()), (2, "/kubepods/besteffort/pod7f0c"));
    }

    #[test]
    fn a_pod_has_the_name_it_asked_for() {
        let name = |spec: Value| made(spec).map(|made| made.hostname);
        assert_eq!(name(json!({"containers": []})), Ok("web-0".into()));
        assert_eq!(name(json!({"hostname": "db", "subdomain": "s", "containers": []})), Ok("db".into()));
        let whole = json!({"hostname": "db", "subdomain": "s", "setHostnameAsFQDN": true, "containers": []});
        assert_eq!(name(whole), Ok("db.s.shop.svc.cluster.local".into()));
        let long = json!({"hostname": "d".repeat(63), "subdomain": "s", "setHostnameAsFQDN": true, "containers": []});
        assert!(name(long).unwrap_err().contains("is too long (64 characters is the max, 88 characters requested)"));
        assert_eq!(name(json!({"hostNetwork": true, "containers": []})), Ok(String::new()));
        assert_eq!(name(json!({"hostnameOverride": "mine.example", "containers": []})), Ok("mine.example".into()));
        assert_eq!(shortened(&format!("{}-x", "a".repeat(62))), "a".repeat(62));
    }

    #[test]
    fn ports_namespaces_and_sysctls_are_those_of_the_spec() {
        let spec = json!({"hostIPC": true, "shareProcessNamespace": true,
            "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "0"}]},
            "containers": [{"name": "c", "ports": [
                {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}, {"containerPort": 90},
                {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]}]});
        let made_of = made(spec.clone()).unwrap();
        let expected = Namespaces { host_network: false, host_ipc: true, pid: PidNamespace::Pod };
        assert_eq!(made_of.namespaces, expected);
        assert_eq!(made_of.sysctls["net.ipv4.tcp_syncookies"], "0");
        let port = |protocol, container_port, host_port, host_address: &str| Port {
            protocol,
            container_port,
            host_port,
            host_address: host_address.into(),
        };
        assert_eq!(made_of.ports, [port(Protocol::Tcp, 80, 8080, "127.0.0.1"), port(Protocol::Udp, 53, 53, "")]);
        let mut on_host = spec;
        on_host["hostNetwork"] = json!(true);
        on_host["hostPID"] = json!(true);
        let made_of = made(on_host).unwrap();
        assert!(made_of.ports.is_empty());
        assert_eq!(made_of.namespaces.pid, PidNamespace::Node);
    }
}
