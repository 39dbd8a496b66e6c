//! Who may do what: roles and bindings, read from the store's own objects; and nodes, by what runs on them.

pub mod bootstrap;
mod node;
pub mod rules;

use crate::authn::{MASTERS, User};
use crate::codec;
use crate::follow::Follower;
use arc_swap::ArcSwap;
use pintle_meta::Status;
use pintle_meta::labels::FieldSelector;
use pintle_meta::names::qualified_resource;
use pintle_store::{Range, Store};
use rules::Policy;
use serde_json::Value;
use std::sync::Arc;

const PREFIXES: &[&str] =
    &["/registry/clusterroles/", "/registry/clusterrolebindings/", "/registry/roles/", "/registry/rolebindings/"];

/// What is about to be done.
#[derive(Clone, Debug, Default)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// What a list or a watch is limited to.
    pub fields: Option<&'a FieldSelector>,
    /// Set instead of a resource for paths such as `/version`.
    pub path: Option<&'a str>,
}

pub struct Authorizer {
    store: Arc<dyn Store>,
    follower: Follower,
    policy: ArcSwap<Policy>,
}

impl Authorizer {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Authorizer {
            follower: Follower::new(store.clone(), PREFIXES),
            store,
            policy: ArcSwap::from_pointee(Policy::default()),
        }
    }

    pub async fn policy(&self) -> Arc<Policy> {
        self.follower.follow(|| self.rebuild()).await;
        self.policy.load_full()
    }

    async fn rebuild(&self) {
        let mut lists = Vec::new();
        for prefix in PREFIXES {
            let page = self.store.range(Range::prefix(*prefix).cached()).await;
            let values: Vec<Value> =
                page.map(|p| p.entries.iter().map(|e| codec::decode(&e.value)).collect()).unwrap_or_default();
            lists.push(values);
        }
        self.policy.store(Arc::new(Policy::build(&lists[0], &lists[1], &lists[2], &lists[3])));
    }

    pub async fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        if user.is_in(MASTERS) {
            return true;
        }
        if let Some(node) = user.node()
            && node::allows(self.store.as_ref(), node, attributes).await
        {
            return true;
        }
        self.policy().await.allows(user, attributes)
    }

    pub async fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), Status> {
        if self.allows(user, attributes).await { Ok(()) } else { Err(forbidden(user, attributes)) }
    }
}

pub fn forbidden(user: &User, attributes: &Attributes<'_>) -> Status {
    let Attributes { verb, group, resource, subresource, namespace, name, path, .. } = attributes;
    if let Some(path) = path {
        let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
        return Status::new(403, "Forbidden", message).with_details(serde_json::json!({}));
    }
    let whole = if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
    let place = match (namespace.is_empty(), name.is_empty()) {
        (true, _) => " at the cluster scope".to_owned(),
        (false, _) => format!(" in the namespace {namespace:?}"),
    };
    let object = if name.is_empty() { String::new() } else { format!(" {name:?}") };
    let message = format!(
        "{}{object} is forbidden: User {:?} cannot {verb} resource {whole:?} in API group {group:?}{place}",
        qualified_resource(group, resource),
        user.name
    );
    Status::new(403, "Forbidden", message).with_details(pintle_meta::status::about(name, group, resource))
}
