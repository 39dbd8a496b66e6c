//! What programs outside have answered: remembered for a while, and asked for once, however many ask the same at one time.
//!
//! - A question is known by a digest. Who reads this memory finds neither tokens nor questions.
//! - An answer is kept for as long as it says itself. When there are too many, the one that was used longest ago goes.
//! - The one who asks first may leave: the question is a task of its own, and those who joined get its answer.

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use jiff::{SignedDuration, Timestamp};
use pintle_meta::Clock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub type Key = [u8; 32];

/// Names a question. Each part counts for itself: `["a", "b"]` is another question than `["ab"]`.
pub fn key<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Key {
    let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for part in parts {
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finish().as_ref().try_into().unwrap_or_default()
}

pub struct Memo<T: Clone> {
    clock: Clock,
    max: usize,
    state: Arc<Mutex<State<T>>>,
}

struct State<T: Clone> {
    answers: HashMap<Key, Kept<T>>,
    /// The keys of `answers` by when they were last used.
    used: BTreeMap<u64, Key>,
    uses: u64,
    asking: HashMap<Key, Shared<BoxFuture<'static, Option<T>>>>,
}

struct Kept<T> {
    value: T,
    until: Timestamp,
    used: u64,
}

impl<T: Clone + Send + Sync + 'static> Memo<T> {
    pub fn new(clock: Clock, max: usize) -> Self {
        let state = State { answers: HashMap::new(), used: BTreeMap::new(), uses: 0, asking: HashMap::new() };
        Memo { clock, max, state: Arc::new(Mutex::new(state)) }
    }

    /// The answer to a question. `ask` runs only if nobody else is asking and nothing is remembered; it says for how long its
    /// answer counts. None if it panicked.
    pub async fn get(&self, key: Key, ask: impl Future<Output = (T, Duration)> + Send + 'static) -> Option<T> {
        let asking = {
            let mut state = self.lock();
            if let Some(value) = state.remembered(&key, self.clock.now()) {
                return Some(value);
            }
            state.asking.entry(key).or_insert_with(|| self.begin(key, ask)).clone()
        };
        let answer = asking.await;
        if answer.is_none() {
            self.lock().asking.remove(&key);
        }
        answer
    }

    fn begin(
        &self,
        key: Key,
        ask: impl Future<Output = (T, Duration)> + Send + 'static,
    ) -> Shared<BoxFuture<'static, Option<T>>> {
        let (state, clock, max) = (self.state.clone(), self.clock.clone(), self.max);
        let task = tokio::spawn(async move {
            let (value, keep) = ask.await;
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.asking.remove(&key);
            let until = SignedDuration::try_from(keep).ok().and_then(|keep| clock.now().checked_add(keep).ok());
            if let Some(until) = until.filter(|_| keep > Duration::ZERO) {
                state.keep(key, value.clone(), until, max);
            }
            value
        });
        task.map(Result::ok).boxed().shared()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> State<T> {
    fn remembered(&mut self, key: &Key, now: Timestamp) -> Option<T> {
        let kept = self.answers.get_mut(key)?;
        self.used.remove(&kept.used);
        if kept.until <= now {
            self.answers.remove(key);
            return None;
        }
        self.uses += 1;
        kept.used = self.uses;
        self.used.insert(self.uses, *key);
        Some(kept.value.clone())
    }

    fn keep(&mut self, key: Key, value: T, until: Timestamp, max: usize) {
        self.uses += 1;
        if let Some(old) = self.answers.insert(key, Kept { value, until, used: self.uses }) {
            self.used.remove(&old.used);
        }
        self.used.insert(self.uses, key);
        while self.answers.len() > max {
            let Some((_, oldest)) = self.used.pop_first() else { return };
            self.answers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const MINUTE: Duration = Duration::from_secs(60);

    struct Asked {
        memo: Memo<u32>,
        count: Arc<AtomicU32>,
    }

    impl Asked {
        fn new(max: usize) -> Self {
            let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
            Asked { memo: Memo::new(clock, max), count: Arc::default() }
        }

        async fn ask(&self, what: u8, takes: Duration, keep: Duration) -> Option<u32> {
            let count = self.count.clone();
            let ask = async move {
                let number = count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(takes).await;
                assert_ne!(what, 99, "as asked");
                (number, keep)
            };
            self.memo.get([what; 32], ask).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_the_same_at_once_ask_once_and_a_slow_answer_holds_up_nobody_else() {
        let asked = Asked::new(10);
        let began = tokio::time::Instant::now();
        let slow = asked.ask(1, MINUTE, MINUTE);
        let same = asked.ask(1, MINUTE, MINUTE);
        let other = async {
            let answer = asked.ask(2, Duration::ZERO, MINUTE).await;
            assert!(began.elapsed() < MINUTE);
            answer
        };
        assert_eq!(futures::join!(slow, same, other), (Some(0), Some(0), Some(1)));
        assert_eq!(asked.ask(1, MINUTE, MINUTE).await, Some(0));
        tokio::time::advance(2 * MINUTE).await;
        assert_eq!(asked.ask(1, Duration::ZERO, Duration::ZERO).await, Some(2));
        assert_eq!(asked.ask(1, Duration::ZERO, Duration::ZERO).await, Some(3), "what is not to be kept is not");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_comes_also_when_the_first_who_asked_has_left() {
        let asked = Asked::new(10);
        assert!(tokio::time::timeout(MINUTE / 2, asked.ask(1, MINUTE, MINUTE)).await.is_err());
        assert_eq!(asked.ask(1, MINUTE, MINUTE).await, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_used_longest_ago_makes_room() {
        let asked = Asked::new(2);
        for what in [1, 2, 1, 3] {
            asked.ask(what, Duration::ZERO, MINUTE).await;
        }
        assert_eq!(asked.ask(1, Duration::ZERO, MINUTE).await, Some(0));
        assert_eq!(asked.ask(2, Duration::ZERO, MINUTE).await, Some(3));
        assert!(asked.memo.lock().answers.len() == 2 && asked.memo.lock().used.len() == 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_panics_does_not_stay_for_ever() {
        let asked = Asked::new(2);
        assert_eq!(asked.ask(99, Duration::ZERO, MINUTE).await, None);
        assert!(asked.memo.lock().asking.is_empty());
    }
}
