//! An engine on a simulated disk, driven a step at a time, and all that anybody was told.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::sync::oneshot::Receiver;

use crate::chance::Chance;
use crate::failpoint::{Failpoints, Undisturbed};
use crate::file::checkpoint::{Checkpoint, Step};
use crate::file::engine::Engine;
use crate::file::prepare::{Preparer, Work};
use crate::file::recover::Problem;
use crate::file::sim::SimDisk;
use crate::{CommitError, Committed, Durability, Options, Range, Revision, Splice, Txn};

const KEYS: u64 = 24;

/// The store as one who saw everything believes it to be: keys and their values.
pub(super) type Keys = BTreeMap<String, (Revision, Vec<u8>)>;

/// One transaction that was sent.
#[derive(Debug, Clone)]
struct Sent {
    puts: Vec<(String, Vec<u8>)>,
    deletes: Vec<String>,
    durability: Durability,
}

/// What one life of a store has told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The state after each revision that was seen, oldest first, beginning with what was found at the start.
    states: Vec<(Revision, Keys)>,
    /// No revision up to here may be lost.
    durable: Revision,
    /// The last revision that anybody saw.
    pub(super) seen: Revision,
    /// Transactions that were sent and not answered, in order; each may have happened, after all before it.
    unknown: Vec<Sent>,
    pub(super) acknowledged: u64,
}

pub(super) struct World {
    pub(super) disk: SimDisk,
    engine: Option<Engine>,
    preparer: Preparer,
    checkpoint: Option<Checkpoint>,
    pub(super) told: Told,
    counter: u64,
    pub(super) checkpoints: u64,
}

impl World {
    /// Opens the store on a disk; everything found there counts as told.
    pub(super) fn open(disk: SimDisk, failpoints: Option<Arc<dyn Failpoints>>) -> Result<Self, Problem> {
        let failpoints = failpoints.unwrap_or_else(|| Arc::new(Undisturbed));
        let engine = Engine::open(Arc::new(disk.clone()), Options::default(), failpoints)?;
        let revision = engine.state.revision();
        let told = Told {
            states: vec![(revision, keys(&engine))],
            durable: revision,
            seen: revision,
            unknown: Vec::new(),
            acknowledged: 0,
        };
        let preparer = Preparer::new(Arc::clone(&engine.state));
        Ok(Self { disk, engine: Some(engine), preparer, checkpoint: None, told, counter: 0, checkpoints: 0 })
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is open")
    }

    pub(super) fn health(&mut self) -> Result<(), String> {
        self.engine().state.health()
    }

    pub(super) fn keys(&mut self) -> Keys {
        keys(self.engine())
    }

    /// Takes one step of the seed's choice: a group of commits, a sync, a step of a checkpoint, an expiry.
    pub(super) fn step(&mut self, chance: &mut Chance) {
        match chance.below(20) {
            0 => self.sync(),
            1..=8 if self.checkpoint.is_some() => self.checkpoint_step(),
            1 if chance.once_in(4) => self.begin_checkpoint(),
            _ => self.commit(chance),
        }
    }

    pub(super) fn begin_checkpoint(&mut self) {
        if self.checkpoint.is_none() {
            self.checkpoint = self.engine().begin_checkpoint();
            if self.checkpoint.is_some() {
                // The log that ended was synced.
                self.told.durable = self.told.seen;
            }
        }
    }

    pub(super) fn checkpoint_step(&mut self) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let result = match checkpoint.step() {
            Ok(Step::More) => return,
            Ok(Step::Done { bytes }) => {
                self.checkpoints += 1;
                Ok(bytes)
            }
            Err(reason) => Err(reason),
        };
        self.checkpoint = None;
        self.engine().end_checkpoint(result);
    }

    pub(super) fn sync(&mut self) {
        if self.engine().lags() {
            self.engine().sync();
            if self.health().is_ok() {
                self.told.durable = self.told.seen;
            }
        }
    }

    /// Commits a group and believes what it is answered.
    pub(super) fn commit(&mut self, chance: &mut Chance) {
        let relaxed_group = chance.once_in(3);
        let sent: Vec<_> = (0..=chance.below(6)).map(|_| self.transaction(chance, relaxed_group)).collect();
        let mut replies: Vec<Receiver<Result<Committed, CommitError>>> = Vec::new();
        let mut group = Vec::new();
        for sent in &sent {
            let (reply, answer) = oneshot::channel();
            replies.push(answer);
            group.push(Work::Commit { txn: sent.txn(), reply });
        }
        let prepared = self.preparer.prepare(group);
        self.engine().commit(prepared);
        let mut durable = false;
        for (sent, mut reply) in sent.into_iter().zip(replies) {
            match reply.try_recv().expect("a commit is answered at once") {
                Ok(committed) => {
                    self.told.acknowledged += 1;
                    durable |= sent.durability == Durability::Synced;
                    self.told.believe(&sent, committed.revision);
                }
                Err(_) => self.told.unknown.push(sent),
            }
        }
        // One sync holds the whole group and all before it.
        if durable {
            self.told.durable = self.told.seen;
        }
        assert_eq!(self.engine().state.revision(), self.told.seen, "readers see what was acknowledged, no more");
    }

    fn transaction(&mut self, chance: &mut Chance, relaxed: bool) -> Sent {
        let mut key = || format!("/k/{:02}", chance.below(KEYS));
        let (first, second, third) = (key(), key(), key());
        let durability = if relaxed { Durability::Relaxed } else { Durability::Synced };
        self.counter += 1;
        let length = match chance.below(12) {
            0 => chance.below(9000),
            1 => 0,
            _ => chance.below(300),
        };
        let mut value = format!("{}:", self.counter).into_bytes();
        // Zeros are the hardest to tell from what was never written.
        value.resize(value.len() + usize::try_from(length).unwrap_or(0), if chance.once_in(3) { 0 } else { b'v' });
        let mut sent = Sent { puts: vec![(first, value)], deletes: Vec::new(), durability };
        if chance.once_in(3) {
            sent.puts.push((second, format!("{}+", self.counter).into_bytes()));
        }
        if chance.once_in(4) && sent.puts.iter().all(|(key, _)| *key != third) {
            sent.deletes.push(third);
        }
        sent
    }

    /// The disk as it is found after the power was cut now, or the process killed.
    pub(super) fn crash(mut self, chance: &mut Chance) -> (SimDisk, Told) {
        let disk = if chance.once_in(4) { self.disk.after_kill() } else { self.disk.after_power_cut(chance) };
        self.engine = None;
        (disk, self.told)
    }

    pub(super) fn close(mut self) -> (SimDisk, Told) {
        self.engine().close();
        (self.disk, self.told)
    }
}

impl Sent {
    fn txn(&self) -> Txn {
        let mut txn = Txn::new().durability(self.durability);
        for (key, value) in &self.puts {
            txn = txn.put(key.as_str(), Splice::plain(value.clone()));
        }
        for key in &self.deletes {
            txn = txn.delete(key.as_str());
        }
        txn
    }

    fn apply(&self, keys: &mut Keys, revision: Revision) {
        for (key, value) in &self.puts {
            keys.insert(key.clone(), (revision, value.clone()));
        }
        for key in &self.deletes {
            keys.remove(key);
        }
    }
}

impl Told {
    fn believe(&mut self, sent: &Sent, revision: Revision) {
        assert!(revision > self.seen, "a revision is given out once, and they only grow");
        let mut keys = self.states.last().expect("the first is always there").1.clone();
        sent.apply(&mut keys, revision);
        self.states.push((revision, keys));
        self.seen = revision;
    }

    /// Whether a store that was opened after a crash agrees with all that was told; says what is wrong.
    pub(super) fn check(&self, next: &mut World) -> Result<(), String> {
        let found = next.keys();
        let revision = next.told.seen;
        if revision < self.seen {
            return Err(format!("revision {} was seen and the store is at {revision}", self.seen));
        }
        let survived = |keys: &Keys| keys == &found;
        // What was durable is there; of what followed, any part from its beginning.
        if self.states.iter().any(|(at, keys)| *at >= self.durable && survived(keys)) {
            return Ok(());
        }
        // Then all that was seen is there, and of what was not answered any part from its beginning.
        let (mut at, mut keys) = self.states.last().cloned().unwrap_or_default();
        for sent in &self.unknown {
            at += 1;
            sent.apply(&mut keys, at);
            if survived(&keys) {
                return Ok(());
            }
        }
        Err(format!("after {revision} (durable up to {}) the keys are none of the states they can be", self.durable))
    }
}

fn keys(engine: &Engine) -> Keys {
    let page = engine.state.range(&Range::prefix("/")).expect("a read of the newest revision");
    page.entries.iter().map(|entry| (entry.key.to_string(), (entry.mod_revision, entry.value.to_vec()))).collect()
}
