//! The addresses that every part of a cluster must agree on.

use std::net::{IpAddr, Ipv4Addr};

/// The range of Services' addresses, `10.96.0.0/12`.
pub const SERVICE_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
pub const SERVICE_NETWORK_BITS: u32 = 12;

/// The address of the Service `kubernetes`, behind which the API server is.
pub const KUBERNETES_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The address of the Service `kube-dns`, at which Pods ask for names.
pub const DNS_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

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
