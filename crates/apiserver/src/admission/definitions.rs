//! Nothing new of a kind whose definition is going: its objects are being removed.

use super::{Operation, Plugin, Review};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

pub struct Definitions;

impl Plugin for Definitions {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Create && review.resource.terminating
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        let why = "create not allowed while custom resource definition is terminating";
        Box::pin(std::future::ready(Err(review.forbidden(object::name(object), why))))
    }
}
