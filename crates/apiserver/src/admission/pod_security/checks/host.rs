//! What of the node a Pod takes part in: its namespaces, ports and kernel parameters.

use super::{Subject, Violation, context, number, quoted, setters, these, uses, violation};
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn namespaces(pod: &Subject<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| object::flag(pod.spec, &[name]));
    let shared: Vec<String> = shared.map(|name| format!("{name}=true")).collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

pub(super) fn ports(pod: &Subject<'_>) -> Option<Violation> {
    let of = |container: &Value| -> Vec<i64> {
        let ports = object::list(container, &["ports"]).iter();
        ports.filter_map(|port| object::integer(port, &["hostPort"])).filter(|port| *port != 0).collect()
    };
    let containers = pod.named(|container| !of(container).is_empty());
    if containers.is_empty() {
        return None;
    }
    // Sorted as text.
    let ports: BTreeSet<String> = pod.containers().flat_map(of).map(|port| port.to_string()).collect();
    let (taking, noun) = (uses(containers.len()), number(ports.len(), "hostPort"));
    let list = ports.into_iter().collect::<Vec<_>>().join(", ");
    violation("hostPort", format!("{} {taking} {noun} {list}", these(&containers)))
}

pub(super) fn probes(pod: &Subject<'_>) -> Option<Violation> {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let of = |container: &Value| -> Vec<String> {
        let handlers = HANDLERS.iter().filter_map(|path| object::at(container, path));
        let hosts =
            handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| object::text(handler, &[kind, "host"])));
        hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let mut containers = pod.named(|container| !of(container).is_empty());
    if containers.is_empty() {
        return None;
    }
    containers.sort_unstable();
    containers.dedup();
    let hosts: BTreeSet<String> = pod.containers().flat_map(of).collect();
    let (taking, noun) = (uses(containers.len()), number(hosts.len(), "probe or lifecycle host"));
    violation("probe or lifecycle host", format!("{} {taking} {noun} {}", these(&containers), quoted(&hosts)))
}

/// Kernel parameters that are a Pod's own, and since which minor version they are known to be.
const SYSCTLS: [(u32, &[&str]); 4] = [
    (
        0,
        &[
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        ],
    ),
    (27, &["net.ipv4.ip_local_reserved_ports"]),
    (
        29,
        &[
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
        ],
    ),
    (32, &["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]),
];

pub(super) fn sysctls(pod: &Subject<'_>, minor: u32) -> Option<Violation> {
    let allowed = |name: &str| SYSCTLS.iter().any(|(since, names)| *since <= minor && names.contains(&name));
    let set = pod.context(&["sysctls"]).and_then(Value::as_array).into_iter().flatten();
    let forbidden: Vec<&str> = set.map(|one| object::text(one, &["name"])).filter(|name| !allowed(name)).collect();
    if forbidden.is_empty() { None } else { violation("forbidden sysctls", forbidden.join(", ")) }
}

pub(super) fn windows_process(pod: &Subject<'_>) -> Option<Violation> {
    let path = ["windowsOptions", "hostProcess"];
    let containers = pod.named(|container| context(container, &path) == Some(&Value::Bool(true)));
    let setters = setters(pod.context(&path) == Some(&Value::Bool(true)), &containers)?;
    violation("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}
