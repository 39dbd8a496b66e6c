//! Every step of a write, in order. Every object that a client sends comes into the store this way; deletions have a way of
//! their own (`delete`), and so have the first objects of a cluster.
//!
//! ```text
//! decode → convert → default → place → mutate → prepare → validate → encode → commit
//! ```
//!
//! - The first three make an object of what a client sent; a patch needs the stored object for that, so they run in the
//!   `change` that a verb hands in ([`crate::incoming`]).
//! - A write is a read, a change and a compare-and-set. When somebody else wrote in between, a change that names no
//!   resourceVersion is made again on the newer object, with all its steps; one that does is answered with a conflict.
//! - An admission plugin that takes in what others wrote hands it through [`crate::incoming::complete`]: it is decoded and
//!   defaulted again, as if it had come in that way, and all later steps follow.

use super::draft::{Change, Draft, Stored, Write};
use super::error::{About, Error};
use super::{Registry, Written};
use crate::admission::{Conditions, Operation, Review};
use crate::call::Call;
use crate::codec;
use crate::notes::Notes;
use pintle_meta::{Status, object};
use serde_json::Value;

/// How often a change without a resourceVersion is made again on a newer object.
const TRIES: usize = 16;

impl Registry {
    /// Stores a new object. `make` has it decoded, defaulted and in the version that is stored; it runs again if what admission
    /// rested on has changed.
    pub async fn create(
        &self,
        call: &Call,
        notes: &Notes,
        mut make: impl FnMut() -> Result<Value, Status> + Send,
    ) -> Result<Written, Error> {
        let write = Write::new(self, call, notes)?;
        let mark = notes.mark();
        for _ in 0..TRIES {
            notes.rewind(mark);
            if let Some(written) = write.pass(None, Change::new(make()?)).await? {
                return Ok(written);
            }
        }
        Err(Error::Modified(About::new(&write.resource, &call.path.name)))
    }

    /// Changes the object that the call names. `change` sees it (none: the answer may create it) and may run several times.
    /// Answers whether it was created.
    pub async fn update(
        &self,
        call: &Call,
        notes: &Notes,
        mut change: impl FnMut(Option<&Value>) -> Result<Change, Status> + Send,
    ) -> Result<(Written, bool), Error> {
        let write = Write::new(self, call, notes)?;
        let name = &call.path.name;
        let mark = notes.mark();
        for _ in 0..TRIES {
            notes.rewind(mark);
            let old = write.read(name).await?;
            let mut changed = change(old.as_ref().map(|old| &old.value))?;
            let created = old.is_none();
            if created {
                object::remove(&mut changed.object, &["metadata", "resourceVersion"]);
            }
            match write.pass(old.as_ref(), changed).await {
                Ok(Some(written)) => return Ok((written, created)),
                Ok(None) => {}
                Err(Error::AlreadyExists(_)) if created => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Modified(About::new(&write.resource, name)))
    }
}

impl<'a> Write<'a> {
    pub(super) fn new(registry: &'a Registry, call: &'a Call, notes: &'a Notes) -> Result<Self, Error> {
        let asked = call.resource()?;
        let resource = registry.stored_resource(asked);
        let spoken = if asked.custom { asked.clone() } else { resource.clone() };
        Ok(Write { registry, call, notes, resource, spoken, manager: call.manager()?, dry_run: call.dry_run()? })
    }

    async fn read(&self, name: &str) -> Result<Option<Stored>, Error> {
        let key = self.resource.key(self.call.namespace(), name);
        let Some(entry) = self.registry.store.get(&key).await.map_err(super::read_error)? else { return Ok(None) };
        let shown = self.registry.entry_in(&self.resource, entry.clone()).await?;
        let mut value = codec::decode_whole(&shown.value)?;
        // What clients read is what they change: with the defaults that its definition has got since.
        if self.resource.may_lack_defaults(entry.mod_revision) {
            self.resource.default(&mut value)?;
        }
        Ok(Some(Stored { value, entry }))
    }

    /// One try; nothing when somebody else wrote in between.
    async fn pass(&self, old: Option<&Stored>, change: Change) -> Result<Option<Written>, Error> {
        let mut draft = Draft::new(old, change);
        self.place(&mut draft)?;
        self.registry.admission.follow().await;
        self.mutate(&mut draft).await?;
        self.prepare(&mut draft);
        self.validate(&draft)?;
        self.admit(&mut draft).await?;
        self.remark(&draft);
        self.encode(&draft)?;
        let without_effect = self.without_effect(&draft);
        let written = self.commit(draft).await?;
        self.notes.warn_all(without_effect);
        Ok(written)
    }

    /// What admission plugins are told about this write.
    pub(super) fn review<'b>(&'b self, old: Option<&'b Value>, conditions: &'b Conditions) -> Review<'b> {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let Write { registry, call, notes, resource, .. } = self;
        let about = Review::new(registry, call, notes, resource, operation);
        Review { old, conditions: Some(conditions), ..about }
    }
}
