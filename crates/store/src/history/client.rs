//! One client: what it chooses to do, and what it remembers from one life of the store to the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::yield_now;

use super::log::{Answer, Asked, Change, HOLE, Seen};
use super::record::{Run, drain, open_watch, progress, take_ready};
use crate::chance::Chance;
use crate::{Durability, Expect, Range, Revision, Store, Watch};

/// Few keys, so that clients are in each other's way.
const KEYS: [&str; 12] =
    ["/a/0", "/a/1", "/a/2", "/a/3", "/b/0", "/b/1", "/b/2", "/b/3", "/c/0", "/c/1", "/c/2", "/c/3"];
const PREFIXES: [&str; 6] = ["", "/", "/a/", "/b", "/c/", "/c/1"];

/// How many revisions a client remembers to ask for again.
const REMEMBERED: usize = 64;

/// What survives a crash of the store: the client's memory, but not its open watch.
pub(super) struct Client {
    number: usize,
    chance: Chance,
    /// Values written so far, so that each is like no other.
    written: u64,
    /// The newest version of each key that this client has seen, which may be long gone.
    known: BTreeMap<Arc<str>, Seen>,
    revisions: Vec<Revision>,
    /// The prefix of the last watch and how far it came.
    resume: Option<(String, Revision)>,
}

impl Client {
    pub(super) fn new(number: usize, chance: Chance) -> Self {
        Self { number, chance, written: 0, known: BTreeMap::new(), revisions: vec![1], resume: None }
    }

    /// Works until the life has had its operations; if it is not the `last`, until it is cut off.
    pub(super) async fn live(&mut self, run: &Run, store: &dyn Store, last: bool) {
        let mut watch = None;
        loop {
            if run.log.operations() >= run.until {
                run.reached.notify_one();
                if last {
                    break;
                }
            }
            if !self.step(run, store, &mut watch).await {
                return;
            }
            for _ in 0..self.chance.below(3) {
                yield_now().await;
            }
            // A client without an operation of its own to wait for must still let the others in.
            yield_now().await;
        }
        if let Some((number, watch)) = &mut watch {
            drain(&run.log, *number, watch, store);
        }
    }

    /// Does one thing; false if the store is at its end.
    async fn step(&mut self, run: &Run, store: &dyn Store, watch: &mut Option<(usize, Watch)>) -> bool {
        match self.chance.below(100) {
            0..60 => {
                let asked = self.transaction(run);
                self.ask(run, store, asked).await
            }
            60..68 => {
                let key = self.key();
                self.ask(run, store, Asked::Get { key }).await
            }
            68..76 => {
                let range = self.range();
                self.ask(run, store, Asked::Range(range)).await
            }
            76..80 => {
                let range = self.range().at(self.past());
                self.ask(run, store, Asked::Range(range)).await
            }
            80..83 => self.pages(run, store).await,
            83..85 => self.ask(run, store, Asked::Revision).await,
            85..87 => {
                let now_ms = now(run);
                self.ask(run, store, Asked::Expire { now_ms }).await
            }
            87 => {
                let audited = run.audited.load(Ordering::SeqCst);
                let keep_after = audited.saturating_sub(self.chance.below(60));
                self.ask(run, store, Asked::Compact { keep_after }).await
            }
            _ => {
                self.watch(run, store, watch);
                true
            }
        }
    }

    async fn ask(&mut self, run: &Run, store: &dyn Store, asked: Asked) -> bool {
        let operation = run.log.invoke(self.number, asked.clone());
        // On one thread nothing else would ever happen between a question and its answer.
        if self.chance.once_in(4) {
            yield_now().await;
        }
        let answer = put_to(store, &asked).await;
        if self.chance.once_in(4) {
            yield_now().await;
        }
        let goes_on = !matches!(answer, Answer::Failed(_));
        self.learn(&asked, &answer);
        run.log.answer(operation, answer);
        goes_on
    }

    fn learn(&mut self, asked: &Asked, answer: &Answer) {
        match answer {
            Answer::Committed { revision, entries } => {
                self.remember(*revision);
                let Asked::Commit { changes, .. } = asked else { return };
                for (change, entry) in changes.iter().zip(entries) {
                    match (change, entry) {
                        (Change::Put { key, .. }, Some(entry)) => {
                            self.known.insert(Arc::clone(key), entry.clone());
                        }
                        (change, _) => {
                            self.known.remove(change.key());
                        }
                    }
                }
            }
            Answer::Conflict { key, current } => self.saw(key, current.as_ref()),
            Answer::Got(current) => {
                if let Asked::Get { key } = asked {
                    self.saw(key, current.as_ref());
                }
            }
            Answer::Page { revision, entries, .. } => {
                self.remember(*revision);
                if matches!(asked, Asked::Range(range) if range.at.is_none()) {
                    entries.iter().for_each(|entry| self.saw(&entry.key, Some(entry)));
                }
            }
            Answer::Revision(revision) => self.remember(*revision),
            Answer::Expired(_) | Answer::Done | Answer::Refused(_) | Answer::Failed(_) => {}
        }
    }

    fn saw(&mut self, key: &Arc<str>, current: Option<&Seen>) {
        match current {
            Some(current) => self.known.insert(Arc::clone(key), current.clone()),
            None => self.known.remove(key),
        };
    }

    fn remember(&mut self, revision: Revision) {
        if self.revisions.len() == REMEMBERED {
            let oldest = self.chance.below(REMEMBERED as u64) as usize;
            self.revisions.swap_remove(oldest);
        }
        self.revisions.push(revision);
    }

    /// Reads a range a few keys at a time, all at the revision of the first page.
    async fn pages(&mut self, run: &Run, store: &dyn Store) -> bool {
        let mut range = self.range().limit(1 + self.chance.below(4) as usize);
        loop {
            let operation = run.log.invoke(self.number, Asked::Range(range.clone()));
            let answer = put_to(store, &Asked::Range(range.clone())).await;
            run.log.answer(operation, answer.clone());
            let Answer::Page { revision, entries, remaining } = answer else { return true };
            let Some(last) = entries.last().filter(|_| remaining > 0) else { return true };
            range = range.after(&last.key).at(revision);
            yield_now().await;
        }
    }

    fn watch(&mut self, run: &Run, store: &dyn Store, open: &mut Option<(usize, Watch)>) {
        let choice = self.chance.below(12);
        match open {
            // The connection breaks; the next watch goes on from the last bookmark.
            Some(_) if choice == 0 => *open = None,
            Some((number, watch)) => {
                let ready = if choice < 9 { take_ready(&run.log, *number, watch) } else { Some(0) };
                let at = progress(&run.log, *number, watch);
                match (ready, &mut self.resume) {
                    (Some(_), Some(resume)) => resume.1 = at,
                    // What was missed is gone, so there is nothing to resume.
                    _ => (*open, self.resume) = (None, None),
                }
            }
            None => {
                let (prefix, after) = match self.resume.take() {
                    Some(resume) if choice < 10 => resume,
                    _ => {
                        let prefix = self.chance.pick(&PREFIXES).map_or("", |prefix| prefix).to_owned();
                        let after = if choice.is_multiple_of(2) { self.past() } else { store.revision() };
                        (prefix, after)
                    }
                };
                *open = open_watch(&run.log, self.number, store, &prefix, after);
                self.resume = open.is_some().then_some((prefix, after));
            }
        }
    }

    fn transaction(&mut self, run: &Run) -> Asked {
        let key = self.key();
        let (checks, changes) = match self.chance.below(60) {
            0..10 => (vec![(Arc::clone(&key), Expect::Absent)], vec![self.put(run, key)]),
            10..24 => (vec![], vec![self.put(run, key)]),
            24..38 => (vec![self.expectation(&key)], vec![self.put(run, key)]),
            38..46 => {
                let checks = if self.chance.once_in(2) { vec![self.expectation(&key)] } else { vec![] };
                (checks, vec![Change::Delete { key }])
            }
            46..48 => (vec![self.expectation(&key)], vec![]),
            _ => self.several(run),
        };
        let durability = if self.chance.once_in(3) { Durability::Relaxed } else { Durability::Synced };
        Asked::Commit { checks, changes, durability }
    }

    /// Several keys at once, each at most once.
    fn several(&mut self, run: &Run) -> (Vec<(Arc<str>, Expect)>, Vec<Change>) {
        let count = 2 + self.chance.below(3);
        let keys: std::collections::BTreeSet<_> = (0..count).map(|_| self.key()).collect();
        let mut checks = Vec::new();
        let mut changes = Vec::new();
        for key in keys {
            if self.chance.once_in(6) {
                checks.push(self.expectation(&key));
            }
            // The first is a put, so that a transaction whose answer is lost can be found again.
            let put = changes.is_empty() || !self.chance.once_in(3);
            changes.push(if put { self.put(run, key) } else { Change::Delete { key } });
        }
        (checks, changes)
    }

    fn put(&mut self, run: &Run, key: Arc<str>) -> Change {
        self.written += 1;
        let hole = if self.chance.once_in(2) { HOLE } else { "" };
        let value = format!("{hole}c{}.{}", self.number, self.written);
        let expires_at = self.chance.once_in(5).then(|| now(run) + self.chance.below(600) as i64);
        Change::Put { key, value, expires_at }
    }

    /// What this client believes of a key, or now and then something that is long out of date.
    fn expectation(&mut self, key: &Arc<str>) -> (Arc<str>, Expect) {
        let expect = match self.known.get(key) {
            _ if self.chance.once_in(8) => Expect::Revision(self.past()),
            Some(_) if self.chance.once_in(6) => Expect::Present,
            Some(known) => Expect::Revision(known.mod_revision),
            None => Expect::Absent,
        };
        (Arc::clone(key), expect)
    }

    fn key(&mut self) -> Arc<str> {
        Arc::from(*self.chance.pick(&KEYS).unwrap_or(&KEYS[0]))
    }

    fn range(&mut self) -> Range {
        Range::prefix(*self.chance.pick(&PREFIXES).unwrap_or(&""))
    }

    /// A revision this client has met before.
    fn past(&mut self) -> Revision {
        self.chance.pick(&self.revisions).copied().unwrap_or(1)
    }
}

/// The clients' clock: a millisecond is a tick, so that a replay has the same time.
fn now(run: &Run) -> i64 {
    i64::try_from(run.log.tick()).unwrap_or(i64::MAX)
}

async fn put_to(store: &dyn Store, asked: &Asked) -> Answer {
    match asked {
        Asked::Commit { .. } => Answer::from(store.commit(asked.txn()).await),
        Asked::Get { key } => match store.get(key).await {
            Ok(entry) => Answer::Got(entry.as_deref().map(Seen::from)),
            Err(error) => Answer::Refused(error),
        },
        Asked::Range(range) => Answer::from(store.range(range.clone()).await),
        Asked::Revision => Answer::Revision(store.revision()),
        Asked::Expire { now_ms } => match store.expire(*now_ms).await {
            Ok(expired) => Answer::Expired(expired),
            Err(error) => Answer::Failed(error.to_string()),
        },
        Asked::Compact { keep_after } => {
            store.compact(*keep_after);
            Answer::Done
        }
    }
}
