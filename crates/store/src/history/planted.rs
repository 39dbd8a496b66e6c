//! Stores with one fault each, of a kind that has been seen in real ones, and the same store without.
//!
//! All are one [`Machine`]: a memory store with a disk under it that holds what was synced. At a crash
//! the machine keeps that, and of the relaxed transactions after it as many as chance lets it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Kind, Subject};
use crate::chance::Chance;
use crate::snapshot::Snapshot;
use crate::stage::Stage;
use crate::state::State;
use crate::{
    CommitError, Committed, Durability, Entry, Event, EventKind, Interest, Options, Page, Range, ReadError, Revision,
    Store,
};
use crate::{Txn, Watch};

/// Revisions set aside on the disk before relaxed transactions may take them.
const RESERVE: Revision = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    AcknowledgesBeforeDurable,
    LosesOneWriteInHundreds,
    ReadsAreStaleNowAndThen,
    GivesRevisionsOutAgainAfterACrash,
    SkipsChecksNowAndThen,
    ShowsHalfATransaction,
    WatchDropsAnEvent,
    WatchDeliversTwice,
    WatchIsOutOfOrder,
    DeletedKeysComeBack,
    OldRevisionsShowNewValues,
    VersionsStartOverAfterACrash,
}

/// Each fault with what the checker may call it.
pub(super) const PLANTED: [(Fault, &[Kind]); 12] = [
    (Fault::AcknowledgesBeforeDurable, &[Kind::LostWrite]),
    (Fault::LosesOneWriteInHundreds, &[Kind::RevisionReused]),
    (Fault::ReadsAreStaleNowAndThen, &[Kind::StaleRead]),
    (Fault::GivesRevisionsOutAgainAfterACrash, &[Kind::RevisionReversed, Kind::StaleRead]),
    (Fault::SkipsChecksNowAndThen, &[Kind::CheckIgnored]),
    (Fault::ShowsHalfATransaction, &[Kind::HalfTransaction]),
    (Fault::WatchDropsAnEvent, &[Kind::WatchMissed, Kind::BookmarkAhead]),
    (Fault::WatchDeliversTwice, &[Kind::WatchRepeated]),
    (Fault::WatchIsOutOfOrder, &[Kind::WatchDisordered]),
    (Fault::DeletedKeysComeBack, &[Kind::Resurrected]),
    (Fault::OldRevisionsShowNewValues, &[Kind::WrongRead]),
    (Fault::VersionsStartOverAfterACrash, &[Kind::WrongVersion]),
];

/// A computer with a disk: what a crash leaves is what the disk has.
pub(super) struct Machine {
    fault: Fault,
    chance: Chance,
    disk: Arc<Mutex<Disk>>,
    /// The power of the store that runs now.
    power: Arc<AtomicBool>,
}

struct Disk {
    /// What is synced, then each state that relaxed transactions made of it.
    states: Vec<Snapshot>,
    reserved: Revision,
    /// The last version of a key whose delete is synced.
    deleted: Option<Arc<Entry>>,
}

impl Machine {
    pub(super) fn new(fault: Fault, seed: u64) -> Self {
        let disk = Disk { states: vec![Snapshot::new(1, [])], reserved: 1, deleted: None };
        let power = Arc::new(AtomicBool::new(false));
        Self { fault, chance: Chance::seeded(seed), disk: Arc::new(Mutex::new(disk)), power }
    }
}

#[async_trait]
impl Subject for Machine {
    async fn open(&mut self) -> Arc<dyn Store> {
        let mut disk = lock(&self.disk);
        let kept = self.chance.below(disk.states.len() as u64) as usize;
        let mut entries = all(&disk.states[kept]);
        let mut revision = disk.states[kept].revision().max(disk.reserved);
        match self.fault {
            Fault::GivesRevisionsOutAgainAfterACrash => revision = disk.states[kept].revision(),
            Fault::DeletedKeysComeBack => {
                let gone = disk.deleted.take();
                entries.extend(gone.filter(|gone| disk.states[kept].get(&gone.key).is_none()));
            }
            Fault::VersionsStartOverAfterACrash => {
                entries = entries.iter().map(|entry| Arc::new(renumbered(entry))).collect();
            }
            _ => {}
        }
        let snapshot = Snapshot::new(revision, entries);
        disk.states = vec![snapshot.clone()];
        self.power = Arc::new(AtomicBool::new(true));
        Arc::new(Running {
            fault: self.fault,
            chance: Mutex::new(Chance::seeded(self.chance.number())),
            disk: Arc::clone(&self.disk),
            power: Arc::clone(&self.power),
            state: Arc::new(State::new(snapshot.clone(), Options::default())),
            held_back: Mutex::default(),
            before: Mutex::new(snapshot),
        })
    }

    async fn crash(&mut self) {
        let _writing = lock(&self.disk);
        self.power.store(false, Ordering::SeqCst);
    }
}

struct Running {
    fault: Fault,
    chance: Mutex<Chance>,
    disk: Arc<Mutex<Disk>>,
    power: Arc<AtomicBool>,
    state: Arc<State>,
    /// An event that watchers are to get after the next one.
    held_back: Mutex<Option<Arc<Event>>>,
    /// The state before the last few commits.
    before: Mutex<Snapshot>,
}

impl Running {
    fn happens(&self, fault: Fault, once_in: u64) -> bool {
        self.fault == fault && lock(&self.chance).once_in(once_in)
    }

    fn running(&self) -> Result<(), CommitError> {
        let reason = || CommitError::Stopped { reason: "the power is off".to_owned() };
        self.power.load(Ordering::SeqCst).then_some(()).ok_or_else(reason)
    }

    fn write(&self, disk: &mut Disk, mut stage: Stage, synced: bool) {
        if stage.events().is_empty() || self.happens(Fault::LosesOneWriteInHundreds, 300) {
            return;
        }
        let deleted = stage.events().iter().rfind(|event| event.kind == EventKind::Delete);
        let deleted = deleted.and_then(|event| event.previous.clone());
        self.spoil(stage.events_mut());
        drop(self.state.publish(stage));
        let snapshot = Snapshot::clone(&self.state.snapshot());
        if !synced {
            disk.reserved = disk.reserved.max(snapshot.revision() + RESERVE);
            disk.states.push(snapshot);
        } else if self.happens(Fault::AcknowledgesBeforeDurable, 4) {
            disk.states.push(snapshot);
        } else {
            disk.deleted = deleted.or(disk.deleted.take());
            disk.states = vec![snapshot];
        }
    }

    /// What goes wrong between the store and its watchers.
    fn spoil(&self, events: &mut Vec<Arc<Event>>) {
        if self.happens(Fault::WatchDropsAnEvent, 100) {
            events.pop();
        }
        if self.happens(Fault::WatchDeliversTwice, 100) {
            events.extend(events.last().cloned());
        }
        if self.fault == Fault::WatchIsOutOfOrder {
            let mut held = lock(&self.held_back);
            match held.take() {
                Some(earlier) => events.push(earlier),
                None if lock(&self.chance).once_in(100) => *held = events.pop(),
                None => {}
            }
        }
    }

    /// Takes back, in a page, one key of the newest transaction on it.
    fn tear(&self, page: &mut Page) {
        let Some(newest) = page.entries.iter().map(|entry| entry.mod_revision).max() else { return };
        let Ok(before) = self.state.range(&Range::prefix("").at(newest - 1)) else { return };
        let together = page.entries.iter().filter(|entry| entry.mod_revision == newest).count();
        let changed = page.entries.iter_mut().find(|entry| entry.mod_revision == newest);
        let Some(changed) = changed.filter(|_| together > 1) else { return };
        if let Some(previous) = before.entries.into_iter().find(|entry| entry.key == changed.key) {
            *changed = previous;
        }
    }
}

#[async_trait]
impl Store for Running {
    fn revision(&self) -> Revision {
        self.state.revision()
    }

    async fn reach(&self, revision: Revision) -> Result<(), ReadError> {
        self.state.check_reached(revision)
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, ReadError> {
        if self.happens(Fault::ReadsAreStaleNowAndThen, 10) {
            return Ok(lock(&self.before).get(key).cloned());
        }
        Ok(self.state.get(key))
    }

    async fn range(&self, range: Range) -> Result<Page, ReadError> {
        let mut page = self.state.range(&range)?;
        match range.at {
            None if self.happens(Fault::ShowsHalfATransaction, 10) => self.tear(&mut page),
            Some(_) if self.happens(Fault::OldRevisionsShowNewValues, 10) => {
                for entry in &mut page.entries {
                    *entry = self.state.get(&entry.key).unwrap_or_else(|| Arc::clone(entry));
                }
            }
            _ => {}
        }
        Ok(page)
    }

    async fn commit(&self, mut txn: Txn) -> Result<Committed, CommitError> {
        let mut disk = lock(&self.disk);
        self.running()?;
        if self.happens(Fault::SkipsChecksNowAndThen, 20) {
            txn.checks.clear();
        }
        if self.state.revision() >= lock(&self.before).revision() + 8 {
            *lock(&self.before) = Snapshot::clone(&self.state.snapshot());
        }
        let synced = txn.durability == Durability::Synced;
        let mut stage = self.state.stage();
        let committed = stage.apply(txn)?;
        self.write(&mut disk, stage, synced);
        Ok(committed)
    }

    fn subscribe(&self, interest: &Interest, after: Revision) -> Result<Watch, ReadError> {
        self.state.watch(interest, after)
    }

    async fn expire(&self, now_ms: i64) -> Result<usize, CommitError> {
        let mut disk = lock(&self.disk);
        self.running()?;
        let mut stage = self.state.stage();
        let expired = stage.expire(now_ms, usize::MAX);
        self.write(&mut disk, stage, false);
        Ok(expired)
    }

    fn compact(&self, keep_after: Revision) {
        self.state.compact(keep_after);
    }

    fn health(&self) -> Result<(), String> {
        self.running().map_err(|error| error.to_string())
    }

    async fn close(&self) {
        self.state.close();
    }
}

fn all(snapshot: &Snapshot) -> Vec<Arc<Entry>> {
    snapshot.page(&Range::prefix("")).map(|page| page.entries).unwrap_or_default()
}

fn renumbered(entry: &Entry) -> Entry {
    let numbers = [entry.create_revision, entry.mod_revision, 1];
    Entry::restore(Arc::clone(&entry.key), entry.value.clone(), numbers, entry.expires_at, entry.hole.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
