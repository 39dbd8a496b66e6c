//! A new object: named, stamped, checked, stored.

use super::{Facets, Registry, Write, Written, commit_error, metadata};
use crate::admission::Operation as Admitted;
use crate::codec;
use pintle_meta::{Status, object};
use pintle_schema::apply::{Operation, track_update};
use pintle_store::{CommitError, Expect, Op, Txn};
use serde_json::Value;
use std::sync::Arc;

/// How often a generated name is tried again when it is taken.
const NAME_TRIES: usize = 8;
/// How often another address is tried when the chosen one is taken.
pub(super) const CLAIM_TRIES: usize = 256;

impl Registry {
    /// Stores `object`, which is decoded, defaulted and in the version that is stored.
    pub async fn create(
        &self,
        write: &Write<'_>,
        object: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Written, Status> {
        self.create_tracked(write, object, true, warnings).await
    }

    /// The same; an applied object brings its own record of who owns what.
    pub async fn create_tracked(
        &self,
        write: &Write<'_>,
        mut object: Value,
        track: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Written, Status> {
        let resource = write.resource;
        let sent_version = object::resource_version(&object).to_owned();
        metadata::place(write, &mut object)?;
        let generated = metadata::name_new(&self.random, &mut object);
        if track {
            let (version, now) = (write.api_version(), self.clock.now_rfc3339());
            let manager = write.manager(&version, &now, Operation::Update);
            track_update(resource.schema(), None, &mut object, &manager, write.reset_fields());
        }
        self.admission.admit(self, write, Admitted::Create, None, &mut object).await?;
        metadata::stamp_new(self, resource, &mut object);
        if resource.has_status() && !resource.strategy.creates_with_status() {
            object::remove(&mut object, &["status"]);
        }
        let asked = resource.strategy.claims(&object);
        resource.strategy.prepare_create(&mut object);
        let mut errors = Vec::new();
        metadata::validate(resource, &object, &mut errors);
        resource.check(&object, &mut errors);
        resource.strategy.validate_create(&object, &mut errors);
        let name = object::name(&object).to_owned();
        if !errors.is_empty() {
            return Err(Status::invalid(&resource.group, &resource.kind, &name, &errors));
        }
        self.admission.validate(write, Admitted::Create, None, &object).await?;
        warnings.extend(resource.strategy.warnings(&object));
        let no_effect = self.no_effect(write, &object, None);
        pintle_schema::decode::complete(resource.schema(), &mut object);
        codec::check_nesting(&object)?;
        if write.dry_run {
            if !sent_version.is_empty() {
                object::metadata(&mut object).insert("resourceVersion".into(), sent_version.into());
            }
            let shown = self.create_dry(write, object).await?;
            warnings.extend(no_effect);
            return Ok(shown);
        }
        // The last thing that is looked at, and no matter for a dry run: so it is upstream, down to the code.
        if sent_version.parse::<u64>().is_ok_and(|version| version != 0) {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let stored = self.store_new(write, object, generated, &asked).await?;
        warnings.extend(no_effect);
        Ok(stored)
    }

    /// What the server alone adds to a new object that needs no checks.
    pub(crate) fn dress_new(&self, write: &Write<'_>, object: &mut Value) {
        metadata::stamp_new(self, write.resource, object);
        write.resource.strategy.prepare_create(object);
        pintle_schema::decode::complete(write.resource.schema(), object);
    }

    async fn create_dry(&self, write: &Write<'_>, object: Value) -> Result<Written, Status> {
        let resource = write.resource;
        let name = object::name(&object);
        match self.store.get(&resource.key(write.namespace, name)).await.map_err(super::read_error)? {
            Some(_) => Err(Status::already_exists(&resource.group, &resource.name, name)),
            None => Ok(Written::Shown(object)),
        }
    }

    /// `asked` are the claims that the user made; others were chosen and may be chosen again.
    async fn store_new(
        &self,
        write: &Write<'_>,
        mut object: Value,
        generated: bool,
        asked: &[String],
    ) -> Result<Written, Status> {
        let resource = write.resource;
        for attempt in 1.. {
            let name = object::name(&object).to_owned();
            let key: Arc<str> = resource.key(write.namespace, &name).into();
            let mut txn = Txn {
                checks: vec![(key.clone(), Expect::Absent)],
                ops: vec![Op::Put {
                    key: key.clone(),
                    value: codec::encode(&object),
                    expires_at: self.expiry(resource, &object),
                }],
                ..Txn::default()
            };
            for claim in resource.strategy.claims(&object) {
                self.claim(&mut txn, &claim, &key);
            }
            // An address that is taken is the first thing to hear of: a name comes after.
            txn.checks.rotate_left(1);
            match self.commit(write, None, Some(&object), txn).await? {
                Ok(committed) => {
                    let entry = committed
                        .entries
                        .into_iter()
                        .flatten()
                        .next()
                        .ok_or_else(|| Status::internal("nothing stored"))?;
                    entry.derive(|_| Facets::of(resource, &object));
                    return Ok(Written::Stored(entry));
                }
                Err(CommitError::Conflict { key: taken, .. }) if *taken != *key => {
                    // An address that was chosen for the object was taken in between: choose another.
                    if attempt >= CLAIM_TRIES || asked.iter().any(|claim| **claim == *taken) {
                        return Err(claimed(resource, &object, &taken));
                    }
                    resource.strategy.reassign(&mut object, &taken);
                }
                Err(CommitError::Conflict { .. }) if generated && attempt < NAME_TRIES => {
                    metadata::rename(&self.random, &mut object);
                }
                Err(CommitError::Conflict { .. }) => {
                    return Err(Status::already_exists(&resource.group, &resource.name, &name));
                }
                Err(error) => return Err(commit_error(error)),
            }
        }
        Err(Status::internal("no free name found"))
    }

    /// Adds to a transaction that `key` alone holds `claim`.
    pub(crate) fn claim(&self, txn: &mut Txn, claim: &str, key: &str) {
        let claim: Arc<str> = claim.into();
        txn.checks.push((claim.clone(), Expect::Absent));
        txn.ops.push(Op::Put {
            key: claim,
            value: pintle_store::Splice::plain(key.as_bytes().to_vec()),
            expires_at: None,
        });
    }
}

pub(super) fn claimed(resource: &crate::catalogue::Resource, object: &Value, claim: &str) -> Status {
    let error = resource.strategy.claim_error(object, claim);
    Status::invalid(&resource.group, &resource.kind, object::name(object), &[error])
}
