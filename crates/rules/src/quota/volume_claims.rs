//! What a PersistentVolumeClaim counts for: itself and its storage, also apart for each storage class.

use crate::Amounts;
use crate::quota::scopes::attributes_classes;
use crate::resources::STORAGE;
use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use serde_json::Value;

const CLAIMS: &str = "persistentvolumeclaims";
const REQUESTED: &str = "requests.storage";
/// Between the name of a storage class and what is counted of it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Where a claim had its storage class before it was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn counts(name: &str) -> bool {
    let of_class = |counted: &str| name.strip_suffix(counted).is_some_and(|class| class.ends_with(OF_CLASS));
    [CLAIMS, REQUESTED].iter().any(|counted| name == *counted || of_class(counted))
}

pub(super) fn usage(claim: &Value) -> Amounts {
    let class = storage_class_of(claim);
    let mut usage = Amounts::default();
    let mut charge = |name: &str, amount: Quantity| {
        usage.set(name, amount);
        if !class.is_empty() {
            usage.set(format!("{class}{OF_CLASS}{name}"), amount);
        }
    };
    charge(CLAIMS, Quantity::from_units(1));
    if let Some(amount) = storage(claim) {
        charge(REQUESTED, amount);
    }
    usage
}

/// Does the new status hold more or other storage?
pub(super) fn status_counts(claim: &Value, old: &Value) -> bool {
    let allocated = |claim| object::at(claim, &["status", "allocatedResources", STORAGE]);
    allocated(claim) != allocated(old) || attributes_classes(claim) != attributes_classes(old)
}

/// The storage class that a claim names.
pub fn storage_class_of(claim: &Value) -> &str {
    match object::text(claim, &["metadata", "annotations", CLASS_ANNOTATION]) {
        "" => object::text(claim, &["spec", "storageClassName"]),
        class => class,
    }
}

/// In whole bytes. An expansion that was granted counts until it is taken back.
fn storage(claim: &Value) -> Option<Quantity> {
    let amount = |path: &[&str]| Amounts::of(object::at(claim, path)).get(STORAGE);
    let requested = amount(&["spec", "resources", "requests"])?;
    let allocated = amount(&["status", "allocatedResources"]);
    Some(allocated.map_or(requested, |allocated| allocated.max(requested)).rounded_up())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_counts_for_its_storage_class_too() {
        let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1500m"}}}});
        assert_eq!(
            usage(&claim).to_string(),
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=2,\
             persistentvolumeclaims=1,requests.storage=2"
        );
        for name in ["gold.storageclass.storage.k8s.io/requests.storage", "requests.storage"] {
            assert!(counts(name), "{name}");
        }
        assert!(!counts("goldrequests.storage") && !counts("count/persistentvolumeclaims"));
    }

    #[test]
    fn an_expansion_that_was_granted_counts() {
        let mut claim = json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}}});
        let old = claim.clone();
        claim["status"] = json!({"allocatedResources": {"storage": "2Gi"}});
        assert_eq!(usage(&claim).get(REQUESTED).unwrap().to_string(), "2Gi");
        assert!(status_counts(&claim, &old) && !status_counts(&claim, &claim));
    }
}
