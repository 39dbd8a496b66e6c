//! An Ingress that names no class gets the cluster's default one.

use super::{Plugin, Review};
use crate::keys;
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// Where an Ingress had its class before it was a field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub struct IngressClass;

impl Plugin for IngressClass {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("networking.k8s.io", "ingresses")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, ingress: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let named = object::at(ingress, &["spec", "ingressClassName"]).is_some_and(|name| !name.is_null());
            if named || object::at(ingress, &["metadata", "annotations", CLASS_ANNOTATION]).is_some() {
                return Ok(());
            }
            let classes = review.list(keys::INGRESS_CLASSES).await?;
            if let Some(class) = newest_default(&classes, DEFAULT) {
                object::set(ingress, &["spec", "ingressClassName"], object::name(class));
            }
            Ok(())
        })
    }
}

/// The class that is marked as the default; of several the newest, then the first by name.
pub(super) fn newest_default<'a>(classes: &'a [Value], mark: &str) -> Option<&'a Value> {
    let marked = classes.iter().filter(|class| object::text(class, &["metadata", "annotations", mark]) == "true");
    marked.max_by(|a, b| {
        let created = |class: &'a Value| object::text(class, &["metadata", "creationTimestamp"]);
        created(a).cmp(created(b)).then_with(|| object::name(b).cmp(object::name(a)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_several_defaults_the_newest_counts() {
        let class = |name: &str, created: &str, mark: &str| json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {DEFAULT: mark}}});
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("a", "2026-01-02T00:00:00Z", "true"),
            class("newest", "2026-01-03T00:00:00Z", "false"),
        ];
        assert_eq!(newest_default(&classes, DEFAULT).map(object::name), Some("a"));
        assert_eq!(newest_default(&[], DEFAULT), None);
    }
}
