//! The addresses and node ports of Services: chosen here, each held by one Service alone.
//!
//! A Service holds an address by a key that only one may write, in the transaction that stores the Service. Which
//! address is tried first follows from the Service's uid, so that the same run chooses the same; when it is taken the
//! next one is tried:
//!
//! ```text
//! uid 5f0c…  →  10.103.7.40  taken →  10.103.7.41  free: /registry/ranges/serviceips/10.103.7.41
//! ```

use super::{has_address, has_node_ports, is_headless};
use crate::keys;
use pintle_meta::field::{Error, Path};
use pintle_meta::{network, object};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

const NETWORK: Ipv4Addr = network::SERVICE_NETWORK;
const NETWORK_BITS: u32 = network::SERVICE_NETWORK_BITS;
/// Addresses at the start of the network are left to who asks for them by name, as cluster DNS does.
const RESERVED: u32 = 256;
const SIZE: u32 = 1 << (32 - NETWORK_BITS);
const FIRST_PORT: i64 = 30000;
const LAST_PORT: i64 = 32767;
/// Ports at the start are left to who asks for them.
const RESERVED_PORTS: i64 = 86;

/// One address or several: both fields say the same.
pub fn normalize(service: &mut Value) {
    let one = object::text(service, &["spec", "clusterIP"]).to_owned();
    let many = object::list(service, &["spec", "clusterIPs"]).to_vec();
    match (one.is_empty(), many.first().and_then(Value::as_str)) {
        (false, None) => object::set(service, &["spec", "clusterIPs"], json!([one])),
        (true, Some(first)) => object::set(service, &["spec", "clusterIP"], first),
        _ => {}
    }
}

/// Gives the Service what it needs and did not ask for by value.
pub fn allocate(service: &mut Value) {
    if has_address(service) {
        if object::text(service, &["spec", "clusterIP"]).is_empty() {
            let address = address_at(search_start(service, "address")).to_string();
            object::set(service, &["spec", "clusterIP"], address.as_str());
            object::set(service, &["spec", "clusterIPs"], json!([address]));
        }
        let spec = object::map_at(service, "spec");
        object::fill(spec, "ipFamilies", json!(["IPv4"]));
        object::fill(spec, "ipFamilyPolicy", "SingleStack");
    }
    if !has_node_ports(service) {
        return;
    }
    for i in 0..object::list(service, &["spec", "ports"]).len() {
        let start = search_start(service, &format!("port {i}"));
        // One number may serve two protocols.
        let shared = port_shared_with(service, i);
        let port = object::at_mut(service, &["spec", "ports"]).and_then(|ports| ports.get_mut(i));
        if let Some(Value::Object(port)) = port
            && port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) == 0
        {
            port.insert("nodePort".into(), shared.unwrap_or_else(|| port_at(start)).into());
        }
    }
}

/// A port of the same number and another protocol before this one.
fn port_shared_with(service: &Value, i: usize) -> Option<i64> {
    let ports = object::list(service, &["spec", "ports"]);
    let this = ports.get(i)?;
    let earlier = ports[..i].iter().find(|p| p["port"] == this["port"] && p["protocol"] != this["protocol"])?;
    object::integer(earlier, &["nodePort"]).filter(|n| *n != 0)
}

pub fn claims(service: &Value) -> Vec<String> {
    let mut claims: Vec<String> = Vec::new();
    let mut claim = |claim: String| {
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    };
    if has_address(service) && !is_headless(service) {
        let one = object::at(service, &["spec", "clusterIP"]).into_iter();
        let all = one.chain(object::list(service, &["spec", "clusterIPs"])).filter_map(Value::as_str);
        all.filter(|address| !address.is_empty())
            .for_each(|address| claim(keys::named(keys::SERVICE_ADDRESSES, address)));
    }
    if has_node_ports(service) {
        let ports = object::list(service, &["spec", "ports"]).iter();
        let numbers = ports.filter_map(|port| object::integer(port, &["nodePort"])).filter(|number| *number != 0);
        numbers.for_each(|number| claim(keys::named(keys::SERVICE_NODE_PORTS, &number.to_string())));
    }
    claims
}

pub fn claim_error(service: &Value, claim: &str) -> Error {
    let spec = Path::new("spec");
    if let Some(address) = claim.strip_prefix(keys::SERVICE_ADDRESSES) {
        let detail = format!("failed to allocate IP {address}: provided IP is already allocated");
        return Error::invalid(&spec.child("clusterIPs"), json!([address]), detail);
    }
    let number: i64 = claim.strip_prefix(keys::SERVICE_NODE_PORTS).and_then(|n| n.parse().ok()).unwrap_or(0);
    let ports = object::list(service, &["spec", "ports"]);
    let i = ports.iter().position(|p| object::integer(p, &["nodePort"]) == Some(number)).unwrap_or(0);
    Error::invalid(&spec.child("ports").index(i).child("nodePort"), number, "provided port is already allocated")
}

/// The next value in place of one that is taken.
pub fn reassign(service: &mut Value, claim: &str) {
    if let Some(taken) =
        claim.strip_prefix(keys::SERVICE_ADDRESSES).and_then(|address| address.parse::<Ipv4Addr>().ok())
    {
        let position = u32::from(taken).wrapping_sub(u32::from(NETWORK)).wrapping_sub(RESERVED);
        let next = address_at(position.wrapping_add(1)).to_string();
        object::set(service, &["spec", "clusterIP"], next.as_str());
        object::set(service, &["spec", "clusterIPs"], json!([next]));
        return;
    }
    let Some(taken) = claim.strip_prefix(keys::SERVICE_NODE_PORTS).and_then(|number| number.parse::<i64>().ok()) else {
        return;
    };
    let position = u32::try_from(taken - FIRST_PORT - RESERVED_PORTS).unwrap_or(0);
    let ports = object::at_mut(service, &["spec", "ports"]).and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter(|port| port["nodePort"] == taken) {
        object::set(port, &["nodePort"], port_at(position.wrapping_add(1)));
    }
}

/// What is wrong with an address or a port that was asked for by value.
pub fn out_of_range(service: &Value) -> Vec<Error> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    for address in object::list(service, &["spec", "clusterIPs"]).iter().filter_map(Value::as_str) {
        let Ok(parsed) = address.parse::<Ipv4Addr>() else { continue };
        if u32::from(parsed) >> (32 - NETWORK_BITS) != u32::from(NETWORK) >> (32 - NETWORK_BITS) {
            let detail = format!(
                "failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of valid IPs is {NETWORK}/{NETWORK_BITS}"
            );
            errors.push(Error::invalid(&spec.child("clusterIPs"), json!([address]), detail));
        }
    }
    for (i, port) in object::list(service, &["spec", "ports"]).iter().enumerate() {
        let number = object::integer(port, &["nodePort"]).unwrap_or(0);
        if number != 0 && has_node_ports(service) && !(FIRST_PORT..=LAST_PORT).contains(&number) {
            let detail = format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
            );
            errors.push(Error::invalid(&spec.child("ports").index(i).child("nodePort"), number, detail));
        }
    }
    errors
}

fn address_at(position: u32) -> Ipv4Addr {
    // The last address of a network is not anybody's.
    let offset = RESERVED + position % (SIZE - RESERVED - 1);
    Ipv4Addr::from(u32::from(NETWORK) + offset)
}

fn port_at(position: u32) -> i64 {
    let first = FIRST_PORT + RESERVED_PORTS;
    first + i64::from(position) % (LAST_PORT - first + 1)
}

/// FNV-1a over who asks and for what: spread well, and the same in every run.
fn search_start(service: &Value, purpose: &str) -> u32 {
    let bytes = object::uid(service).bytes().chain(purpose.bytes());
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({"metadata": {"uid": "5f0c"}, "spec": spec})
    }

    #[test]
    fn a_taken_address_makes_way_for_the_next() {
        let mut service = service(json!({"type": "NodePort", "ports": [{"port": 80}]}));
        assert!(claims(&service).is_empty());
        allocate(&mut service);
        for _ in 0..3 {
            let before = claims(&service);
            reassign(&mut service, &before[0]);
            reassign(&mut service, &before[1]);
            let after = claims(&service);
            assert!(after.iter().all(|claim| !before.contains(claim)), "{before:?} {after:?}");
        }
    }

    #[test]
    fn an_address_that_was_asked_for_is_kept() {
        let mut service = service(json!({"type": "ClusterIP", "clusterIP": "10.96.0.10"}));
        assert_eq!(claims(&service), [keys::named(keys::SERVICE_ADDRESSES, "10.96.0.10")]);
        normalize(&mut service);
        allocate(&mut service);
        assert_eq!(claims(&service), [keys::named(keys::SERVICE_ADDRESSES, "10.96.0.10")]);
    }

    #[test]
    fn a_service_without_an_address_holds_none() {
        let mut headless = service(json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}));
        allocate(&mut headless);
        assert!(claims(&headless).is_empty());
        let mut external = service(json!({"type": "ExternalName", "externalName": "a.example.com"}));
        allocate(&mut external);
        assert!(external["spec"].get("clusterIP").is_none());
    }

    #[test]
    fn two_protocols_of_one_port_share_a_node_port() {
        let mut dns = service(
            json!({"type": "NodePort", "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}),
        );
        allocate(&mut dns);
        assert_eq!(dns["spec"]["ports"][0]["nodePort"], dns["spec"]["ports"][1]["nodePort"]);
        assert_eq!(claims(&dns).len(), 2);
    }
}
