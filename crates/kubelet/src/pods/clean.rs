//! What becomes of containers whose Pod the API server knows no more.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_runtime::{Error, Key};

use super::observe::{failed, observe};
use super::prepare::teardown;
use super::{Home, Pods, Seat, by_node};

/// No one waits for such a Pod to end well.
const GRACE: Duration = Duration::from_secs(1);

impl Pods {
    /// Removes what is on the node's disk of Pods that neither the API server nor the runtime knows, as a crash leaves it.
    pub(crate) async fn sweep(&self, home: &Home) {
        let Some(machine) = &home.machine else { return };
        // Their list comes first: a Pod that gets a directory later is known by then.
        let found = machine.found().await;
        self.pods.synced().await;
        let Ok(sandboxes) = home.runtime.list_sandboxes(None).await else {
            tracing::warn!(node = %home.name, "the runtime does not say what it runs; nothing on the disk is removed");
            return;
        };
        let mut known: BTreeSet<String> = sandboxes.into_iter().map(|sandbox| sandbox.pod.uid).collect();
        known.extend(self.pods.by(by_node, &home.name).iter().filter_map(|pod| pod.metadata.uid.clone()));
        known.extend(self.statics.uids());
        known.extend(self.seats().values().flat_map(|lives| lives.keys().cloned()));
        for uid in found.into_iter().filter(|uid| !known.contains(uid)) {
            match machine.sweep(uid.clone()).await {
                Ok(()) => tracing::info!(node = %home.name, %uid, "removed what a Pod had left on the disk"),
                Err(message) => tracing::warn!(node = %home.name, %uid, %message),
            }
        }
    }

    /// Stops what runs, then removes what is left; says after which time to look again.
    pub(super) async fn clean(&self, key: &Key, seat: &Seat) -> Result<Option<Duration>, Error> {
        let mut memory = seat.memory.lock().await;
        let runtime = &seat.home.runtime;
        for container in observe(seat).await?.containers.iter().filter(|container| container.has_process()) {
            // One whose stop the runtime gave up is asked again.
            let asked = memory.asked.get(&container.id).filter(|_| container.stopping);
            if asked.is_none_or(|asked| *asked > GRACE) {
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
