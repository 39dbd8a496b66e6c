//! The objects about addresses of Services.

use pintle_meta::network::{SERVICE_NETWORK, SERVICE_NETWORK_BITS};
use serde_json::{Value, json};

/// Who holds an address.
pub fn ip_address(address: &str, namespace: &str, service: &str) -> Value {
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": address, "labels": {
            "ipaddress.kubernetes.io/ip-family": family,
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
    })
}

/// The range that addresses are given out of.
pub fn range(now: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [format!("{SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}")]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "", "lastTransitionTime": now,
            "message": "Kubernetes default Service CIDR is ready"}]},
    })
}
