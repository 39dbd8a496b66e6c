//! Custom resources: definitions become served resources, through the same registry as everything else.
//!
//! The catalogue follows the stored definitions before each request, so a resource is there as soon as its definition
//! is. A loop of the server's own writes what became of a definition into its status and, when one is deleted,
//! removes its objects first.

mod kind;
mod lifecycle;

pub use lifecycle::{CLEANUP, run};

use crate::catalogue::{CustomNames, Resource, Subresource};
use crate::codec;
use crate::follow::Follower;
use crate::registry::Registry;
use kind::CustomKind;
use pintle_meta::{field, object};
use pintle_schema::Schema;
use pintle_store::{Range, Store};
use serde_json::Value;
use std::sync::Arc;

pub const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

pub struct CustomResources {
    follower: Follower,
}

impl CustomResources {
    pub fn new(store: Arc<dyn Store>) -> Self {
        CustomResources { follower: Follower::new(store, &[PREFIX]) }
    }

    /// Brings the catalogue up to date with the stored definitions.
    pub async fn follow(&self, registry: &Registry) {
        self.follower.follow(|| rebuild(registry)).await;
    }
}

async fn rebuild(registry: &Registry) {
    let Ok(page) = registry.store.range(Range::prefix(PREFIX).cached()).await else { return };
    let mut resources = Vec::new();
    for entry in &page.entries {
        let definition = codec::decode(&entry.value);
        if lifecycle::names_are_free(registry, &definition) {
            resources.extend(served(&definition, entry.mod_revision).into_iter().map(Arc::new));
        }
    }
    let catalogue = registry.catalogue.load().with_custom(resources);
    registry.catalogue.store(Arc::new(catalogue));
}

/// The resources that a definition serves, one a version.
fn served(definition: &Value, defined_at: u64) -> Vec<Resource> {
    let versions = object::list(definition, &["spec", "versions"]);
    let storage =
        versions.iter().find(|v| object::flag(v, &["storage"])).map(|v| object::text(v, &["name"])).unwrap_or_default();
    let served = versions.iter().filter(|v| object::flag(v, &["served"]));
    served.filter_map(|v| resource(definition, v, storage, defined_at)).collect()
}

fn resource(definition: &Value, version: &Value, storage: &str, defined_at: u64) -> Option<Resource> {
    let text = |path: &[&str]| object::text(definition, path);
    let words =
        |path: &[&str]| object::list(definition, path).iter().filter_map(|w| w.as_str().map(str::to_owned)).collect();
    let given = object::at(version, &["schema", "openAPIV3Schema"])?;
    let preserves = object::flag(definition, &["spec", "preserveUnknownFields"]);
    // Checked when the definition was written; what does not compile is not served.
    let schema = Schema::from_crd(given, preserves, &field::Path::root()).ok()?;
    let kind = text(&["spec", "names", "kind"]);
    let mut subresources = Vec::new();
    if object::at(version, &["subresources", "status"]).is_some() {
        subresources.push(subresource("status", kind, None));
    }
    if object::at(version, &["subresources", "scale"]).is_some() {
        subresources.push(subresource("scale", "Scale", Some(("autoscaling".into(), "v1".into()))));
    }
    let names = CustomNames {
        plural: text(&["spec", "names", "plural"]).to_owned(),
        singular: text(&["spec", "names", "singular"]).to_owned(),
        kind: kind.to_owned(),
        list_kind: text(&["spec", "names", "listKind"]).to_owned(),
        short_names: words(&["spec", "names", "shortNames"]),
        categories: words(&["spec", "names", "categories"]),
    };
    Some(Resource::custom(
        text(&["spec", "group"]),
        object::text(version, &["name"]),
        names,
        text(&["spec", "scope"]) == "Namespaced",
        storage,
        subresources,
        schema.clone(),
        Arc::new(CustomKind::new(version, schema)),
        defined_at,
    ))
}

fn subresource(name: &str, kind: &str, group_version: Option<(String, String)>) -> Subresource {
    let verbs = ["get", "patch", "update"].map(str::to_owned).to_vec();
    Subresource { name: name.into(), kind: kind.into(), group_version, verbs }
}
