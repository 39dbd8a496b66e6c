//! The newest writes: at most so many, so large, and so old.

use super::record::Record;
use jiff::{SignedDuration, Timestamp};
use pintle_meta::TraceParent;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const MOST: usize = 16_384;
const MOST_BYTES: usize = 8 << 20;
/// How long a write is remembered.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// Grows as writes come; the oldest goes first.
#[derive(Default)]
pub(super) struct Ring {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
    /// The traces of the records that belong to one, by revision: empty where nobody traces.
    traces: BTreeMap<u64, TraceParent>,
}

impl Ring {
    pub(super) fn push(&mut self, record: Arc<Record>) {
        self.expire(record.time);
        self.bytes += size_of_one(&record);
        if let Some(trace) = TraceParent::parse(record.fields().trace) {
            self.traces.insert(record.revision, trace);
        }
        self.records.push_back(record);
        while self.records.len() > MOST || self.bytes > MOST_BYTES {
            self.drop_oldest();
        }
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        while self.records.front().is_some_and(|oldest| now.duration_since(oldest.time) > LONGEST) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.records.pop_front() {
            self.bytes -= size_of_one(&oldest);
            self.traces.remove(&oldest.revision);
        }
    }

    pub(super) fn records(&self) -> Vec<Arc<Record>> {
        self.records.iter().cloned().collect()
    }

    /// Whether any record belongs to a trace.
    pub(super) fn is_traced(&self) -> bool {
        !self.traces.is_empty()
    }

    /// The trace of the write with this revision.
    pub(super) fn trace_of(&self, revision: u64) -> Option<TraceParent> {
        self.traces.get(&revision).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The record, its two counts and its place in the ring.
fn size_of_one(record: &Record) -> usize {
    record.bytes() + 3 * size_of::<usize>()
}

#[cfg(test)]
mod tests {
    use super::super::record::{Effect, Fields};
    use super::*;

    fn record(second: i64, cause: &str) -> Arc<Record> {
        let time = Timestamp::from_second(second).unwrap();
        Arc::new(Record::new(second as u64, time, "create", Effect::Created, &Fields { cause, ..Fields::default() }))
    }

    #[test]
    fn memory_is_bounded_whatever_is_written() {
        let mut ring = Ring::default();
        for _ in 0..3 * MOST {
            ring.push(record(7, ""));
        }
        assert_eq!(ring.len(), MOST);
        let large = "x".repeat(4096);
        for _ in 0..2 * MOST {
            ring.push(record(8, &large));
        }
        assert!(ring.bytes() <= MOST_BYTES && ring.len() < MOST / 8, "{} in {}", ring.len(), ring.bytes());
        ring.expire(Timestamp::from_second(8 + 3601).unwrap());
        assert_eq!((ring.len(), ring.bytes()), (0, 0));
    }

    #[test]
    fn an_hour_later_a_write_is_forgotten_and_the_next_is_not() {
        let mut ring = Ring::default();
        ring.push(record(100, ""));
        ring.push(record(200, ""));
        ring.push(record(100 + 3601, ""));
        assert_eq!(ring.records().iter().map(|r| r.revision).collect::<Vec<_>>(), [200, 3701]);
    }
}
