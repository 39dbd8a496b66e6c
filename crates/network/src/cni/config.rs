//! What a runtime tells the plugin.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CniError, NAME};
use crate::address::{Protocol, Range};
use crate::bridge::Bridge;

/// The plugin's part of a configuration, with what the runtime adds for one Pod.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    pub bridge: String,
    subnets: Vec<String>,
    #[serde(default)]
    cluster: Vec<String>,
    pub books: PathBuf,
    #[serde(default)]
    runtime_config: RuntimeConfig,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuntimeConfig {
    port_mappings: Vec<Mapping>,
    bandwidth: Option<Bandwidth>,
}

/// A port of the node that leads to one of a Pod. Runtimes in Go write the names of fields as they please.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    #[serde(alias = "HostPort", default)]
    pub host_port: u16,
    #[serde(alias = "ContainerPort")]
    pub container_port: u16,
    #[serde(alias = "Protocol", default)]
    pub protocol: String,
    /// Empty for every address of the node.
    #[serde(rename = "hostIP", alias = "HostIP", default)]
    pub host_ip: String,
}

impl Mapping {
    pub(super) fn protocol(&self) -> Option<Protocol> {
        Protocol::parse(Some(&self.protocol.to_uppercase()))
    }

    /// The one address of the node, if only one is meant.
    pub(super) fn only(&self) -> Option<IpAddr> {
        self.host_ip.parse().ok().filter(|address: &IpAddr| !address.is_unspecified())
    }
}

/// In bits, and bits a second; nothing is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Bandwidth {
    #[serde(alias = "IngressRate")]
    pub ingress_rate: u64,
    #[serde(alias = "IngressBurst")]
    pub ingress_burst: u64,
    #[serde(alias = "EgressRate")]
    pub egress_rate: u64,
    #[serde(alias = "EgressBurst")]
    pub egress_burst: u64,
}

impl Config {
    pub fn read(input: Value) -> Result<Config, CniError> {
        let config: Config = serde_json::from_value(input).map_err(|error| CniError::Config(error.to_string()))?;
        let wrong = config.mappings().into_iter().find(|one| one.protocol().is_none());
        match wrong {
            Some(mapping) => Err(CniError::Config(format!("portMappings: no protocol {:?}", mapping.protocol))),
            None => config.as_bridge().map(|_| config),
        }
    }

    /// Those that ask for a port of the node; others only name one of the Pod.
    pub fn mappings(&self) -> Vec<Mapping> {
        self.runtime_config.port_mappings.iter().filter(|one| one.host_port != 0).cloned().collect()
    }

    pub fn bandwidth(&self) -> Bandwidth {
        self.runtime_config.bandwidth.unwrap_or_default()
    }

    pub fn as_bridge(&self) -> Result<Bridge, CniError> {
        let ranges = |field: &str, texts: &[String]| {
            let parsed: Result<Vec<Range>, _> = texts.iter().map(|text| text.parse()).collect();
            parsed.map_err(|error| CniError::Config(format!("{field}: {error}")))
        };
        let (pods, cluster) = (ranges("subnets", &self.subnets)?, ranges("cluster", &self.cluster)?);
        if pods.is_empty() {
            return Err(CniError::Config("subnets: empty".to_owned()));
        }
        Ok(Bridge { name: self.bridge.clone(), pods, cluster, services: Vec::new(), books: self.books.clone() })
    }
}

/// The configuration that a runtime reads, for Pods of this bridge.
pub fn conflist(bridge: &Bridge) -> Value {
    let texts = |ranges: &[Range]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({"cniVersion": "1.0.0", "name": "pintle", "plugins": [{
        "type": NAME, "bridge": bridge.name, "subnets": texts(&bridge.pods), "cluster": texts(&bridge.cluster),
        "books": bridge.books, "capabilities": {"portMappings": true, "bandwidth": true}}]})
}

/// Which container is meant, and what its interface is called.
#[derive(Debug)]
pub(super) struct Request {
    pub container: String,
    /// Empty if the container has none any more.
    pub namespace: String,
    pub interface: String,
}

impl Request {
    pub fn read(environment: &impl Fn(&str) -> Option<String>) -> Result<Request, CniError> {
        let request = Request::read_gone(environment)?;
        match request.namespace.is_empty() {
            true => Err(CniError::Environment("CNI_NETNS", "empty".to_owned())),
            false => Ok(request),
        }
    }

    /// For one that may be gone.
    pub fn read_gone(environment: &impl Fn(&str) -> Option<String>) -> Result<Request, CniError> {
        let named = |variable: &'static str| {
            let value = environment(variable).unwrap_or_default();
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            match !value.is_empty() && value.chars().all(is_plain) && !value.starts_with('-') {
                true => Ok(value),
                false => Err(CniError::Environment(variable, format!("{value:?}"))),
            }
        };
        let (container, interface) = (named("CNI_CONTAINERID")?, named("CNI_IFNAME")?);
        let namespace = environment("CNI_NETNS").unwrap_or_default();
        // It becomes a word of a line that `ip` reads.
        if namespace.contains(char::is_whitespace) || interface.len() > 15 {
            return Err(CniError::Environment("CNI_NETNS or CNI_IFNAME", format!("{namespace:?}, {interface:?}")));
        }
        Ok(Request { container, namespace, interface })
    }

    /// The name of the cable's end on the node.
    pub fn cable(&self) -> String {
        let both = format!("{} {}", self.container, self.interface);
        format!("veth{:08x}", pintle_meta::hash::stable(both.as_bytes()) & 0xffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_containerd_writes_is_understood() {
        let config = Config::read(json!({"bridge": "b0", "subnets": ["10.9.0.0/24"], "books": "/b", "runtimeConfig": {
            "portMappings": [{"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": "127.0.0.1"},
                {"hostPort": 53, "containerPort": 53, "protocol": "udp"}, {"ContainerPort": 80}],
            "bandwidth": {"IngressRate": 1, "egressRate": 2}}}))
        .unwrap();
        let ports: Vec<_> = config.mappings().iter().map(|one| (one.host_port, one.protocol())).collect();
        assert_eq!(ports, [(8080, Some(Protocol::Tcp)), (53, Some(Protocol::Udp))]);
        assert_eq!((config.bandwidth().ingress_rate, config.bandwidth().egress_rate), (1, 2));
    }
}
