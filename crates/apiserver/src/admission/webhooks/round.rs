//! What happened while mutating plugins were asked about one object, and whether all are asked once more.
//!
//! A plugin of the server may have to look again at what a webhook changed, and a webhook that asks for it
//! (`reinvocationPolicy: IfNeeded`) at what others changed after it. There is one second round, never a third.

use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Round(Mutex<State>);

#[derive(Default)]
struct State {
    is_second: bool,
    /// A webhook changed the object.
    changed: bool,
    /// Asked in this round, and to be asked again if somebody changes the object.
    asked: HashSet<String>,
    again: HashSet<String>,
    /// The object as the webhooks left it.
    left: Option<Value>,
}

impl Round {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_second(&self) -> bool {
        self.state().is_second
    }

    /// Begins the second round, if there is to be one.
    pub fn repeats(&self) -> bool {
        let mut state = self.state();
        let repeats = state.changed && !state.is_second;
        state.is_second = true;
        repeats
    }

    /// The webhooks' turn begins: have others changed the object since they left it?
    pub(super) fn enter(&self, object: &Value) {
        let mut state = self.state();
        if state.is_second && state.left.as_ref() != Some(object) {
            state.recall();
        }
    }

    pub(super) fn leave(&self, object: &Value) {
        let mut state = self.state();
        if !state.is_second && (state.changed || !state.asked.is_empty()) {
            state.left = Some(object.clone());
        }
    }

    /// Is it this webhook's turn in this round?
    pub(super) fn asks(&self, hook: &str) -> bool {
        let state = self.state();
        !state.is_second || state.again.contains(hook)
    }

    pub(super) fn asked(&self, hook: &str, is_asked_again: bool, changed: bool) {
        let mut state = self.state();
        if changed {
            state.changed = true;
            state.recall();
        }
        if is_asked_again {
            state.asked.insert(hook.to_owned());
        }
    }
}

impl State {
    fn recall(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        self.again.extend(asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_asks_for_it_is_asked_again_when_another_changed_the_object_after_it() {
        let round = Round::default();
        round.enter(&json!({}));
        round.asked("first", true, false);
        round.asked("second", true, true);
        round.asked("third", true, false);
        round.leave(&json!({"a": 1}));
        assert!(round.repeats());
        round.enter(&json!({"a": 1}));
        assert!(round.asks("first"));
        // What it changed itself is no reason to ask it again.
        assert!(!round.asks("second") && !round.asks("third"));
        assert!(!round.repeats());
    }

    #[test]
    fn an_object_that_no_webhook_changed_has_one_round() {
        let round = Round::default();
        round.enter(&json!({}));
        round.asked("first", true, false);
        round.leave(&json!({}));
        assert!(!round.repeats());
    }

    #[test]
    fn a_change_by_the_server_itself_counts_as_one_by_another() {
        let round = Round::default();
        round.enter(&json!({}));
        round.asked("first", true, true);
        round.leave(&json!({"a": 1}));
        assert!(round.repeats());
        round.enter(&json!({"a": 1, "server": 2}));
        assert!(round.asks("first"));
    }
}
