//! A claim grows only when it has its volume and its storage class allows it.

use super::{Operation, Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use pintle_rules::Amounts;
use pintle_rules::quota::storage_class_of;
use pintle_rules::resources::STORAGE;
use serde_json::Value;

pub struct VolumeExpansion;

impl Plugin for VolumeExpansion {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Update && review.is_of("", "persistentvolumeclaims", "")
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, claim: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let (Some(claim), Some(old)) = (claim, review.old) else { return Ok(()) };
            if !grows(claim, old) {
                return Ok(());
            }
            if object::text(old, &["status", "phase"]) != "Bound" {
                let why = "Only bound persistent volume claims can be expanded";
                return Err(review.forbidden(object::name(claim), why));
            }
            let class = storage_class_of(claim);
            let allowed = match class {
                "" => false,
                class if class != storage_class_of(old) => false,
                class => {
                    let found = review.read(&keys::named(keys::STORAGE_CLASSES, class)).await?;
                    found.is_some_and(|class| object::flag(&class, &["allowVolumeExpansion"]))
                }
            };
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
            if allowed { Ok(()) } else { Err(review.forbidden(object::name(claim), why)) }
        })
    }
}

fn grows(claim: &Value, old: &Value) -> bool {
    let size = |claim| Amounts::of(object::at(claim, &["spec", "resources", "requests"])).get(STORAGE);
    size(claim).is_some_and(|new| size(old).is_none_or(|old| new > old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_more_storage_is_growth() {
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        assert!(grows(&claim("2Gi"), &claim("1Gi")));
        assert!(!grows(&claim("1024Mi"), &claim("1Gi")) && !grows(&claim("1Mi"), &claim("1Gi")));
    }
}
