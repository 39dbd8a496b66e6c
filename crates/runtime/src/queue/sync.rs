//! What the queue locks and waits with, behind two small traits, so that a model checker can stand in for both.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// A value that one caller at a time may touch.
pub(super) trait Lock<V> {
    fn new(value: V) -> Self;
    fn with<R>(&self, touch: impl FnOnce(&mut V) -> R) -> R;
}

/// Wakes one of those who wait; a ring that no one heard is kept for the next who listens, but only one.
pub(super) trait Bell: Default {
    fn ring(&self);
    fn heard(&self) -> impl Future<Output = ()> + Send;
    fn now(&self) -> Instant;
    fn until(&self, due: Instant) -> impl Future<Output = ()> + Send;
}

impl<V> Lock<V> for Mutex<V> {
    fn new(value: V) -> Self {
        Mutex::new(value)
    }

    fn with<R>(&self, touch: impl FnOnce(&mut V) -> R) -> R {
        touch(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Bell for Notify {
    fn ring(&self) {
        self.notify_one();
    }

    fn heard(&self) -> impl Future<Output = ()> + Send {
        self.notified()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn until(&self, due: Instant) -> impl Future<Output = ()> + Send {
        tokio::time::sleep_until(due)
    }
}
