//! How a loop is told to stop: a trigger at one end, any number of listeners at the other.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

/// Fires when [`Trigger::fire`] is called, when the trigger is dropped, or when the parent fires.
#[derive(Clone, Debug)]
pub struct Shutdown {
    own: watch::Receiver<bool>,
    parent: Option<Arc<Shutdown>>,
}

/// The end that stops things. Dropping it stops them too, so that nothing outlives its owner.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Shutdown {
    pub fn new() -> (Trigger, Shutdown) {
        let (sender, own) = watch::channel(false);
        (Trigger(sender), Shutdown { own, parent: None })
    }

    /// A shutdown of its own that also fires with this one.
    pub fn child(&self) -> (Trigger, Shutdown) {
        let (trigger, child) = Shutdown::new();
        (trigger, Shutdown { parent: Some(Arc::new(self.clone())), ..child })
    }

    pub fn has_fired(&self) -> bool {
        let own = *self.own.borrow() || self.own.has_changed().is_err();
        own || self.parent.as_ref().is_some_and(|parent| parent.has_fired())
    }

    /// Returns once it has fired.
    pub fn fired(&self) -> BoxFuture<'_, ()> {
        let mut own = self.own.clone();
        async move {
            // An error says that the trigger was dropped, which is a way of firing.
            let own = async { drop(own.wait_for(|fired| *fired).await) };
            match &self.parent {
                Some(parent) => tokio::select! {
                    () = own => {}
                    () = parent.fired() => {}
                },
                None => own.await,
            }
        }
        .boxed()
    }
}

impl Trigger {
    pub fn fire(&self) {
        self.0.send_replace(true);
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
