//! Whether a webhook means a request, and in which version it wants to see the object.

use super::hook::{Hook, Rule};
use crate::admission::{Operation, Review};
use crate::catalogue::{Catalogue, Resource};
use crate::registry::{Registry, facets, read_error};
use pintle_meta::labels::Selector;
use pintle_meta::{Status, object};
use pintle_store::Entry;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OnceCell;

const NAMESPACES: &str = "namespaces";

/// The Namespace of a request, read when a selector first asks for it: once, however many webhooks there are.
#[derive(Default)]
pub(super) struct Surroundings(OnceCell<Option<Arc<Entry>>>);

impl Surroundings {
    async fn namespace(&self, registry: &Registry, key: &str) -> Result<Option<&Arc<Entry>>, Status> {
        let read = async || registry.store.get(key).await.map_err(read_error);
        Ok(self.0.get_or_try_init(read).await?.as_ref())
    }
}

/// What rules look at.
pub(super) struct Subject<'a> {
    pub(super) review: &'a Review<'a>,
    /// The resource of the path, in the version of the path.
    pub(super) asked: &'a Arc<Resource>,
    pub(super) namespace: &'a str,
    surroundings: &'a Surroundings,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        review: &'a Review<'a>,
        object: Option<&'a Value>,
        surroundings: &'a Surroundings,
    ) -> Result<Self, Status> {
        let asked = review.call.resource()?;
        // A Namespace counts as a part of itself.
        let namespace = match is_namespaces(asked) {
            true if review.call.path.name.is_empty() => object.map_or("", object::name),
            true => &review.call.path.name,
            false => review.call.namespace(),
        };
        Ok(Subject { review, asked, namespace, surroundings })
    }

    /// The version in which the webhook is shown the object; none if it is not asked.
    pub(super) async fn meant(&self, hook: &Hook, object: Option<&Value>) -> Result<Option<Arc<Resource>>, Status> {
        let Some(version) = self.version_for(hook) else { return Ok(None) };
        if !self.selects_object(&hook.objects, object) || !self.selects_namespace(&hook.namespaces, object).await? {
            return Ok(None);
        }
        Ok(Some(version))
    }

    /// Cheap: by the rules alone.
    pub(super) fn version_for(&self, hook: &Hook) -> Option<Arc<Resource>> {
        if hook.rules.iter().any(|rule| self.fits(rule, self.asked)) {
            return Some(self.asked.clone());
        }
        if !hook.takes_equivalents || !hook.rules.iter().any(|rule| self.names_resource(rule)) {
            return None;
        }
        let catalogue = self.review.registry.catalogue.latest();
        let others = equivalents(&catalogue, self.asked);
        hook.rules.iter().find_map(|rule| others.iter().find(|other| self.fits(rule, other)).cloned())
    }

    fn fits(&self, rule: &Rule, resource: &Resource) -> bool {
        let in_namespace = !self.namespace.is_empty() && !is_namespaces(resource);
        let scope = match rule.scope.as_str() {
            "Namespaced" => in_namespace,
            "Cluster" => !in_namespace,
            _ => true,
        };
        scope
            && has(&rule.operations, self.review.operation.as_str())
            && has(&rule.groups, &resource.group)
            && has(&rule.versions, &resource.version)
            && self.names_resource(rule)
    }

    fn names_resource(&self, rule: &Rule) -> bool {
        let (resource, subresource) = (self.asked.name.as_str(), self.review.call.path.subresource.as_str());
        let is = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        rule.resources.iter().any(|(left, right)| is(left, resource) && is(right, subresource))
    }

    fn selects_object(&self, selector: &Selector, object: Option<&Value>) -> bool {
        let selects = |object: &Value| selector.matches_labels(object::at(object, &["metadata", "labels"]));
        selector.is_everything() || object.is_some_and(selects) || self.review.old.is_some_and(selects)
    }

    async fn selects_namespace(&self, selector: &Selector, object: Option<&Value>) -> Result<bool, Status> {
        let about_namespace = is_namespaces(self.asked);
        if selector.is_everything() || (self.namespace.is_empty() && !about_namespace) {
            return Ok(true);
        }
        let writes = matches!(self.review.operation, Operation::Create | Operation::Update);
        if about_namespace && writes && self.review.call.path.subresource.is_empty() {
            return Ok(
                object.is_some_and(|object| selector.matches_labels(object::at(object, &["metadata", "labels"])))
            );
        }
        let registry = self.review.registry;
        let catalogue = registry.catalogue.latest();
        let resource = catalogue.get("", "v1", NAMESPACES).ok_or_else(Status::no_such_resource)?;
        let entry = self.surroundings.namespace(registry, &resource.key("", self.namespace)).await?;
        let entry = entry.ok_or_else(|| Status::not_found("", NAMESPACES, self.namespace))?;
        let facets = facets(resource, entry);
        Ok(selector.matches(|key| facets.label(key)))
    }
}

fn is_namespaces(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.name == NAMESPACES
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|one| one == "*" || one == word)
}

/// The same objects in other versions or groups.
fn equivalents(catalogue: &Catalogue, resource: &Resource) -> Vec<Arc<Resource>> {
    let same = |other: &&Arc<Resource>| {
        other.prefix == resource.prefix && (&other.group, &other.version) != (&resource.group, &resource.version)
    };
    if resource.custom {
        return catalogue.versions_of(&resource.group, &resource.name).filter(same).cloned().collect();
    }
    catalogue.built_in().filter(same).cloned().collect()
}
