//! From a Pod's spec to what its sandbox and containers are made from. Nothing here touches the disk.

pub(crate) mod container;
pub(crate) mod dns;
pub(crate) mod env;
mod env_file;
pub(crate) mod expand;
pub(crate) mod fields;
pub(crate) mod hosts;
pub(crate) mod image_name;
pub(crate) mod resources;
pub(crate) mod sandbox;
pub(crate) mod security;
pub(crate) mod services;
pub(crate) mod totals;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// What is known of a Pod on its machine.
pub(crate) struct Facts<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) spec: &'a PodSpec,
    /// The Pod's own, or the node's if it shares the node's network; empty before there is a sandbox.
    pub(crate) pod_addresses: Vec<String>,
    pub(crate) host_addresses: Vec<String>,
    /// What the node has to give, which stands for a limit that nobody set.
    pub(crate) allocatable: &'a BTreeMap<String, Quantity>,
}

impl Facts<'_> {
    pub(crate) fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn on_host_network(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// All containers but ephemeral ones, in the order in which they start.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &Spec> {
        containers(self.spec)
    }

    /// The labels by which a node's tools find whose a container is.
    pub(crate) fn identity_labels(&self) -> BTreeMap<String, String> {
        let labels = [
            ("io.kubernetes.pod.name", self.name()),
            ("io.kubernetes.pod.namespace", self.namespace()),
            ("io.kubernetes.pod.uid", self.uid()),
        ];
        labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

pub(crate) fn containers(spec: &PodSpec) -> impl Iterator<Item = &Spec> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// An amount of a list of them, if it is there and can be read.
pub(crate) fn amount(list: Option<&BTreeMap<String, Quantity>>, name: &str) -> Option<pintle_meta::quantity::Quantity> {
    pintle_meta::quantity::Quantity::parse(&list?.get(name)?.0).ok()
}

#[cfg(test)]
pub(crate) mod testing {
    //! A Pod to make things from.

    use super::*;

    pub(crate) fn pod(spec: serde_json::Value) -> Pod {
        let metadata = serde_json::json!({
            "name": "web-0", "namespace": "shop", "uid": "7f0c",
            "labels": {"app": "web", "tier": "front"}, "annotations": {"note": "a \"quoted\"\nline"},
        });
        serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    pub(crate) fn allocatable() -> BTreeMap<String, Quantity> {
        [("cpu", "4"), ("memory", "8Gi"), ("ephemeral-storage", "10Gi")]
            .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
            .into()
    }

    pub(crate) fn facts<'a>(pod: &'a Pod, allocatable: &'a BTreeMap<String, Quantity>) -> Facts<'a> {
        Facts {
            pod,
            spec: pod.spec.as_ref().unwrap(),
            pod_addresses: vec!["10.64.0.5".into(), "fd00::5".into()],
            host_addresses: vec!["192.0.2.7".into()],
            allocatable,
        }
    }
}
