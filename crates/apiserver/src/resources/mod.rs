//! What is special about each built-in kind: one file a kind, listed here.

use crate::strategy::{Plain, Strategy};
use std::sync::Arc;

mod apiextensions;
mod core;

/// The strategy of a built-in kind.
pub fn strategy(group: &str, version: &str, kind: &str) -> Arc<dyn Strategy> {
    match (group, version, kind) {
        ("", _, "Namespace") => Arc::new(core::namespace::Namespace),
        ("", _, "Event") => Arc::new(core::event::Event),
        ("apiextensions.k8s.io", _, "CustomResourceDefinition") => Arc::new(apiextensions::definition::Definition),
        _ => Arc::new(Plain),
    }
}

/// In which version objects are kept and under which name: as Kubernetes lays out its keys.
pub fn storage(group: &str, version: &str, resource: &str) -> (String, String) {
    let api_version = match (group, version, resource) {
        ("autoscaling", _, "horizontalpodautoscalers") => "autoscaling/v2".to_owned(),
        ("events.k8s.io", _, "events") => "v1".to_owned(),
        _ => pintle_meta::names::join_api_version(group, version),
    };
    let name = match (group, resource) {
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{resource}"),
        _ => resource.to_owned(),
    };
    (api_version, name)
}
