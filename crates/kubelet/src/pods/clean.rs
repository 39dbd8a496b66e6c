//! What becomes of containers whose Pod the API server knows no more.

use std::time::Duration;

use pintle_runtime::{Error, Key};

use super::observe::{failed, observe};
use super::prepare::teardown;
use super::{Pods, Seat};

/// No one waits for such a Pod to end well.
const GRACE: Duration = Duration::from_secs(1);

impl Pods {
    /// Stops what runs, then removes what is left; says after which time to look again.
    pub(super) async fn clean(&self, key: &Key, seat: &Seat) -> Result<Option<Duration>, Error> {
        let mut memory = seat.memory.lock().await;
        let runtime = &seat.home.runtime;
        for container in observe(seat).await?.containers.iter().filter(|container| container.is_alive()) {
            if memory.asked.get(&container.id).is_none_or(|asked| *asked > GRACE) {
                runtime.stop_container(&container.id, GRACE).await.map_err(failed)?;
                memory.asked.insert(container.id.clone(), GRACE);
            }
        }
        let world = observe(seat).await?;
        if !world.nothing_runs() {
            return Ok(Some(GRACE));
        }
        if seat.home.machine.is_some() {
            for sandbox in &world.sandboxes {
                runtime.stop_sandbox(&sandbox.id).await.map_err(failed)?;
            }
            // The sandbox goes last: after a crash it is what tells of the Pod.
            teardown(key, seat).await?;
        }
        for sandbox in &world.sandboxes {
            runtime.remove_sandbox(&sandbox.id).await.map_err(failed)?;
        }
        self.forget(key, &seat.uid);
        Ok(None)
    }
}
