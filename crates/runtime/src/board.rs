//! Which loops are at work, how much they have to do and what goes wrong in them: for tests, metrics and `pintle loops`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::key::Key;
use crate::queue::{Durations, Metrics, Queue};

/// Over how long reconciles are counted for their rate.
const WINDOW: Duration = Duration::from_secs(60);

/// So many failing keys are known by name; of more only the number is.
const MOST_FAILING: usize = 1024;

/// The queues of every loop of a context. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Vec<Entry>>>);

#[derive(Debug)]
struct Entry {
    name: String,
    queue: Queue<Key>,
    record: Arc<Record>,
}

/// What a loop is doing.
#[derive(Clone, Debug)]
pub struct Report {
    pub name: String,
    pub queue: Metrics,
    /// The key that has been worked on longest.
    pub longest: Option<(Key, Duration)>,
    /// Reconciles since the loop began.
    pub reconciles: u64,
    /// Reconciles of the last full minute.
    pub per_minute: u64,
    /// Keys that failed and have not succeeded since.
    pub failing: Vec<Failing>,
    pub last_error: Option<LastError>,
}

/// A key that failed and will be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub key: Key,
    /// In a row.
    pub failures: u32,
    pub error: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    pub key: Key,
    pub error: String,
    pub at: Timestamp,
}

/// What one loop's workers note as they go.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    reconciles: u64,
    /// When the window that is being counted began, and how many it has.
    window: Option<(Instant, u64)>,
    /// When the window before it began, and how many it had.
    before: Option<(Instant, u64)>,
    failing: BTreeMap<Key, (u32, String)>,
    last_error: Option<LastError>,
}

impl Noted {
    /// Moves on to the window in which this moment is.
    fn turn(&mut self, now: Instant) {
        if self.window.is_some_and(|(began, _)| now.saturating_duration_since(began) >= WINDOW) {
            self.before = self.window.take();
        }
        if self.before.is_some_and(|(began, _)| now.saturating_duration_since(began) >= 2 * WINDOW) {
            self.before = None;
        }
    }
}

impl Record {
    /// A reconcile ended well: whatever was wrong with the key is no more.
    pub(crate) fn succeeded(&self, key: &Key) {
        let mut noted = self.noted();
        noted.count();
        noted.failing.remove(key);
    }

    /// A reconcile failed, so many times in a row. `is_over` where it is not tried again.
    pub(crate) fn failed(&self, key: &Key, failures: u32, error: &str, (at, is_over): (Timestamp, bool)) {
        let mut noted = self.noted();
        noted.count();
        noted.last_error = Some(LastError { key: key.clone(), error: error.to_owned(), at });
        if is_over {
            noted.failing.remove(key);
        } else if noted.failing.len() < MOST_FAILING || noted.failing.contains_key(key) {
            noted.failing.insert(key.clone(), (failures, error.to_owned()));
        }
    }

    fn failing(&self) -> Vec<Failing> {
        let noted = self.noted();
        let failing = noted.failing.iter();
        failing
            .map(|(key, (failures, error))| Failing { key: key.clone(), failures: *failures, error: error.clone() })
            .collect()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
    fn count(&mut self) {
        let now = Instant::now();
        self.turn(now);
        self.reconciles += 1;
        self.window.get_or_insert((now, 0)).1 += 1;
    }
}

impl Board {
    /// What each loop has counted, in the order in which they started. Loops that have ended are not in it.
    pub fn loops(&self) -> Vec<(String, Metrics)> {
        self.at_work().iter().map(|entry| (entry.name.clone(), entry.queue.metrics())).collect()
    }

    /// Everything about each loop, in the same order.
    pub fn reports(&self) -> Vec<Report> {
        let entries = self.at_work();
        let report = |entry: &Entry| {
            let (reconciles, per_minute, last_error) = {
                let mut noted = entry.record.noted();
                noted.turn(Instant::now());
                (noted.reconciles, noted.before.map_or(0, |(_, count)| count), noted.last_error.clone())
            };
            let (name, queue) = (entry.name.clone(), entry.queue.metrics());
            let (longest, failing) = (entry.queue.longest_running(), entry.record.failing());
            Report { name, queue, longest, reconciles, per_minute, failing, last_error }
        };
        entries.iter().map(report).collect()
    }

    /// How long their keys waited and were worked on, in the same order.
    pub(crate) fn durations(&self) -> Vec<Durations> {
        self.at_work().iter().map(|entry| entry.queue.durations()).collect()
    }

    /// Whether no loop has a key ready or in hand. Keys that wait for their time do not count.
    pub fn is_idle(&self) -> bool {
        self.loops().iter().all(|(_, metrics)| metrics.depth == 0 && metrics.working == 0)
    }

    /// Keys that failed and have not succeeded since, with their loops.
    pub fn failing(&self) -> Vec<(String, Failing)> {
        let entries = self.at_work();
        let failing =
            |entry: &Entry| entry.record.failing().into_iter().map(|one| (entry.name.clone(), one)).collect::<Vec<_>>();
        entries.iter().flat_map(failing).collect()
    }

    /// Keys that have been worked on for longer than this, with their loops: their workers may never come back.
    pub fn stuck(&self, longer_than: Duration) -> Vec<(String, Key, Duration)> {
        let entries = self.at_work();
        let running = entries.iter().filter_map(|entry| {
            let (key, time) = entry.queue.longest_running()?;
            Some((entry.name.clone(), key, time))
        });
        running.filter(|(_, _, time)| *time > longer_than).collect()
    }

    /// Those that have not ended: a key that was in hand when its loop was lost is in nobody's hands.
    fn at_work(&self) -> MutexGuard<'_, Vec<Entry>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| !entry.queue.is_shut_down());
        entries
    }

    /// A loop with this queue begins; its workers note in the record what comes of their keys.
    pub(crate) fn enter(&self, name: &str, queue: Queue<Key>) -> Arc<Record> {
        let record = Arc::new(Record::default());
        let entry = Entry { name: name.to_owned(), queue, record: record.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_does_not_come_back_is_named_and_one_whose_loop_was_lost_is_not() {
        let (board, queue) = (Board::default(), Queue::default());
        board.enter("slow", queue.clone());
        queue.add(Key::new("shop", "web"));
        assert_eq!(queue.get().await, Some(Key::new("shop", "web")));
        tokio::time::advance(Duration::from_secs(700)).await;
        assert!(board.stuck(Duration::from_secs(800)).is_empty());
        let stuck = board.stuck(Duration::from_secs(600));
        assert_eq!(stuck, [("slow".to_owned(), Key::new("shop", "web"), Duration::from_secs(700))]);
        queue.shut_down();
        assert!(board.stuck(Duration::from_secs(600)).is_empty() && board.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_fails_is_known_with_its_error_until_it_succeeds() {
        let (board, queue) = (Board::default(), Queue::default());
        let record = board.enter("web", queue.clone());
        let (key, now) = (Key::new("shop", "web"), Timestamp::UNIX_EPOCH);
        record.failed(&key, 1, "no", (now, false));
        record.failed(&key, 2, "still no", (now, false));
        let failing = Failing { key: key.clone(), failures: 2, error: "still no".into() };
        assert_eq!(board.failing(), [("web".to_owned(), failing)]);
        record.succeeded(&key);
        assert!(board.failing().is_empty());
        record.failed(&key, 1, "never", (now, true));
        assert!(board.failing().is_empty(), "it is not tried again");
        tokio::time::advance(WINDOW).await;
        let report = board.reports().remove(0);
        assert_eq!((report.reconciles, report.per_minute), (4, 4));
        assert_eq!(report.last_error.unwrap().error, "never");
        tokio::time::advance(2 * WINDOW).await;
        assert_eq!(board.reports()[0].per_minute, 0);
    }
}
