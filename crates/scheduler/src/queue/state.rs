//! The queue's books, without waiting: who is ready, who waits for what, and until when.
//!
//! Worked example: `a` is ready with priority 5, `b` with 0; `c` was tried and waits until noon; `d` fits nowhere
//! because of NodeAffinity; `e` is being tried.
//!
//! ```text
//! active  [(5, a), (0, b)]   backing_off  {(noon, c)}   stuck  {NodeAffinity: {d}}   entries  {a, b, c, d, e}
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_runtime::{Backoff, Key};
use tokio::time::Instant;

use super::Depth;
use crate::pod::PodInfo;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(10) };

/// How long a Pod is set aside if nothing happens that may help it.
const STUCK_FOR: Duration = Duration::from_secs(300);

/// The plugin that stands for none: any event may help.
const NO_ONE: &str = "";

#[derive(Debug, Default)]
pub(super) struct State {
    entries: BTreeMap<Key, Entry>,
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    backing_off: BTreeSet<(Instant, Key)>,
    /// Those set aside, by the plugin that rejected them.
    stuck: BTreeMap<&'static str, BTreeSet<Key>>,
    stuck_until: BTreeSet<(Instant, Key)>,
    arrivals: u64,
    /// How much has happened, and when something last happened that may help Pods that a plugin rejected.
    events: u64,
    helped_at: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<PodInfo>,
    place: Place,
    attempts: u32,
    /// Before this it is not tried again.
    not_before: Option<Instant>,
    /// Other Pods are being made to leave for it.
    held: bool,
}

#[derive(Debug)]
enum Place {
    Active(i32, u64),
    BackingOff(Instant),
    Stuck {
        plugins: BTreeSet<&'static str>,
        until: Instant,
    },
    Gated,
    /// It would be ready if it were not held.
    Held,
    /// In the scheduler's hands.
    Taken,
}

impl State {
    pub(super) fn put(&mut self, pod: Arc<PodInfo>, now: Instant) {
        let key = pod.key.clone();
        match self.entries.get_mut(&key) {
            Some(entry) if entry.pod.uid == pod.uid => {
                let matters = differs(&entry.pod, &pod);
                entry.pod = pod;
                match entry.place {
                    Place::Taken => {}
                    Place::Active(..) => self.activate(&key, now),
                    Place::Gated | Place::Stuck { .. } if matters => self.activate(&key, now),
                    _ => {}
                }
            }
            _ => {
                // Another life of this name: nothing of the old one counts.
                self.lift(&key);
                self.entries.insert(
                    key.clone(),
                    Entry { pod, place: Place::Taken, attempts: 0, not_before: None, held: false },
                );
                self.activate(&key, now);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &Key, uid: &str) {
        if self.entries.get(key).is_some_and(|entry| entry.pod.uid == uid) {
            self.lift(key);
            self.entries.remove(key);
        }
    }

    pub(super) fn take(&mut self) -> Option<Arc<PodInfo>> {
        let (_, _, key) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.place = Place::Taken;
        entry.attempts = entry.attempts.saturating_add(1);
        Some(entry.pod.clone())
    }

    pub(super) fn park(&mut self, pod: &PodInfo, plugins: &BTreeSet<&'static str>, now: Instant) {
        let Some(entry) = self.taken(pod) else { return };
        entry.not_before = Some(now + BACKOFF.after(entry.attempts.saturating_sub(1)));
        // It has changed while it was tried: what was found out is not about it any more.
        if differs(&entry.pod, pod) {
            return self.activate(&pod.key, now);
        }
        let plugins = if plugins.is_empty() { [NO_ONE].into() } else { plugins.clone() };
        let until = now + STUCK_FOR;
        entry.place = Place::Stuck { plugins: plugins.clone(), until };
        for plugin in plugins {
            self.stuck.entry(plugin).or_default().insert(pod.key.clone());
        }
        self.stuck_until.insert((until, pod.key.clone()));
    }

    pub(super) fn moment(&self) -> u64 {
        self.events
    }

    pub(super) fn park_since(&mut self, pod: &PodInfo, plugins: &BTreeSet<&'static str>, moment: u64, now: Instant) {
        self.park(pod, plugins, now);
        let has_helped = |plugin: &&'static str| self.helped_at.get(plugin).is_some_and(|event| *event > moment);
        if plugins.iter().any(has_helped) || (plugins.is_empty() && has_helped(&NO_ONE)) {
            self.unpark(pod, now);
        }
    }

    pub(super) fn hold(&mut self, pod: &PodInfo) {
        if let Some(entry) = self.taken(pod) {
            entry.held = true;
        }
    }

    pub(super) fn release(&mut self, pod: &PodInfo, failed: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(&pod.key).filter(|entry| entry.pod.uid == pod.uid) else { return };
        entry.held = false;
        if matches!(entry.place, Place::Held) || (failed && matches!(entry.place, Place::Stuck { .. })) {
            self.activate(&pod.key, now);
        }
    }

    pub(super) fn unpark(&mut self, pod: &PodInfo, now: Instant) {
        let parked = |entry: &Entry| entry.pod.uid == pod.uid && matches!(entry.place, Place::Stuck { .. });
        if self.entries.get(&pod.key).is_some_and(parked) {
            self.activate(&pod.key, now);
        }
    }

    pub(super) fn retry(&mut self, pod: &PodInfo, now: Instant) {
        let Some(entry) = self.taken(pod) else { return };
        entry.not_before = Some(now + BACKOFF.after(entry.attempts.saturating_sub(1)));
        self.activate(&pod.key, now);
    }

    /// True if someone is ready, or will be.
    pub(super) fn help(&mut self, plugins: impl Iterator<Item = &'static str>, now: Instant) -> bool {
        let mut keys = BTreeSet::new();
        self.events += 1;
        for plugin in plugins.chain([NO_ONE]) {
            self.helped_at.insert(plugin, self.events);
            keys.extend(self.stuck.get(plugin).into_iter().flatten().cloned());
        }
        keys.iter().for_each(|key| self.activate(key, now));
        !keys.is_empty()
    }

    pub(super) fn release_due(&mut self, now: Instant) {
        while self.backing_off.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.backing_off.pop_first() {
                self.activate(&key, now);
            }
        }
        while self.stuck_until.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.stuck_until.pop_first() {
                self.activate(&key, now);
            }
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        let (waiting, stuck) = (self.backing_off.first(), self.stuck_until.first());
        waiting.into_iter().chain(stuck).map(|(due, _)| *due).min()
    }

    pub(super) fn depth(&self) -> Depth {
        Depth {
            active: self.active.len(),
            backing_off: self.backing_off.len(),
            unschedulable: self.stuck_until.len(),
            gated: self.entries.values().filter(|entry| matches!(entry.place, Place::Gated)).count(),
        }
    }

    fn taken(&mut self, pod: &PodInfo) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&pod.key)?;
        (entry.pod.uid == pod.uid && matches!(entry.place, Place::Taken)).then_some(entry)
    }

    /// Makes a Pod ready, or as ready as its gates and its backoff allow.
    fn activate(&mut self, key: &Key, now: Instant) {
        let kept = self.lift(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        let gates = entry.pod.spec().and_then(|spec| spec.scheduling_gates.as_ref());
        entry.place = if gates.is_some_and(|gates| !gates.is_empty()) {
            Place::Gated
        } else if entry.held {
            Place::Held
        } else if let Some(due) = entry.not_before.filter(|due| *due > now) {
            self.backing_off.insert((due, key.clone()));
            Place::BackingOff(due)
        } else {
            self.arrivals += 1;
            // One that was ready keeps its place in the line.
            let arrival = kept.unwrap_or(self.arrivals);
            self.active.insert((Reverse(entry.pod.priority), arrival, key.clone()));
            Place::Active(entry.pod.priority, arrival)
        };
    }

    /// Takes a Pod out of where it waits; answers with its place in the line if it stood in it.
    fn lift(&mut self, key: &Key) -> Option<u64> {
        let entry = self.entries.get_mut(key)?;
        match std::mem::replace(&mut entry.place, Place::Taken) {
            Place::Active(priority, arrival) => {
                self.active.remove(&(Reverse(priority), arrival, key.clone()));
                return Some(arrival);
            }
            Place::BackingOff(due) => {
                self.backing_off.remove(&(due, key.clone()));
            }
            Place::Stuck { plugins, until } => {
                self.stuck_until.remove(&(until, key.clone()));
                for plugin in plugins {
                    if let Some(keys) = self.stuck.get_mut(plugin) {
                        keys.remove(key);
                        if keys.is_empty() {
                            self.stuck.remove(plugin);
                        }
                    }
                }
            }
            Place::Gated | Place::Held | Place::Taken => {}
        }
        None
    }
}

/// Whether two states of a Pod differ in anything that a node could be chosen by.
fn differs(old: &PodInfo, new: &PodInfo) -> bool {
    old.pod.spec != new.pod.spec || old.pod.metadata.labels != new.pod.metadata.labels
}
