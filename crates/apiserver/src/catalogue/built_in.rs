//! The built-in resources, read from the facts table.

use super::{Path, Resource, Subresource};
use crate::keys;
use crate::resources;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub(super) struct Builtin {
    pub(super) by_path: BTreeMap<Path, Arc<Resource>>,
    pub(super) order: Vec<Arc<Resource>>,
}

impl Builtin {
    pub(super) fn read() -> Self {
        let order: Vec<Arc<Resource>> = include_str!("../../facts/resources.tsv")
            .lines()
            .skip(1)
            .filter_map(builtin_resource)
            .map(Arc::new)
            .collect();
        Builtin::of(order)
    }

    pub(super) fn of(order: Vec<Arc<Resource>>) -> Self {
        Builtin { by_path: order.iter().map(|resource| (Path::of(resource), resource.clone())).collect(), order }
    }
}

pub(super) fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// A row of the facts table, if Kubernetes serves that version by default.
fn builtin_resource(row: &str) -> Option<Resource> {
    let columns: Vec<&str> = row.split('\t').collect();
    let [group, version, name, kind, scope, singular, short_names, categories, verbs, subresources] = columns[..]
    else {
        return None;
    };
    if version.contains("alpha") || version.contains("beta") {
        return None;
    }

    let strategy = resources::strategy(group, version, kind);
    Some(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: singular.to_owned(),
        namespaced: scope == "Namespaced",
        short_names: words(short_names),
        categories: words(categories),
        verbs: words(verbs),
        subresources: subresources.split(' ').filter_map(builtin_subresource).collect(),
        deprecation: strategy.deprecation().map(str::to_owned),
        strategy,
        prefix: keys::builtin(group, name),
        stored_api_version: resources::stored_api_version(group, version, name),
        custom: false,
        backend: None,
        terminating: false,
        defined_at: 0,
        type_name: type_name(group, version, kind),
        schema: OnceLock::new(),
        discovered: OnceLock::new(),
        source: None,
    })
}

/// `scale(Scale:get,patch,update)`.
fn builtin_subresource(text: &str) -> Option<Subresource> {
    let (name, rest) = text.trim_end_matches(')').split_once('(')?;
    let (kind, verbs) = rest.split_once(':')?;
    let group_version = match kind {
        "Scale" => Some(("autoscaling", "v1")),
        "Eviction" => Some(("policy", "v1")),
        "TokenRequest" => Some(("authentication.k8s.io", "v1")),
        _ => None,
    };
    Some(Subresource {
        name: name.to_owned(),
        kind: kind.to_owned(),
        group_version: group_version.map(|(g, v)| (g.to_owned(), v.to_owned())),
        verbs: words(verbs),
    })
}

/// How the facts table names the type: `core.v1.Pod`, `rbac.v1.Role`.
pub fn type_name(group: &str, version: &str, kind: &str) -> String {
    let short = match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        other => other.split('.').next().unwrap_or(other),
    };
    format!("{short}.{version}.{kind}")
}
