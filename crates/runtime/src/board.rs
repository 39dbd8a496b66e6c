//! Which loops are at work and how much they have to do, for tests, metrics and the page.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::key::Key;
use crate::queue::{Durations, Metrics, Queue};

/// The queues of every loop of a context. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Vec<Entry>>>);

#[derive(Debug)]
struct Entry {
    name: String,
    queue: Queue<Key>,
}

impl Board {
    /// What each loop has counted, in the order in which they started. Loops that have ended are not in it.
    pub fn loops(&self) -> Vec<(String, Metrics)> {
        self.at_work().iter().map(|entry| (entry.name.clone(), entry.queue.metrics())).collect()
    }

    /// How long their keys waited and were worked on, in the same order.
    pub(crate) fn durations(&self) -> Vec<Durations> {
        self.at_work().iter().map(|entry| entry.queue.durations()).collect()
    }

    /// Whether no loop has a key ready or in hand. Keys that wait for their time do not count.
    pub fn is_idle(&self) -> bool {
        self.loops().iter().all(|(_, metrics)| metrics.depth == 0 && metrics.working == 0)
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

    pub(crate) fn enter(&self, name: &str, queue: Queue<Key>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Entry { name: name.to_owned(), queue });
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
}
