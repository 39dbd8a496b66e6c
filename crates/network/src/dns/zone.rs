//! The names of the cluster, as the specification of DNS-based service discovery has them:
//!
//! ```text
//! web.shop.svc.cluster.local                 the Service's address, or those of all endpoints of a headless one
//! db-0.db.shop.svc.cluster.local             one endpoint of a headless Service
//! _http._tcp.web.shop.svc.cluster.local      ports
//! 10-244-0-7.shop.pod.cluster.local          a Pod
//! ```

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::Key;

use crate::address::Protocol;
use crate::services::cluster_addresses;

/// What the names of one Service say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It has addresses of its own.
    Fronted { addresses: Vec<IpAddr>, ports: Vec<Port> },
    /// Each endpoint has a name.
    Headless(Vec<Named>),
    /// It is another name.
    Elsewhere(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its hostname, or its address written as one.
    pub name: String,
    pub address: IpAddr,
    pub ports: Vec<Port>,
}

/// What a question finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Addresses, of both families.
    Addresses(Vec<IpAddr>),
    /// Ports, each with the name below the domain that has it and that name's addresses.
    Ports(Vec<(u16, String, Vec<IpAddr>)>),
    /// Another name has the answer.
    Elsewhere(String),
    /// A name with other names below it, and nothing else.
    Between,
    /// No such name.
    Nothing,
}

/// All names of the cluster.
#[derive(Debug, Default)]
pub struct Zone {
    services: HashMap<Key, Arc<Entry>>,
    namespaces: HashSet<String>,
    /// Which names below the domain an address has.
    reverse: HashMap<IpAddr, BTreeSet<String>>,
}

impl Entry {
    /// Nothing for a Service that has no name.
    pub fn of(service: &Service, slices: &[Arc<EndpointSlice>]) -> Option<Entry> {
        let spec = service.spec.as_ref()?;
        if spec.type_.as_deref() == Some("ExternalName") {
            return spec.external_name.clone().filter(|name| !name.is_empty()).map(Entry::Elsewhere);
        }
        if spec.cluster_ip.as_deref() == Some("None") {
            return Some(Entry::Headless(slices.iter().flat_map(|slice| named(slice)).collect()));
        }
        let addresses = cluster_addresses(spec);
        let ports = spec.ports.iter().flatten().filter_map(|port| {
            let protocol = Protocol::parse(port.protocol.as_deref())?;
            Some(Port { name: port.name.clone().unwrap_or_default(), protocol, port: u16::try_from(port.port).ok()? })
        });
        (!addresses.is_empty()).then(|| Entry::Fronted { addresses, ports: ports.collect() })
    }
}

/// The endpoints of a slice that are to be found. Whoever publishes those that are not ready says in the slice that they are.
fn named(slice: &EndpointSlice) -> Vec<Named> {
    let ports = slice.ports.iter().flatten().filter_map(|port| {
        let protocol = Protocol::parse(port.protocol.as_deref())?;
        Some(Port { name: port.name.clone().unwrap_or_default(), protocol, port: u16::try_from(port.port?).ok()? })
    });
    let ports: Vec<Port> = ports.collect();
    let ready = slice
        .endpoints
        .iter()
        .flatten()
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|all| all.ready).unwrap_or(true));
    ready
        .flat_map(|endpoint| {
            let addresses = endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
            addresses.map(|address| {
                let name = endpoint.hostname.clone().filter(|name| !name.is_empty());
                Named { name: name.unwrap_or_else(|| dashed(address)), address, ports: ports.clone() }
            })
        })
        .collect()
}

/// An address as one word of a name.
fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

/// The address that such a word stands for.
fn undashed(word: &str) -> Option<IpAddr> {
    let v4 = word.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    v4.or_else(|| word.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6))
}

impl Zone {
    /// Exchanges what the names of a Service say.
    pub fn put(&mut self, key: &Key, entry: Option<Entry>) {
        let before = match entry.clone() {
            Some(entry) => self.services.insert(key.clone(), Arc::new(entry)),
            None => self.services.remove(key),
        };
        for (address, name) in before.iter().flat_map(|before| names(key, before)) {
            if let Some(known) = self.reverse.get_mut(&address) {
                known.remove(&name);
                if known.is_empty() {
                    self.reverse.remove(&address);
                }
            }
        }
        for (address, name) in entry.iter().flat_map(|entry| names(key, entry)) {
            self.reverse.entry(address).or_default().insert(name);
        }
    }

    pub fn put_namespace(&mut self, name: &str, exists: bool) {
        match exists {
            true => _ = self.namespaces.insert(name.to_owned()),
            false => _ = self.namespaces.remove(name),
        }
    }

    /// Looks up a name below the domain, without the domain: its labels in lower case, as they are written.
    pub fn find(&self, labels: &[&str]) -> Found {
        match labels {
            [] | ["svc" | "pod"] => Found::Between,
            [namespace, "svc" | "pod"] => self.in_namespace(namespace, || Found::Between),
            [word, namespace, "pod"] => self.in_namespace(namespace, || {
                undashed(word).map_or(Found::Nothing, |address| Found::Addresses(vec![address]))
            }),
            [rest @ .., service, namespace, "svc"] => {
                let Some(entry) = self.services.get(&Key::new(namespace, service)) else { return Found::Nothing };
                entry.find(rest, &format!("{service}.{namespace}.svc"))
            }
            _ => Found::Nothing,
        }
    }

    fn in_namespace(&self, namespace: &str, found: impl FnOnce() -> Found) -> Found {
        if self.namespaces.contains(namespace) { found() } else { Found::Nothing }
    }

    /// The names below the domain that have this address.
    pub fn names_of(&self, address: IpAddr) -> Vec<String> {
        self.reverse.get(&address).into_iter().flatten().cloned().collect()
    }
}

/// The names that addresses of a Service lead back to.
fn names<'a>(key: &'a Key, entry: &'a Entry) -> Vec<(IpAddr, String)> {
    let own = format!("{}.{}.svc", key.name(), key.namespace());
    match entry {
        Entry::Fronted { addresses, .. } => addresses.iter().map(|address| (*address, own.clone())).collect(),
        Entry::Headless(all) => all.iter().map(|one| (one.address, format!("{}.{own}", one.name))).collect(),
        Entry::Elsewhere(_) => Vec::new(),
    }
}

impl Entry {
    /// Looks up what stands before the Service's own name.
    fn find(&self, labels: &[&str], own: &str) -> Found {
        match (self, labels) {
            (Entry::Elsewhere(target), []) => Found::Elsewhere(target.clone()),
            (Entry::Fronted { addresses, .. }, []) => Found::Addresses(addresses.clone()),
            (Entry::Headless(all), []) => match all.is_empty() {
                // Nobody is there yet: the name does not exist, as with Kubernetes.
                true => Found::Nothing,
                false => Found::Addresses(all.iter().map(|one| one.address).collect()),
            },
            (Entry::Headless(all), [name]) if !name.starts_with('_') => {
                let own: Vec<IpAddr> = all.iter().filter(|one| one.name == *name).map(|one| one.address).collect();
                if own.is_empty() { Found::Nothing } else { Found::Addresses(own) }
            }
            (Entry::Fronted { ports, .. }, [protocol]) if ports.iter().any(|one| is_protocol(one, protocol)) => {
                Found::Between
            }
            (Entry::Fronted { addresses, ports }, [name, protocol]) => {
                let asked = ports.iter().filter(|one| is_asked(one, name, protocol));
                some_ports(asked.map(|one| (one.port, own.to_owned(), addresses.clone())).collect())
            }
            (Entry::Headless(all), [protocol])
                if all.iter().any(|one| one.ports.iter().any(|port| is_protocol(port, protocol))) =>
            {
                Found::Between
            }
            (Entry::Headless(all), [name, protocol]) => {
                let of = |one: &Named| {
                    let target = format!("{}.{own}", one.name);
                    let asked = one.ports.iter().filter(|port| is_asked(port, name, protocol));
                    asked.map(|port| (port.port, target.clone(), vec![one.address])).collect::<Vec<_>>()
                };
                some_ports(all.iter().flat_map(of).collect())
            }
            _ => Found::Nothing,
        }
    }
}

fn is_protocol(port: &Port, label: &str) -> bool {
    label.strip_prefix('_') == Some(port.protocol.word())
}

/// Only ports that have a name can be asked for.
fn is_asked(port: &Port, name: &str, protocol: &str) -> bool {
    !port.name.is_empty() && name.strip_prefix('_') == Some(port.name.as_str()) && is_protocol(port, protocol)
}

fn some_ports(ports: Vec<(u16, String, Vec<IpAddr>)>) -> Found {
    if ports.is_empty() { Found::Nothing } else { Found::Ports(ports) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(spec: Value, endpoints: Value) -> Option<Entry> {
        let service: Service = serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
        let slice: EndpointSlice = serde_json::from_value(json!({"metadata": {}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints}))
        .unwrap();
        Entry::of(&service, &[Arc::new(slice)])
    }

    fn zone() -> Zone {
        let mut zone = Zone::default();
        zone.put_namespace("shop", true);
        let ports = json!([{"name": "http", "port": 80}, {"port": 90}]);
        zone.put(&Key::new("shop", "web"), entry(json!({"clusterIP": "10.96.0.5", "ports": ports}), json!([])));
        let endpoints = json!([{"addresses": ["10.244.0.1"], "hostname": "db-0"}, {"addresses": ["10.244.0.2"]},
            {"addresses": ["10.244.0.3"], "hostname": "db-2", "conditions": {"ready": false}}]);
        zone.put(&Key::new("shop", "db"), entry(json!({"clusterIP": "None"}), endpoints));
        zone.put(&Key::new("shop", "none"), entry(json!({"clusterIP": "None"}), json!([])));
        zone.put(
            &Key::new("shop", "away"),
            entry(json!({"type": "ExternalName", "externalName": "a.example"}), json!([])),
        );
        zone
    }

    #[test]
    fn every_name_of_the_specification_is_found_and_no_other() {
        let zone = zone();
        let ips = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let addresses = |texts: &[&str]| Found::Addresses(ips(texts));
        for (name, expected) in [
            ("web.shop.svc", addresses(&["10.96.0.5"])),
            ("db.shop.svc", addresses(&["10.244.0.1", "10.244.0.2"])),
            ("db-0.db.shop.svc", addresses(&["10.244.0.1"])),
            ("10-244-0-2.db.shop.svc", addresses(&["10.244.0.2"])),
            ("db-2.db.shop.svc", Found::Nothing),
            ("none.shop.svc", Found::Nothing),
            ("away.shop.svc", Found::Elsewhere("a.example".to_owned())),
            ("_http._tcp.web.shop.svc", Found::Ports(vec![(80, "web.shop.svc".to_owned(), ips(&["10.96.0.5"]))])),
            (
                "_http._tcp.db.shop.svc",
                Found::Ports(vec![
                    (8080, "db-0.db.shop.svc".to_owned(), ips(&["10.244.0.1"])),
                    (8080, "10-244-0-2.db.shop.svc".to_owned(), ips(&["10.244.0.2"])),
                ]),
            ),
            ("_tcp.web.shop.svc", Found::Between),
            ("_http._udp.web.shop.svc", Found::Nothing),
            ("_._tcp.web.shop.svc", Found::Nothing),
            ("x.web.shop.svc", Found::Nothing),
            ("web.other.svc", Found::Nothing),
            ("10-1-2-3.shop.pod", addresses(&["10.1.2.3"])),
            ("fd00--7.shop.pod", addresses(&["fd00::7"])),
            ("10-1-2.shop.pod", Found::Nothing),
            ("10-1-2-3.other.pod", Found::Nothing),
            ("shop.svc", Found::Between),
            ("other.svc", Found::Nothing),
            ("svc", Found::Between),
            ("x", Found::Nothing),
        ] {
            let labels: Vec<&str> = name.split('.').collect();
            assert_eq!(zone.find(&labels), expected, "{name}");
        }
    }

    #[test]
    fn an_address_leads_back_to_its_names_until_they_go() {
        let mut zone = zone();
        let names = |zone: &Zone, text: &str| zone.names_of(text.parse().unwrap());
        assert_eq!(names(&zone, "10.96.0.5"), ["web.shop.svc"]);
        assert_eq!(names(&zone, "10.244.0.1"), ["db-0.db.shop.svc"]);
        zone.put(&Key::new("shop", "web"), entry(json!({"clusterIP": "10.96.0.6"}), json!([])));
        assert!(names(&zone, "10.96.0.5").is_empty());
        assert_eq!(names(&zone, "10.96.0.6"), ["web.shop.svc"]);
        zone.put(&Key::new("shop", "web"), None);
        zone.put(&Key::new("shop", "db"), None);
        assert!(zone.reverse.is_empty());
    }
}
