//! What clients were told, and what is found after a restart: every difference is a complaint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What a name holds: the revision that wrote it, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub revision: u64,
    pub content: String,
}

/// One client's names. The client writes one at a time and nobody else writes them.
#[derive(Debug, Default)]
pub struct Ledger {
    /// What was acknowledged last for each name; nothing for a name whose deletion was.
    pub held: BTreeMap<String, Option<Held>>,
    /// The write that had no answer: a content, or a deletion.
    pub unknown: Option<(String, Option<String>)>,
}

impl Ledger {
    /// Compares with what a restarted server has, and takes that over.
    pub fn reconcile(&mut self, found: &BTreeMap<String, Held>, watched: &Mirror, complaints: &Complaints) {
        if let Some((name, _)) = &self.unknown {
            self.held.entry(name.clone()).or_default();
        }
        for (name, acknowledged) in &mut self.held {
            let found = found.get(name);
            let unknown = self.unknown.as_ref().filter(|(of, _)| of == name).map(|(_, write)| write);
            let as_acknowledged = found == acknowledged.as_ref();
            let as_unknown = unknown.is_some_and(|content| found.map(|held| &held.content) == content.as_ref());
            if !as_acknowledged && !as_unknown {
                complaints.lost(format!("{name}: acknowledged {acknowledged:?}, unknown {unknown:?}, found {found:?}"));
            }
            // Who watches is told only of what stays.
            if let Some((revision, content)) = watched.latest.get(name) {
                let stays = match (found, content) {
                    (Some(found), _) => found.revision >= *revision,
                    (None, None) => true,
                    // Its deletion was acknowledged or may have happened, and it is not a later write that was watched.
                    (None, content) => unknown == Some(&None) || (as_acknowledged && unknown != Some(content)),
                };
                if !stays {
                    complaints.lost(format!("{name}: watched at {revision} with {content:?}, found {found:?}"));
                }
            }
            *acknowledged = found.cloned();
        }
        self.unknown = None;
    }
}

/// Which write took which revision, as everyone was told.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    writes: BTreeMap<u64, String>,
    acknowledged: BTreeSet<u64>,
    newest: u64,
}

impl History {
    /// Notes that a revision was seen with a write; nobody may have seen it with another.
    pub fn saw(&self, revision: u64, write: String, complaints: &Complaints) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.newest = told.newest.max(revision);
        let before = told.writes.entry(revision).or_insert_with(|| write.clone());
        if *before != write {
            complaints.reused(format!("revision {revision} is {before:.80} and {write:.80}"));
        }
    }

    /// The same for a write that was acknowledged after a restart which came after `floor` was seen.
    pub fn acknowledged(&self, revision: u64, write: String, floor: u64, complaints: &Complaints) {
        if revision <= floor {
            complaints.reused(format!("revision {revision} was given out after {floor} had been seen: {write:.80}"));
        }
        self.saw(revision, write, complaints);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).acknowledged.insert(revision);
    }

    pub fn newest(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).newest
    }

    /// How many writes were acknowledged so far.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).acknowledged.len()
    }

    pub fn acknowledged_between(&self, after: u64, until: u64) -> Vec<u64> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.acknowledged.iter().copied().filter(|revision| (after + 1..=until).contains(revision)).collect()
    }
}

/// What one watcher knows, from a list and the events after it.
#[derive(Default)]
pub struct Mirror {
    /// The list's revision.
    pub since: u64,
    /// Up to here everything was told.
    pub until: u64,
    pub events: BTreeSet<u64>,
    /// For each name that an event told of: its revision, and its content if it was not a deletion.
    pub latest: BTreeMap<String, (u64, Option<String>)>,
    /// How often a watch was resumed where it had broken off, and how often it had to list again.
    pub resumed: usize,
    pub gone: usize,
}

impl Mirror {
    /// Begins anew from a list.
    pub fn replace(&mut self, revision: u64) {
        (self.since, self.until) = (revision, revision);
        self.events.clear();
    }

    pub fn event(&mut self, revision: u64, name: String, content: Option<String>, complaints: &Complaints) {
        if revision <= self.until {
            complaints.gap(format!("{name} at revision {revision} was told after {}", self.until));
        }
        self.until = self.until.max(revision);
        self.events.insert(revision);
        self.latest.insert(name, (revision, content));
    }

    /// Every acknowledged write in what the watch has covered was told.
    pub fn check(&self, history: &History, complaints: &Complaints) {
        for revision in history.acknowledged_between(self.since, self.until) {
            if !self.events.contains(&revision) {
                complaints.gap(format!("the watch from {} to {} left out {revision}", self.since, self.until));
            }
        }
    }
}

/// What was promised and is not so.
#[derive(Clone, Default)]
pub struct Complaints(Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>);

impl Complaints {
    pub fn lost(&self, what: String) {
        self.note("lost", what);
    }

    pub fn reused(&self, what: String) {
        self.note("reused", what);
    }

    pub fn gap(&self, what: String) {
        self.note("gap", what);
    }

    pub fn refused(&self, what: String) {
        self.note("refused", what);
    }

    fn note(&self, kind: &'static str, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default().push(what);
    }

    pub fn count(&self, kind: &str) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(kind).map_or(0, Vec::len)
    }

    /// The first few of each kind; empty if there is nothing to complain of.
    pub fn summary(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = all.iter().flat_map(|(kind, all)| all.iter().take(5).map(move |what| format!("{kind}: {what}\n")));
        lines.collect()
    }
}

/// A checker that sees nothing proves nothing.
mod checks {
    use super::*;

    fn held(revision: u64, content: &str) -> Held {
        Held { revision, content: content.to_owned() }
    }

    /// How many complaints there are of a client that was told `acknowledged`, had no answer for `unknown`, and finds
    /// `found` after the watcher was told `watched`.
    fn complaints(
        acknowledged: Option<Held>,
        unknown: Option<Option<&str>>,
        watched: Option<(u64, Option<&str>)>,
        found: Option<Held>,
    ) -> usize {
        let unknown = unknown.map(|write| ("a".to_owned(), write.map(str::to_owned)));
        let mut ledger = Ledger { held: [("a".to_owned(), acknowledged)].into(), unknown };
        let mut mirror = Mirror::default();
        if let Some((revision, content)) = watched {
            mirror.latest.insert("a".to_owned(), (revision, content.map(str::to_owned)));
        }
        let complaints = Complaints::default();
        ledger.reconcile(&found.map(|held| ("a".to_owned(), held)).into_iter().collect(), &mirror, &complaints);
        complaints.count("lost")
    }

    #[test]
    fn a_write_that_is_gone_old_or_other_is_missed() {
        let told = || Some(held(5, "new"));
        assert_eq!(complaints(told(), None, None, told()), 0);
        for found in [None, Some(held(4, "old")), Some(held(5, "other")), Some(held(6, "new"))] {
            assert_eq!(complaints(told(), None, None, found.clone()), 1, "{found:?}");
        }
        assert_eq!(complaints(None, None, None, told()), 1, "what was deleted is back");
    }

    #[test]
    fn a_write_without_an_answer_may_be_there_or_not_unless_it_was_watched() {
        let told = || Some(held(5, "told"));
        for found in [told(), Some(held(6, "tried"))] {
            assert_eq!(complaints(told(), Some(Some("tried")), None, found.clone()), 0, "{found:?}");
        }
        assert_eq!(complaints(told(), Some(Some("tried")), None, None), 1);
        assert_eq!(complaints(told(), Some(None), None, None), 0);
        assert_eq!(complaints(told(), Some(Some("tried")), Some((6, Some("tried"))), told()), 1);
        assert_eq!(complaints(None, Some(Some("tried")), Some((6, Some("tried"))), None), 1);
    }

    #[test]
    fn a_revision_given_out_twice_or_backwards_and_a_gap_in_the_watch_are_seen() {
        let (history, complaints) = (History::default(), Complaints::default());
        history.acknowledged(7, "a = x".to_owned(), 6, &complaints);
        history.saw(7, "a = x".to_owned(), &complaints);
        assert_eq!(complaints.summary(), "");
        history.saw(7, "b = x".to_owned(), &complaints);
        history.acknowledged(8, "c = x".to_owned(), 8, &complaints);
        assert_eq!(complaints.count("reused"), 2);
        let mut mirror = Mirror::default();
        mirror.replace(6);
        mirror.event(8, "c".to_owned(), None, &complaints);
        mirror.check(&history, &complaints);
        assert_eq!(complaints.count("gap"), 1, "7 is left out");
        mirror.event(8, "c".to_owned(), None, &complaints);
        assert_eq!(complaints.count("gap"), 2, "8 is told twice");
    }
}
