//! The queue's waking and waiting: who is rung for when, and who passes a ring on.
//!
//! This is what the model checker runs, with its own lock and bell (see `model`). The rule that keeps keys from being
//! lost: adding keys notifies once, and taking a key notifies once more if something is left.

use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

use super::state::State;
use super::sync::{Bell, Lock};
use super::{Class, Config};

#[derive(Debug)]
pub(super) struct Core<T, L, B> {
    state: L,
    changed: B,
    keys: PhantomData<fn() -> T>,
}

impl<T: Hash + Eq + Clone, L: Lock<State<T>>, B: Bell> Core<T, L, B> {
    pub(super) fn new(config: Config) -> Self {
        Core { state: L::new(State::new(config)), changed: B::default(), keys: PhantomData }
    }

    pub(super) fn read<R>(&self, look: impl FnOnce(&mut State<T>) -> R) -> R {
        self.state.with(look)
    }

    pub(super) fn now(&self) -> tokio::time::Instant {
        self.changed.now()
    }

    pub(super) fn add(&self, key: T, class: Class) {
        let now = self.now();
        if self.state.with(|state| state.add(key, class, now)) {
            self.changed.ring();
        }
    }

    pub(super) fn add_after(&self, key: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(key, Class::Normal);
        }
        let now = self.now();
        // A delay beyond the end of time is never over.
        let Some(due) = now.checked_add(delay) else { return };
        if self.state.with(|state| state.add_at(key, due, now)) {
            self.changed.ring();
        }
    }

    pub(super) fn add_rate_limited(&self, key: T) {
        let now = self.now();
        let delay = self.state.with(|state| state.fail(&key, now));
        self.add_after(key, delay);
    }

    pub(super) async fn get(&self) -> Option<T> {
        loop {
            let changed = self.changed.heard();
            let now = self.now();
            let looked = self.state.with(|state| {
                if state.is_shut_down() {
                    return Looked::ShutDown;
                }
                state.release_due(now);
                match state.take(now) {
                    Some(key) => Looked::Took { key, more: state.has_more() },
                    None => Looked::Nothing { next: state.next_due() },
                }
            });
            match looked {
                Looked::ShutDown => {
                    // One ring reaches one worker: pass it on.
                    self.changed.ring();
                    return None;
                }
                Looked::Took { key, more } => {
                    if more {
                        self.changed.ring();
                    }
                    return Some(key);
                }
                Looked::Nothing { next: Some(due) } => tokio::select! {
                    biased;
                    () = changed => {}
                    () = self.changed.until(due) => {}
                },
                Looked::Nothing { next: None } => changed.await,
            }
        }
    }

    pub(super) fn done(&self, key: &T) {
        let now = self.now();
        if self.state.with(|state| state.done(key, now)) {
            self.changed.ring();
        }
    }

    pub(super) fn shut_down(&self) {
        self.state.with(State::shut_down);
        self.changed.ring();
    }
}

/// What a look into the books showed.
enum Looked<T> {
    ShutDown,
    Took { key: T, more: bool },
    Nothing { next: Option<tokio::time::Instant> },
}
