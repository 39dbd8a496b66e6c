//! Rendered batches on their way to watchers: each kept until the last watcher has taken it, within a bound.
//!
//! Batches are numbered. With batches 7 (revisions 20 to 22) and 8 (revision 23), a watcher that has seen everything up
//! to 21 begins in the middle of 7, behind the mark of 21, and then takes 8 whole.

use bytes::Bytes;
use pintle_store::Revision;
use std::collections::VecDeque;

/// Rendered bytes that wait for the slowest watcher of a pump at most. One that is further behind is cut off.
pub const MAX_BYTES: usize = 16 << 20;

/// Events of one or more revisions as watchers read them, or a bookmark.
#[derive(Debug, Default)]
pub struct Batch {
    pub bytes: Bytes,
    /// For each event, its revision and where it ends; empty for a bookmark.
    pub marks: Vec<(Revision, usize)>,
    /// The newest revision in it.
    pub revision: Revision,
}

#[derive(Debug)]
pub struct Ring {
    batches: VecDeque<Batch>,
    /// The number of the first batch.
    first: u64,
    /// In all batches.
    bytes: usize,
    /// No event after this revision is missing from `batches` and what follows them.
    complete_after: Revision,
}

/// How far a watcher has come.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    /// The number of the next batch.
    next: u64,
    /// Everything up to here was delivered.
    after: Revision,
}

/// What a watcher finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Bytes(Bytes),
    Nothing,
    /// The next batch is gone.
    TooSlow,
}

impl Batch {
    /// The part that follows a revision, if any does.
    fn after(&self, revision: Revision) -> Option<Bytes> {
        if self.marks.is_empty() {
            // A bookmark is told again and again, and never back.
            return (self.revision >= revision).then(|| self.bytes.clone());
        }
        if self.revision <= revision {
            return None;
        }
        let seen = self.marks.partition_point(|(at, _)| *at <= revision);
        let start = if seen == 0 { 0 } else { self.marks[seen - 1].1 };
        Some(self.bytes.slice(start..))
    }

    pub fn is_bookmark(&self) -> bool {
        self.marks.is_empty()
    }
}

impl Ring {
    pub fn new(revision: Revision) -> Self {
        Ring { batches: VecDeque::new(), first: 0, bytes: 0, complete_after: revision }
    }

    /// The cursor of a watcher that has seen everything up to a revision; none if later events are gone already.
    pub fn cursor(&self, after: Revision) -> Option<Cursor> {
        (after >= self.complete_after).then_some(Cursor { next: self.first, after })
    }

    /// Whether the quickest of these watchers would still be within the bound with so many bytes more. While it would
    /// not, all of them are behind, and it is the pump that is too fast.
    pub fn has_room(&self, bytes: usize, cursors: impl Iterator<Item = Cursor>) -> bool {
        if self.bytes + bytes <= MAX_BYTES {
            return true;
        }
        let quickest = cursors.map(|cursor| cursor.next).max().unwrap_or(u64::MAX);
        let taken = usize::try_from(quickest.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let waiting: usize = self.batches.iter().skip(taken).map(|batch| batch.bytes.len()).sum();
        waiting == 0 || waiting + bytes <= MAX_BYTES
    }

    pub fn push(&mut self, batch: Batch) {
        self.bytes += batch.bytes.len();
        self.batches.push_back(batch);
        // The newest stays, however large it is: everyone would be cut off otherwise.
        while self.bytes > MAX_BYTES && self.batches.len() > 1 {
            self.pop();
        }
    }

    pub fn take(&self, cursor: &mut Cursor, bookmarks: bool) -> Taken {
        if cursor.next < self.first {
            return Taken::TooSlow;
        }
        while let Some(batch) = usize::try_from(cursor.next - self.first).ok().and_then(|at| self.batches.get(at)) {
            cursor.next += 1;
            if batch.is_bookmark() && !bookmarks {
                continue;
            }
            if let Some(bytes) = batch.after(cursor.after) {
                cursor.after = batch.revision;
                return Taken::Bytes(bytes);
            }
        }
        Taken::Nothing
    }

    /// Lets go of what all of these have taken, but for those that are cut off already.
    pub fn trim(&mut self, cursors: impl Iterator<Item = Cursor>) {
        let slowest = cursors.map(|cursor| cursor.next).filter(|next| *next >= self.first).min().unwrap_or(u64::MAX);
        while self.first < slowest && !self.batches.is_empty() {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.first += 1;
            self.bytes -= batch.bytes.len();
            self.complete_after = self.complete_after.max(batch.revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(events: &[(Revision, &str)]) -> Batch {
        let mut text = String::new();
        let mark = |(revision, line): &(Revision, &str)| {
            text.push_str(line);
            (*revision, text.len())
        };
        let marks: Vec<_> = events.iter().map(mark).collect();
        let revision = marks.last().map_or(0, |mark| mark.0);
        Batch { bytes: text.into(), marks, revision }
    }

    fn bookmark(revision: Revision) -> Batch {
        Batch { bytes: format!("b{revision}").into(), marks: Vec::new(), revision }
    }

    fn all(ring: &Ring, mut cursor: Cursor, bookmarks: bool) -> String {
        let mut seen = String::new();
        loop {
            match ring.take(&mut cursor, bookmarks) {
                Taken::Bytes(bytes) => seen.push_str(std::str::from_utf8(&bytes).expect("text")),
                Taken::Nothing => return seen,
                Taken::TooSlow => return format!("{seen}!"),
            }
        }
    }

    #[test]
    fn a_watcher_begins_behind_what_it_has_seen() {
        let mut ring = Ring::new(19);
        ring.push(batch(&[(20, "a"), (21, "b"), (21, "c"), (22, "d")]));
        ring.push(bookmark(22));
        ring.push(batch(&[(23, "e")]));
        for (after, seen, without) in [
            (19, "abcdb22e", "abcde"),
            (20, "bcdb22e", "bcde"),
            (21, "db22e", "de"),
            (22, "b22e", "e"),
            (23, "", ""),
            (30, "", ""),
        ] {
            let cursor = ring.cursor(after).expect("all is there");
            assert_eq!(all(&ring, cursor, true), seen, "after {after}");
            assert_eq!(all(&ring, cursor, false), without, "after {after}");
        }
        assert!(ring.cursor(18).is_none());
    }

    #[test]
    fn a_burst_waits_for_the_quickest_watcher_and_not_for_the_slowest() {
        let mut ring = Ring::new(1);
        let (slow, mut quick) = (ring.cursor(1).expect("new"), ring.cursor(1).expect("new"));
        let half = MAX_BYTES / 2;
        for revision in [2, 3] {
            assert!(ring.has_room(half, [slow, quick].into_iter()));
            ring.push(Batch { bytes: vec![b'x'; half].into(), marks: vec![(revision, half)], revision });
        }
        assert!(!ring.has_room(half, [slow, quick].into_iter()), "both are as far behind as may be");
        ring.take(&mut quick, false);
        assert!(ring.has_room(half, [slow, quick].into_iter()));
        assert!(!ring.has_room(half + 1, [slow, quick].into_iter()));
    }

    #[test]
    fn what_all_have_taken_is_let_go() {
        let mut ring = Ring::new(1);
        let (mut quick, mut slow) = (ring.cursor(1).expect("new"), ring.cursor(1).expect("new"));
        ring.push(batch(&[(2, "a")]));
        ring.push(batch(&[(3, "b")]));
        assert_eq!(ring.take(&mut quick, false), Taken::Bytes("a".into()));
        assert_eq!(ring.take(&mut quick, false), Taken::Bytes("b".into()));
        assert_eq!(ring.take(&mut slow, false), Taken::Bytes("a".into()));
        ring.trim([quick, slow].into_iter());
        assert_eq!((ring.batches.len(), ring.bytes), (1, 1));
        assert!(ring.cursor(1).is_none() && ring.cursor(2).is_some());
        ring.trim([quick].into_iter());
        assert_eq!((ring.batches.len(), ring.bytes), (0, 0));
    }

    #[test]
    fn who_is_too_far_behind_is_cut_off() {
        let mut ring = Ring::new(1);
        let (slow, mut quick) = (ring.cursor(1).expect("new"), ring.cursor(1).expect("new"));
        let large = Bytes::from(vec![b'x'; MAX_BYTES / 4]);
        for revision in 2..10 {
            ring.push(Batch { bytes: large.clone(), marks: vec![(revision, large.len())], revision });
            assert_eq!(ring.take(&mut quick, false), Taken::Bytes(large.clone()));
        }
        assert_eq!(all(&ring, slow, false), "!");
        assert_eq!(ring.batches.len(), 4);
        assert!(ring.has_room(1, [slow, quick].into_iter()), "the quick one has taken all");
        ring.trim([slow].into_iter());
        assert_eq!(ring.bytes, 0, "nothing is kept for who is cut off");
        // One batch alone cuts nobody off.
        let larger = Bytes::from(vec![b'x'; MAX_BYTES + 1]);
        ring.push(Batch { bytes: larger.clone(), marks: vec![(10, larger.len())], revision: 10 });
        assert_eq!(ring.take(&mut quick, false), Taken::Bytes(larger));
    }
}
