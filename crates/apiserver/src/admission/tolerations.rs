//! Every Pod stays a while on a node that fails. An update gets the tolerations too: a list that a client writes anew need not
//! repeat them.

use super::{Operation, Plugin, Review};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Value, json};

/// How long.
const TOLERATION_SECONDS: i64 = 300;

pub struct Tolerations;

impl Plugin for Tolerations {
    fn concerns(&self, review: &Review<'_>) -> bool {
        matches!(review.operation, Operation::Create | Operation::Update) && review.is_of("", "pods", "")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, _: &'a Review<'a>, pod: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        tolerate(pod);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn tolerate(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = object::list(pod, &["spec", "tolerations"]).iter().any(|t| {
            let (k, effect) = (object::text(t, &["key"]), object::text(t, &["effect"]));
            (k == key || k.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if tolerated {
            continue;
        }
        let tolerations = object::map_at(pod, "spec").entry("tolerations").or_insert_with(|| json!([]));
        if let Some(tolerations) = tolerations.as_array_mut() {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}));
        }
    }
}
