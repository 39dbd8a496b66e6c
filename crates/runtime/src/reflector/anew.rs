//! Asking a reflector to list its kind anew: a watch may be open and tell nothing, or tell it late.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// Shared by a reflector and those who look at what it mirrors.
#[derive(Debug, Default)]
pub(crate) struct Anew {
    wanted: Notify,
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    is_wanted: bool,
    /// When the list that is under way was asked for.
    begun: Option<Instant>,
    /// When the newest list that is whole was asked for: everything written before is in it.
    covers: Option<Instant>,
}

impl Anew {
    /// Has the kind listed anew, unless it is about to be.
    pub(crate) fn want(&self) {
        if !std::mem::replace(&mut self.lists().is_wanted, true) {
            self.wanted.notify_one();
        }
    }

    /// Everything that was written before this moment was told.
    pub(crate) fn covers(&self) -> Option<Instant> {
        self.lists().covers
    }

    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    pub(super) fn begin(&self) {
        let mut lists = self.lists();
        (lists.is_wanted, lists.begun) = (false, Some(Instant::now()));
    }

    /// The list that was begun is whole, and was told.
    pub(super) fn finish(&self) {
        let mut lists = self.lists();
        lists.covers = lists.begun.take();
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
