//! Something that comes to pass once, and any number of tasks that wait for it.
//!
//! Waiters wake in the order in which they came. That is why this is not a `tokio::sync::watch`, which wakes them in an
//! order drawn at random, and the same seed would not give the same run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Cheap to clone; clones are the same moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment(Arc<State>);

#[derive(Debug, Default)]
struct State {
    has_come: AtomicBool,
    waiting: Notify,
}

impl Moment {
    pub(crate) fn has_come(&self) -> bool {
        self.0.has_come.load(Ordering::Acquire)
    }

    pub(crate) fn come(&self) {
        if !self.0.has_come.swap(true, Ordering::AcqRel) {
            self.0.waiting.notify_waiters();
        }
    }

    pub(crate) async fn wait(&self) {
        // Made before the look, so that what comes in between is not missed.
        let coming = self.0.waiting.notified();
        if !self.has_come() {
            coming.await;
        }
    }
}
