//! ResourceQuota: what a namespace may have of everything.
//!
//! - A write is charged in its own transaction: the object and the quota's new `status.used` are committed together or not at
//!   all, so a quota is never exceeded and never charged for what was not written.
//! - The transaction expects the quota as it was read. So that many writes at once do not fail each other, those of one
//!   namespace take turns from here to their commit.
//! - The quota loop gives back what is freed, and counts what a new quota finds.

mod charge;

use super::{Operation, Plugin, Review};
use crate::codec;
use crate::keys;
use crate::registry::read_error;
use charge::{Charge, charges};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use pintle_rules::quota::{Evaluator, Write};
use pintle_store::{Entry, Range};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[derive(Default)]
pub struct Quota {
    turns: Turns,
}

impl Plugin for Quota {
    fn concerns(&self, review: &Review<'_>) -> bool {
        let writes = matches!(review.operation, Operation::Create | Operation::Update) && review.conditions.is_some();
        writes && review.resource.namespaced
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match object {
                Some(object) => self.charge(review, object).await,
                None => Ok(()),
            }
        })
    }
}

impl Quota {
    async fn charge(&self, review: &Review<'_>, object: &Value) -> Result<(), Status> {
        let Some(evaluator) = Evaluator::of(&review.resource.group, &review.resource.name) else { return Ok(()) };
        let write = Write { subresource: &review.call.path.subresource, object, old: review.old };
        let (namespace, Some(conditions)) = (review.call.namespace(), review.conditions) else { return Ok(()) };
        if !evaluator.handles(write) || quotas(review, namespace).await?.is_empty() {
            return Ok(());
        }
        let turn = self.turns.of(namespace).lock_owned().await;
        let entries = quotas(review, namespace).await?;
        let quotas: Vec<Value> = entries.iter().map(|entry| codec::decode(&entry.value)).collect();
        let charges = charges(&quotas, &evaluator, write, review.registry.clock.now());
        let charges = charges.map_err(|why| review.forbidden(object::name(object), &why))?;
        if charges.is_empty() {
            return Ok(());
        }
        for (position, charge) in charges {
            let (entry, mut quota) = (&entries[position], quotas[position].clone());
            if let Charge::Used(used) = charge {
                object::set(&mut quota, &["status", "used"], used.to_value());
            }
            conditions.write(entry.key.clone(), entry.mod_revision, codec::encode(&quota));
        }
        conditions.hold(turn);
        Ok(())
    }
}

async fn quotas(review: &Review<'_>, namespace: &str) -> Result<Vec<Arc<Entry>>, Status> {
    let range = Range::prefix(keys::namespace(keys::RESOURCE_QUOTAS, namespace));
    Ok(review.registry.store.range(range).await.map_err(read_error)?.entries)
}

/// One lock for each namespace in which a write is being charged.
#[derive(Default)]
struct Turns(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    fn of(&self, namespace: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = all.get(namespace).and_then(Weak::upgrade) {
            return turn;
        }
        all.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        all.insert(namespace.to_owned(), Arc::downgrade(&turn));
        turn
    }
}
