//! From our configurations to the runtime's messages.

use std::collections::BTreeMap;

use super::messages as cri;
use crate::container::{ContainerConfig, Propagation};
use crate::image::Credentials;
use crate::sandbox::{PodRef, Protocol, SandboxConfig};
use crate::security::{Namespaces, PidNamespace, Resources, Seccomp, Security};

/// Labels by which the containers of a Pod are found, also by tools such as crictl.
pub(super) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(super) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(super) const POD_UID: &str = "io.kubernetes.pod.uid";
/// The annotation in which a container keeps the name of its image as its Pod says it: runtimes write names their own way.
pub(super) const ASKED_IMAGE: &str = "pintle.dev/image";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

const POD: i32 = 0;
const CONTAINER: i32 = 1;
const NODE: i32 = 2;
const TARGET: i32 = 3;

/// What the runtime hides of `/proc` and `/sys` unless a container may see all of it.
const MASKED: [&str; 11] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

pub(super) fn sandbox(config: &SandboxConfig) -> cri::SandboxConfig {
    let security = &config.security;
    let mut labels = config.labels.clone();
    labels.extend(identity(&config.pod));
    cri::SandboxConfig {
        metadata: Some(cri::SandboxMetadata {
            name: config.pod.name.clone(),
            uid: config.pod.uid.clone(),
            namespace: config.pod.namespace.clone(),
            attempt: config.attempt,
        }),
        hostname: config.hostname.clone(),
        log_directory: config.log_directory.clone(),
        dns_config: Some(cri::DnsConfig {
            servers: config.dns.servers.clone(),
            searches: config.dns.searches.clone(),
            options: config.dns.options.clone(),
        })
        .filter(|dns| *dns != cri::DnsConfig::default()),
        port_mappings: config.ports.iter().map(port).collect(),
        labels,
        annotations: config.annotations.clone(),
        linux: Some(cri::LinuxSandboxConfig {
            cgroup_parent: config.cgroup_parent.clone(),
            security_context: Some(cri::SandboxSecurity {
                namespace_options: Some(namespaces(&config.namespaces, None)),
                run_as_user: number(security.user),
                run_as_group: number(security.group).filter(|_| security.user.is_some()),
                readonly_rootfs: security.read_only_root,
                supplemental_groups: security.supplemental_groups.clone(),
                privileged: security.privileged,
                seccomp: Some(seccomp(&security.seccomp)),
            }),
            sysctls: config.sysctls.clone(),
        }),
    }
}

pub(super) fn container(config: &ContainerConfig, sandbox: &SandboxConfig) -> cri::ContainerConfig {
    let mut labels = config.labels.clone();
    labels.extend(identity(&sandbox.pod));
    labels.insert(CONTAINER_NAME.to_owned(), config.name.clone());
    let mut annotations = config.annotations.clone();
    annotations.insert(ASKED_IMAGE.to_owned(), config.image.clone());
    let image = if config.image_id.is_empty() { &config.image } else { &config.image_id };
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: config.name.clone(), attempt: config.attempt }),
        image: Some(cri::ImageSpec { user_specified_image: config.image.clone(), ..image_spec(image) }),
        command: config.command.clone(),
        args: config.arguments.clone(),
        working_dir: config.working_directory.clone().unwrap_or_default(),
        envs: config
            .environment
            .iter()
            .map(|(key, value)| cri::KeyValue { key: key.clone(), value: value.clone() })
            .collect(),
        mounts: config
            .mounts
            .iter()
            .map(|mount| cri::Mount {
                container_path: mount.container_path.clone(),
                host_path: mount.host_path.clone(),
                readonly: mount.read_only,
                propagation: match mount.propagation {
                    Propagation::Private => 0,
                    Propagation::HostToContainer => 1,
                    Propagation::Bidirectional => 2,
                },
            })
            .collect(),
        devices: config
            .devices
            .iter()
            .map(|device| cri::Device {
                container_path: device.container_path.clone(),
                host_path: device.host_path.clone(),
                permissions: device.permissions.clone(),
            })
            .collect(),
        labels,
        annotations,
        log_path: config.log_path.clone(),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources(&config.resources)),
            security_context: Some(security(config, &sandbox.namespaces)),
        }),
        cdi_devices: config.cdi_devices.iter().map(|name| cri::CdiDevice { name: name.clone() }).collect(),
    }
}

fn security(config: &ContainerConfig, shared: &Namespaces) -> cri::ContainerSecurity {
    let Security {
        privileged,
        user,
        group,
        supplemental_groups,
        add_capabilities,
        drop_capabilities,
        read_only_root,
        no_new_privileges,
        seccomp: profile,
        unmasked_proc,
    } = &config.security;
    let hidden = |paths: &[&str]| match *unmasked_proc || *privileged {
        true => Vec::new(),
        false => paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    cri::ContainerSecurity {
        capabilities: Some(cri::Capability {
            add_capabilities: add_capabilities.clone(),
            drop_capabilities: drop_capabilities.clone(),
        }),
        privileged: *privileged,
        namespace_options: Some(namespaces(shared, config.target.as_ref().map(|target| target.0.as_str()))),
        run_as_user: number(*user),
        run_as_group: number(*group),
        readonly_rootfs: *read_only_root,
        supplemental_groups: supplemental_groups.clone(),
        no_new_privs: *no_new_privileges,
        masked_paths: hidden(&MASKED),
        readonly_paths: hidden(&READ_ONLY),
        seccomp: Some(seccomp(profile)),
    }
}

fn namespaces(shared: &Namespaces, target: Option<&str>) -> cri::NamespaceOption {
    let pid = match (target, shared.pid) {
        // Whoever sees all processes of the Pod or the node sees the target's too.
        (_, PidNamespace::Node) => NODE,
        (_, PidNamespace::Pod) => POD,
        (Some(_), PidNamespace::Container) => TARGET,
        (None, PidNamespace::Container) => CONTAINER,
    };
    cri::NamespaceOption {
        network: if shared.host_network { NODE } else { POD },
        pid,
        ipc: if shared.host_ipc { NODE } else { POD },
        target_id: target.filter(|_| pid == TARGET).unwrap_or_default().to_owned(),
    }
}

pub(super) fn resources(resources: &Resources) -> cri::LinuxResources {
    cri::LinuxResources {
        cpu_period: resources.cpu_period,
        cpu_quota: resources.cpu_quota,
        cpu_shares: resources.cpu_shares,
        memory_limit_in_bytes: resources.memory_limit,
        oom_score_adj: resources.oom_score_adj,
        cpuset_cpus: resources.cpuset.clone(),
    }
}

fn seccomp(profile: &Seccomp) -> cri::SecurityProfile {
    let (profile_type, localhost_ref) = match profile {
        Seccomp::RuntimeDefault => (0, String::new()),
        Seccomp::Unconfined => (1, String::new()),
        Seccomp::Localhost(path) => (2, path.clone()),
    };
    cri::SecurityProfile { profile_type, localhost_ref }
}

fn port(port: &crate::sandbox::Port) -> cri::PortMapping {
    cri::PortMapping {
        protocol: match port.protocol {
            Protocol::Tcp => 0,
            Protocol::Udp => 1,
            Protocol::Sctp => 2,
        },
        container_port: port.container_port.into(),
        host_port: port.host_port.into(),
        host_ip: port.host_address.clone(),
    }
}

fn number(value: Option<i64>) -> Option<cri::Int64Value> {
    value.map(|value| cri::Int64Value { value })
}

pub(super) fn image_spec(name: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: name.to_owned(), annotations: BTreeMap::new(), user_specified_image: name.to_owned() }
}

pub(super) fn credentials(credentials: &Credentials) -> cri::AuthConfig {
    cri::AuthConfig {
        username: credentials.username.clone(),
        password: credentials.password.clone(),
        // Left out as upstream does: containerd drops credentials whose address is not written as a URL of the registry.
        server_address: String::new(),
        identity_token: credentials.identity_token.clone(),
    }
}

fn identity(pod: &PodRef) -> [(String, String); 3] {
    [(POD_NAME, &pod.name), (POD_NAMESPACE, &pod.namespace), (POD_UID, &pod.uid)]
        .map(|(label, value)| (label.to_owned(), value.clone()))
}

/// Finds what belongs to one Pod, or everything.
pub(super) fn selector(pod_uid: Option<&str>) -> BTreeMap<String, String> {
    pod_uid.map(|uid| (POD_UID.to_owned(), uid.to_owned())).into_iter().collect()
}
