//! OwnerReferencesPermissionEnforcement, off unless asked for: nobody hangs an object that they may not delete on an owner, and
//! nobody keeps an owner from being deleted whose finalizers they may not change.

use super::{Operation, Plugin, Review};
use crate::call::Call;
use crate::catalogue::Catalogue;
use crate::request::ResourcePath;
use crate::verb::Verb;
use futures::future::BoxFuture;
use pintle_meta::names::split_api_version;
use pintle_meta::{Status, object};
use serde_json::Value;

pub struct Owners;

impl Plugin for Owners {
    fn concerns(&self, review: &Review<'_>) -> bool {
        // A binding and the node's word on its Pod name no owners.
        let is_status = review.is_of("", "pods", "status");
        matches!(review.operation, Operation::Create | Operation::Update) && !is_status
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match object {
                Some(object) if owners(object) != review.old.map_or(&[][..], owners) => check(review, object).await,
                _ => Ok(()),
            }
        })
    }
}

fn owners(object: &Value) -> &[Value] {
    object::list(object, &["metadata", "ownerReferences"])
}

async fn check(review: &Review<'_>, object: &Value) -> Result<(), Status> {
    let refused = |why: &str| Err(review.forbidden(object::name(object), why));
    let may = async |verb: Verb, path: ResourcePath| {
        review.authorizer().allows(&Call::asks(review.call.user.clone(), verb, path)).await
    };
    // Who creates an object could also have left it.
    if review.operation != Operation::Create && !may(Verb::Delete, review.call.path.clone()).await {
        return refused("cannot set an ownerRef on a resource you can't delete: , <nil>");
    }
    let blocking: Vec<&Value> = newly_blocking(object, review.old).collect();
    let word = || "*".to_owned();
    let any = ResourcePath {
        group: word(),
        version: word(),
        resource: word(),
        name: word(),
        subresource: "finalizers".to_owned(),
        ..ResourcePath::default()
    };
    if blocking.is_empty() || may(Verb::Update, any).await {
        return Ok(());
    }
    let catalogue = review.registry.catalogue.latest();
    for owner in blocking {
        let paths = finalizers(&catalogue, owner, review.call.namespace());
        if paths.is_empty() {
            let (version, kind) = (object::text(owner, &["apiVersion"]), object::kind(owner));
            return refused(&format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}: no matches for kind {kind:?} in version {version:?}"
            ));
        }
        for path in paths {
            if !may(Verb::Update, path).await {
                return refused(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
                );
            }
        }
    }
    Ok(())
}

/// Owners that cannot go before this object from now on.
fn newly_blocking<'a>(object: &'a Value, old: Option<&'a Value>) -> impl Iterator<Item = &'a Value> {
    let blocks = |owner: &Value| object::flag(owner, &["blockOwnerDeletion"]);
    let blocked = move |owner: &Value| {
        let mut before = old.map_or(&[][..], owners).iter();
        before.any(|known| known["uid"] == owner["uid"] && blocks(known))
    };
    owners(object).iter().filter(move |owner| blocks(owner) && !blocked(owner))
}

/// The finalizers of an owner, for every resource that its kind may be.
fn finalizers(catalogue: &Catalogue, owner: &Value, namespace: &str) -> Vec<ResourcePath> {
    let (group, version) = split_api_version(object::text(owner, &["apiVersion"]));
    let of_kind = catalogue.of_group_version(group, version).filter(|resource| resource.kind == object::kind(owner));
    let path = of_kind.map(|resource| ResourcePath {
        group: resource.group.clone(),
        version: resource.version.clone(),
        resource: resource.name.clone(),
        subresource: "finalizers".to_owned(),
        name: object::text(owner, &["name"]).to_owned(),
        namespace: if resource.namespaced { namespace.to_owned() } else { String::new() },
        ..ResourcePath::default()
    });
    path.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_newly_keeps_an_owner_from_going_needs_a_right_on_it() {
        let owner = |uid: &str, blocks: bool| json!({"uid": uid, "blockOwnerDeletion": blocks});
        let of = |owners: &[Value]| json!({"metadata": {"ownerReferences": owners}});
        let count = |new: &[Value], old: Option<&[Value]>| {
            let old = old.map(of);
            newly_blocking(&of(new), old.as_ref()).count()
        };
        assert_eq!(count(&[owner("a", true), owner("b", false)], None), 1);
        assert_eq!(count(&[owner("a", true)], Some(&[owner("a", true)])), 0);
        assert_eq!(count(&[owner("a", true)], Some(&[owner("a", false)])), 1);
        assert_eq!(count(&[owner("a", false)], Some(&[])), 0);
    }

    #[test]
    fn the_finalizers_are_those_of_the_owner_in_its_own_scope() {
        let catalogue = Catalogue::default();
        let owner = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "name": "o"});
        let [path] = &finalizers(&catalogue, &owner("apps/v1", "ReplicaSet"), "shop")[..] else { panic!("one") };
        assert_eq!((path.resource.as_str(), path.namespace.as_str(), path.name.as_str()), ("replicasets", "shop", "o"));
        let [path] = &finalizers(&catalogue, &owner("v1", "Node"), "shop")[..] else { panic!("one") };
        assert_eq!((path.resource.as_str(), path.namespace.as_str()), ("nodes", ""));
        assert!(finalizers(&catalogue, &owner("v1", "Nonsense"), "shop").is_empty());
    }
}
