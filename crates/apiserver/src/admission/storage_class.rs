//! A claim that names no storage class gets the cluster's default one.

use super::ingress_class::newest_default;
use super::{Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub struct StorageClass;

impl Plugin for StorageClass {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("", "persistentvolumeclaims")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, claim: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(choose(review, claim))
    }
}

async fn choose(review: &Review<'_>, claim: &mut Value) -> Result<(), Status> {
    if object::at(claim, &["spec", "storageClassName"]).is_some() {
        return Ok(());
    }
    let classes = review.list(keys::STORAGE_CLASSES).await?;
    let newest = newest_default(&classes, DEFAULT);
    if let Some(class) = newest {
        object::map_at(claim, "spec").insert("storageClassName".into(), object::name(class).into());
    }
    Ok(())
}
