//! How a loop is told to stop: a trigger at one end, any number of listeners at the other.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::moment::Moment;

/// Fires when [`Trigger::fire`] is called, when the trigger is dropped, or when the parent fires.
#[derive(Clone, Debug)]
pub struct Shutdown {
    own: Moment,
    parent: Option<Arc<Shutdown>>,
}

/// The end that stops things. Dropping it stops them too, so that nothing outlives its owner.
#[derive(Debug)]
pub struct Trigger(Moment);

impl Shutdown {
    pub fn new() -> (Trigger, Shutdown) {
        let own = Moment::default();
        (Trigger(own.clone()), Shutdown { own, parent: None })
    }

    /// A shutdown of its own that also fires with this one.
    pub fn child(&self) -> (Trigger, Shutdown) {
        let (trigger, child) = Shutdown::new();
        (trigger, Shutdown { parent: Some(Arc::new(self.clone())), ..child })
    }

    pub fn has_fired(&self) -> bool {
        self.own.has_come() || self.parent.as_ref().is_some_and(|parent| parent.has_fired())
    }

    /// Returns once it has fired.
    pub fn fired(&self) -> BoxFuture<'_, ()> {
        async move {
            match &self.parent {
                Some(parent) => tokio::select! {
                    biased;
                    () = self.own.wait() => {}
                    () = parent.fired() => {}
                },
                None => self.own.wait().await,
            }
        }
        .boxed()
    }
}

impl Trigger {
    pub fn fire(&self) {
        self.0.come();
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        self.0.come();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stopping_one_loop_leaves_its_siblings_and_stopping_all_stops_each() {
        let (all, root) = Shutdown::new();
        let (one, first) = root.child();
        let (_two, second) = root.child();
        one.fire();
        first.fired().await;
        assert!(first.has_fired() && !second.has_fired() && !root.has_fired());
        drop(all);
        second.fired().await;
        assert!(second.has_fired());
    }
}
