//! How a loop is told to stop: a trigger at one end, any number of listeners at the other.

use tokio::sync::watch;

/// Fires when [`Trigger::fire`] is called or when the trigger is dropped.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// The end that stops things. Dropping it stops them too, so that nothing outlives its owner.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Shutdown {
    pub fn new() -> (Trigger, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Trigger(sender), Shutdown(receiver))
    }

    pub fn has_fired(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Returns once the trigger has fired or is gone.
    pub async fn fired(&self) {
        // An error says that the trigger was dropped, which is a way of firing.
        let _ = self.0.clone().wait_for(|fired| *fired).await;
    }
}

impl Trigger {
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}
