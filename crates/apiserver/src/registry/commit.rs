//! The last step of a write: one transaction that holds everything that must be true at that moment.

use super::draft::{Draft, Stored, Write};
use super::error::{About, Error};
use super::{Facets, Registry, Written, metadata};
use crate::causes::Commit;
use crate::causes::record::Effect;
use crate::codec;
use crate::fence::Fence;
use pintle_meta::{Status, object};
use pintle_schema::apply::same_managers_but_for_times;
use pintle_schema::diff::Diff;
use pintle_store::{CommitError, Committed, Durability, Entry, Expect, Op, Splice, Txn};
use serde_json::Value;
use std::sync::Arc;

/// How often a generated name, or another address, is tried again when it is taken.
const NAME_TRIES: usize = 8;
const CLAIM_TRIES: usize = 256;

impl Write<'_> {
    /// Nothing when somebody else wrote in between.
    pub(super) async fn commit(&self, draft: Draft<'_>) -> Result<Option<Written>, Error> {
        match draft.old {
            None => self.commit_new(draft).await,
            Some(old) => self.commit_changed(draft, old).await,
        }
    }

    async fn commit_new(&self, mut draft: Draft<'_>) -> Result<Option<Written>, Error> {
        let sent = std::mem::take(&mut draft.sent_version);
        if self.dry_run {
            if !sent.is_empty() {
                object::metadata(&mut draft.object).insert("resourceVersion".into(), sent.into());
            }
            let name = object::name(&draft.object);
            let key = self.resource.key(self.call.namespace(), name);
            return match self.registry.store.get(&key).await.map_err(super::read_error)? {
                Some(_) => Err(Error::AlreadyExists(About::new(&self.resource, name))),
                None => Ok(Some(Written::Shown(draft.object))),
            };
        }
        // The last thing that is looked at, and no matter for a dry run: so it is upstream, down to the code.
        if sent.parse::<u64>().is_ok_and(|version| version != 0) {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created").into());
        }
        self.store(&mut draft, None).await
    }

    async fn commit_changed(&self, mut draft: Draft<'_>, old: &Stored) -> Result<Option<Written>, Error> {
        if draft.diff.is_empty() && same_managers_but_for_times(&old.value, &draft.object) {
            return Ok(Some(Written::Stored(old.entry.clone())));
        }
        if self.dry_run {
            return Ok(Some(Written::Shown(draft.object)));
        }
        // The last finalizer of an object that is being deleted is gone, and so is the object.
        let finished = object::is_being_deleted(&draft.object)
            && object::finalizers(&draft.object).next().is_none()
            && object::integer(&draft.object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
            && self.resource.strategy.is_deletable(&draft.object);
        if finished {
            // What is given back is what the old object held: the new one names what it likes.
            return Ok(self.remove(old).await?.then_some(Written::Shown(draft.object)));
        }
        self.store(&mut draft, Some(old)).await
    }

    /// Writes the object, with what it alone may hold. Nothing when somebody else wrote in between.
    async fn store(&self, draft: &mut Draft<'_>, old: Option<&Stored>) -> Result<Option<Written>, Error> {
        let (registry, resource) = (self.registry, &self.resource);
        let held = old.map(|old| resource.strategy.claims(&old.value)).unwrap_or_default();
        for attempt in 1..=CLAIM_TRIES {
            let name = object::name(&draft.object).to_owned();
            let key: Arc<str> = resource.key(self.call.namespace(), &name).into();
            let holds = resource.strategy.claims(&draft.object);
            let mut txn = Txn::default();
            // The object first among what is written, and last among what is checked: an address that is taken is heard of
            // before a name.
            let lives = registry.expiry(resource, &draft.object);
            let expires_at = old.map_or(lives, |old| old.entry.expires_at.and(lives));
            // What selectors look at goes along: the store asks for it at once if the kind is watched by an index.
            let value = self.encoded(&draft.object).await?;
            txn.ops.push(Op::Put { key: key.clone(), value, expires_at });
            for claim in holds.iter().filter(|claim| !held.contains(claim)) {
                registry.claim(&mut txn, claim, &key);
                let shown = resource.strategy.shown_claim(&draft.object, claim);
                if let Some(at) = shown.and_then(|shown| registry.show(&mut txn, shown)) {
                    txn.checks.push((at, Expect::Absent));
                }
            }
            held.iter().filter(|claim| !holds.contains(claim)).for_each(|claim| release(&mut txn, claim));
            let expected = old.map_or(Expect::Absent, |old| Expect::Revision(old.entry.mod_revision));
            txn.checks.push((key.clone(), expected));
            let conditions = draft.conditions.checks();
            txn.checks.extend(conditions.iter().map(|(key, revision)| (key.clone(), Expect::Revision(*revision))));
            txn.ops.extend(draft.conditions.writes());
            match self.transact(txn).await? {
                Ok(committed) => {
                    let effect = Effect::of(old.map(|old| &old.value), &draft.object);
                    self.note(effect, &draft.object, &draft.diff, committed.revision);
                    return Ok(Some(Written::Stored(first(committed)?)));
                }
                Err(CommitError::Conflict { key: at, .. }) if conditions.iter().any(|(key, _)| *key == at) => {
                    return Ok(None);
                }
                Err(CommitError::Conflict { key: at, .. }) if at == key && old.is_some() => return Ok(None),
                Err(CommitError::Conflict { key: at, .. }) if at == key => {
                    if !draft.generated || attempt >= NAME_TRIES {
                        return Err(Error::AlreadyExists(About::new(resource, &name)));
                    }
                    metadata::rename(&registry.random, &mut draft.object);
                }
                // An address that was chosen for the object was taken in between: choose another.
                Err(CommitError::Conflict { key: taken, .. }) => {
                    let taken = crate::keys::claim_shown_by(&taken).map_or(taken, Into::into);
                    if attempt >= CLAIM_TRIES || draft.asked.iter().any(|claim| **claim == *taken) {
                        let error = resource.strategy.claim_error(&draft.object, &taken);
                        return Err(Error::Invalid(About::new(resource, &name), vec![error]));
                    }
                    resource.strategy.reassign(&mut draft.object, &taken);
                }
                Err(error) => return Err(commit_error(error).into()),
            }
        }
        Err(Status::internal("no free name found").into())
    }

    /// The bytes that are stored, with what selectors look at.
    async fn encoded(&self, object: &Value) -> Result<Splice, Error> {
        let (registry, resource) = (self.registry, &self.resource);
        if resource.converter().is_none() {
            return Ok(codec::encode(object).deriving(Facets::of(resource, object)));
        }
        let stored = registry.convert_one(resource, &resource.stored_api_version, object.clone()).await?;
        Ok(codec::encode(&stored).deriving(Facets::of(resource, &stored)))
    }

    /// Writes the mark of a deletion. Nothing when somebody else wrote in between.
    pub(super) async fn mark(&self, old: &Stored, marked: &Value) -> Result<Option<Arc<Entry>>, Error> {
        let key = &old.entry.key;
        let value = codec::encode(marked).deriving(Facets::of(&self.resource, marked));
        let put = Op::Put { key: key.clone(), value, expires_at: old.entry.expires_at };
        let checks = vec![(key.clone(), Expect::Revision(old.entry.mod_revision))];
        match self.transact(Txn { checks, ops: vec![put], ..Txn::default() }).await? {
            Ok(committed) => {
                let effect = Effect::of(Some(&old.value), marked);
                self.note(effect, marked, &Diff::of(&old.value, marked), committed.revision);
                Ok(Some(first(committed)?))
            }
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(error) => Err(commit_error(error).into()),
        }
    }

    /// Takes an object out of the store; false when somebody else wrote in between.
    pub(super) async fn remove(&self, old: &Stored) -> Result<bool, Error> {
        let key = &old.entry.key;
        let checks = vec![(key.clone(), Expect::Revision(old.entry.mod_revision))];
        let mut txn = Txn { checks, ops: vec![Op::Delete { key: key.clone() }], ..Txn::default() };
        self.resource.strategy.claims(&old.value).iter().for_each(|claim| release(&mut txn, claim));
        match self.transact(txn).await? {
            Ok(committed) => {
                self.note(Effect::Deleted, &old.value, &Diff::default(), committed.revision);
                Ok(true)
            }
            Err(CommitError::Conflict { .. }) => Ok(false),
            Err(error) => Err(commit_error(error).into()),
        }
    }

    async fn transact(&self, mut txn: Txn) -> Result<Result<Committed, CommitError>, Error> {
        if self.resource.strategy.is_ephemeral() {
            txn.durability = Durability::Relaxed;
        }
        Ok(match Fence::of(self.call)? {
            Some(fence) => fence.commit(self.registry, txn).await?,
            None => self.registry.store.commit(txn).await,
        })
    }

    fn note(&self, effect: Effect, object: &Value, diff: &Diff, revision: u64) {
        let (call, resource, manager) = (self.call, &*self.resource, self.manager.as_str());
        let now = self.registry.clock.now();
        self.registry.causes.note(&Commit { call, resource, manager, effect, object, diff, revision, now });
    }
}

/// What was written first: the object itself.
fn first(committed: Committed) -> Result<Arc<Entry>, Status> {
    committed.entries.into_iter().next().flatten().ok_or_else(|| Status::internal("nothing stored"))
}

impl Registry {
    /// Adds to a transaction that `key` alone holds `claim`.
    pub(crate) fn claim(&self, txn: &mut Txn, claim: &str, key: &str) {
        let claim: Arc<str> = claim.into();
        txn.checks.push((claim.clone(), Expect::Absent));
        txn.ops.push(Op::Put { key: claim, value: Splice::plain(key.as_bytes().to_vec()), expires_at: None });
    }

    /// Adds to a transaction the object that shows who holds a claim. Answers with its key.
    pub(crate) fn show(&self, txn: &mut Txn, mut shown: Value) -> Option<Arc<str>> {
        let catalogue = self.catalogue.latest();
        let resource = catalogue.get("networking.k8s.io", "v1", "ipaddresses")?;
        self.dress_new(resource, &mut shown);
        let key: Arc<str> = resource.key("", object::name(&shown)).into();
        txn.ops.push(Op::Put { key: key.clone(), value: codec::encode(&shown), expires_at: None });
        Some(key)
    }
}

/// Gives a claim back, with what showed it.
fn release(txn: &mut Txn, claim: &str) {
    txn.ops.push(Op::Delete { key: claim.into() });
    txn.ops.extend(crate::keys::shown_claim(claim).map(|key| Op::Delete { key: key.into() }));
}

fn commit_error(error: CommitError) -> Status {
    let message = error.to_string();
    match error {
        CommitError::TooLarge { .. } => Status::too_large(message),
        CommitError::Unavailable { .. } => Status::new(504, "Timeout", message),
        CommitError::Conflict { .. } | CommitError::Stopped { .. } => Status::unavailable(message),
    }
}
