//! The addresses that every part of a cluster must agree on.

use crate::Range;
use std::net::{IpAddr, Ipv4Addr};

/// The range of Services' addresses, `10.96.0.0/12`.
pub const SERVICE_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
pub const SERVICE_NETWORK_BITS: u32 = 12;

/// The address of the Service `kubernetes`, behind which the API server is.
pub const KUBERNETES_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The address of the Service `kube-dns`, at which Pods ask for names.
pub const DNS_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// The annotation of a Node with the addresses of all Pods, several with commas between.
pub const CLUSTER_CIDRS: &str = "network.pintle.dev/cluster-cidrs";

/// The annotation of a Node that answers names, with the address at which it does, one of its Pods' range.
pub const NAME_SERVER: &str = "network.pintle.dev/name-server";

/// The ranges that a Node was given, from its `podCIDR` and `podCIDRs`. What cannot be read is nobody's.
pub fn pod_ranges(first: Option<&String>, all: Option<&Vec<String>>) -> Vec<Range> {
    let texts = all.into_iter().flatten().chain(first.filter(|_| all.is_none()));
    texts.filter_map(|text| text.parse().ok()).collect()
}

/// The parts of a cluster's range that nodes get: as large as Kubernetes makes them.
pub fn node_parts(cluster: &Range) -> impl Iterator<Item = Range> + use<> {
    let bits: u8 = if cluster.first().is_ipv4() { 24 } else { 64 };
    cluster.parts(bits.max(cluster.bits()))
}

/// Whether an address belongs to Services.
pub fn is_service_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => (v4.to_bits() ^ SERVICE_NETWORK.to_bits()) >> (32 - SERVICE_NETWORK_BITS) == 0,
        IpAddr::V6(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_services_has_an_end() {
        for (address, inside) in [
            ("10.96.0.1", true),
            ("10.111.255.255", true),
            ("::ffff:10.96.0.1", true),
            ("10.95.255.255", false),
            ("10.112.0.0", false),
            ("192.0.2.1", false),
            ("fd00::1", false),
        ] {
            assert_eq!(is_service_address(address.parse().unwrap()), inside, "{address}");
        }
    }
}
