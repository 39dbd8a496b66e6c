//! The queue's books, without waiting: which keys are ready, delayed, in work and failed.
//!
//! One map leads from a key to its slot, and the slot has everything about the key. Worked example: `a` is in work and
//! was added again, `b` and `c` are ready, `d` is added for noon, `e` has failed twice and was not added since.
//!
//! ```text
//! lines    urgent []   normal [b, c]   low []   working [a]
//! slots    a: again = Normal   d: due = noon   e: failures = 2
//! delayed  {(noon, d)}
//! ```
//!
//! A slot about which nothing is left to know is given back. Nothing goes through the map in its own order.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hash};
use std::time::Duration;

use tokio::time::Instant;

use super::limit::Bucket;
use super::lines::{Line, Link, Linked, NONE};
use super::{Class, Config, Durations, Metrics};

/// The lines of the classes come first, in the order of `Class::ALL`.
const WORKING: usize = Class::ALL.len();

#[derive(Debug)]
pub(super) struct State<T> {
    slot_of: HashMap<T, u32, BuildHasherDefault<DefaultHasher>>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    lines: [Line; WORKING + 1],
    delayed: BTreeSet<(Instant, u64, u32)>,
    /// Tells delays apart that end at the same moment: first come, first served.
    delays: u64,
    config: Config,
    bucket: Option<Bucket>,
    adds: u64,
    retries: u64,
    durations: Durations,
    shut_down: bool,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` if the slot is free.
    key: Option<T>,
    line: Option<usize>,
    link: Link,
    /// Added while it was worked on.
    again: Option<Class>,
    /// When it was added, for the time it waited.
    added: Instant,
    /// Since when it stands in its line.
    since: Instant,
    due: Option<(Instant, u64)>,
    failures: u32,
}

impl<T> Linked for Slot<T> {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl<T: Hash + Eq + Clone> State<T> {
    pub(super) fn new(config: Config) -> Self {
        State {
            slot_of: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            lines: [Line::EMPTY; WORKING + 1],
            delayed: BTreeSet::new(),
            delays: 0,
            config,
            bucket: config.rate.map(Bucket::new),
            adds: 0,
            retries: 0,
            durations: Durations::default(),
            shut_down: false,
        }
    }

    /// True if there is now more to take.
    pub(super) fn add(&mut self, key: T, class: Class, now: Instant) -> bool {
        if self.shut_down {
            return false;
        }
        let slot = self.slot(key, now);
        self.add_slot(slot, class, now)
    }

    fn add_slot(&mut self, slot: u32, class: Class, now: Instant) -> bool {
        let entry = &mut self.slots[slot as usize];
        match entry.line {
            Some(WORKING) => {
                if entry.again.is_none() {
                    entry.added = now;
                    self.adds += 1;
                }
                entry.again = entry.again.max(Some(class));
                false
            }
            Some(line) if class > Class::ALL[line] => {
                self.leave(slot);
                self.join(slot, class.line(), now);
                false
            }
            Some(_) => false,
            None => {
                entry.added = now;
                self.adds += 1;
                self.join(slot, class.line(), now);
                true
            }
        }
    }

    /// True if this is now the first thing to wait for.
    pub(super) fn add_at(&mut self, key: T, due: Instant, now: Instant) -> bool {
        if self.shut_down {
            return false;
        }
        let slot = self.slot(key, now);
        match self.slots[slot as usize].due {
            Some((earlier, _)) if earlier <= due => return false,
            Some((later, number)) => {
                self.delayed.remove(&(later, number, slot));
            }
            None => {}
        }
        self.delays += 1;
        self.slots[slot as usize].due = Some((due, self.delays));
        self.delayed.insert((due, self.delays, slot));
        self.delayed.first().is_some_and(|(_, _, first)| *first == slot)
    }

    pub(super) fn release_due(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now) {
            if let Some((_, _, slot)) = self.delayed.pop_first() {
                self.slots[slot as usize].due = None;
                self.add_slot(slot, Class::Normal, now);
            }
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, _, _)| *due)
    }

    /// The first key of the line that is most urgent now; of equals, the one that stands there longest.
    pub(super) fn take(&mut self, now: Instant) -> Option<T> {
        let mut best: Option<(usize, Instant, u32)> = None;
        for class in Class::ALL {
            let first = self.lines[class.line()].first;
            if first == NONE {
                continue;
            }
            let since = self.slots[first as usize].since;
            let urgency = class.line().saturating_sub(self.config.periods(now.saturating_duration_since(since)));
            if best.is_none_or(|(least, earliest, _)| (urgency, since) < (least, earliest)) {
                best = Some((urgency, since, first));
            }
        }
        let (_, _, slot) = best?;
        self.leave(slot);
        self.join(slot, WORKING, now);
        let entry = &self.slots[slot as usize];
        self.durations.wait.record(now.saturating_duration_since(entry.added));
        entry.key.clone()
    }

    /// True if another worker has a reason to wake: a key is ready, or a timer must be watched.
    pub(super) fn has_more(&self) -> bool {
        self.depth() > 0 || !self.delayed.is_empty()
    }

    /// True if the key came back into a line.
    pub(super) fn done(&mut self, key: &T, now: Instant) -> bool {
        let Some(slot) = self.slot_of.get(key).copied() else { return false };
        if self.slots[slot as usize].line != Some(WORKING) {
            return false;
        }
        self.leave(slot);
        let entry = &mut self.slots[slot as usize];
        self.durations.work.record(now.saturating_duration_since(entry.since));
        match entry.again.take() {
            Some(class) => {
                self.join(slot, class.line(), now);
                true
            }
            None => {
                self.give_back(slot);
                false
            }
        }
    }

    /// Counts a failure and returns how long the key has to wait for it.
    pub(super) fn fail(&mut self, key: &T, now: Instant) -> Duration {
        self.retries += 1;
        let slot = match self.slot_of.get(key) {
            Some(slot) => *slot,
            None => self.slot(key.clone(), now),
        };
        let entry = &mut self.slots[slot as usize];
        let alone = self.config.backoff.after(entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        let together = self.bucket.as_mut().map_or(Duration::ZERO, |bucket| bucket.reserve(now));
        alone.max(together)
    }

    pub(super) fn forget(&mut self, key: &T) {
        if let Some(slot) = self.slot_of.get(key).copied() {
            self.slots[slot as usize].failures = 0;
            self.give_back(slot);
        }
    }

    pub(super) fn failures(&self, key: &T) -> u32 {
        self.slot_of.get(key).map_or(0, |slot| self.slots[*slot as usize].failures)
    }

    pub(super) fn shut_down(&mut self) {
        self.shut_down = true;
        self.delayed.clear();
        for line in &mut self.lines[..WORKING] {
            *line = Line::EMPTY;
        }
        for slot in 0..self.slots.len() {
            let entry = &mut self.slots[slot];
            (entry.due, entry.again) = (None, None);
            if entry.line != Some(WORKING) {
                (entry.line, entry.link) = (None, Link::NOWHERE);
                self.give_back(u32::try_from(slot).unwrap_or(NONE));
            }
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    pub(super) fn longest_running(&self, now: Instant) -> Option<(T, Duration)> {
        let first = self.slots.get(self.lines[WORKING].first as usize)?;
        Some((first.key.clone()?, now.saturating_duration_since(first.since)))
    }

    pub(super) fn metrics(&self, now: Instant) -> Metrics {
        let age = |line: &Line| {
            self.slots.get(line.first as usize).map_or(Duration::ZERO, |slot| now.saturating_duration_since(slot.since))
        };
        let [urgent, normal, low, working] = &self.lines;
        Metrics {
            depth: self.depth(),
            depth_by_class: [urgent.length, normal.length, low.length],
            delayed: self.delayed.len(),
            working: working.length,
            adds: self.adds,
            retries: self.retries,
            oldest_wait: [urgent, normal, low].into_iter().map(age).max().unwrap_or_default(),
            longest_work: age(working),
            unfinished_work: self.running().map(|slot| now.saturating_duration_since(slot.since)).sum(),
        }
    }

    /// The slots of keys in the hands of workers.
    fn running(&self) -> impl Iterator<Item = &Slot<T>> {
        let slot = |at: u32| self.slots.get(at as usize);
        std::iter::successors(slot(self.lines[WORKING].first), move |before| slot(before.link.after))
    }

    pub(super) fn durations(&self) -> Durations {
        self.durations
    }

    /// How many slots are in use, and how many there are.
    #[cfg(test)]
    pub(super) fn slots(&self) -> (usize, usize) {
        (self.slot_of.len(), self.slots.len())
    }

    fn depth(&self) -> usize {
        self.lines[..WORKING].iter().map(|line| line.length).sum()
    }

    /// The key's slot, a new one if it has none.
    fn slot(&mut self, key: T, now: Instant) -> u32 {
        let vacant = match self.slot_of.entry(key) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(vacant) => vacant,
        };
        let entry = Slot {
            key: Some(vacant.key().clone()),
            line: None,
            link: Link::NOWHERE,
            again: None,
            added: now,
            since: now,
            due: None,
            failures: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
            }
        };
        *vacant.insert(slot)
    }

    fn join(&mut self, slot: u32, line: usize, now: Instant) {
        let entry = &mut self.slots[slot as usize];
        (entry.line, entry.since) = (Some(line), now);
        self.lines[line].push(&mut self.slots, slot);
    }

    fn leave(&mut self, slot: u32) {
        if let Some(line) = self.slots[slot as usize].line.take() {
            self.lines[line].remove(&mut self.slots, slot);
        }
    }

    /// Frees the slot unless there is something left to know about its key.
    fn give_back(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        if entry.line.is_some() || entry.due.is_some() || entry.failures > 0 {
            return;
        }
        if let Some(key) = entry.key.take() {
            self.slot_of.remove(&key);
            self.free.push(slot);
        }
    }
}

impl Config {
    /// How many ageing periods fit into a wait; more than the number of classes make no difference.
    fn periods(&self, waited: Duration) -> usize {
        (1..WORKING).take_while(|periods| waited >= self.ageing * (*periods as u32)).count()
    }
}
