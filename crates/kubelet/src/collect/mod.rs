//! What the node agent removes by itself: images when the disk is full, and what dead containers leave behind.
//!
//! Settings and defaults are Kubernetes' own. How many dead runs a container keeps is the plan's business, since it knows
//! which of them a status still tells of; the node as a whole is looked at here.
//!
//! - `images`: which images go, least recently used first
//! - `containers`: which dead containers and sandboxes go, oldest first

mod containers;
mod images;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pintle_container::{Image, ImageStore, Runtime};
use pintle_meta::Clock;
use pintle_runtime::Recorder;
use tokio::time::Instant;

use crate::node::reference;
use images::{Disk, Records};

/// Between two looks at the dead containers.
const PERIOD: Duration = Duration::from_secs(60);

/// When to remove what.
#[derive(Clone, Debug)]
pub struct Collection {
    /// In percent: above the first, images go until the disk is below the second.
    pub image_high_threshold: u8,
    pub image_low_threshold: u8,
    /// Between two looks at the images.
    pub image_period: Duration,
    /// Younger images stay.
    pub image_minimum_age: Duration,
    /// Images that nobody used for so long go, however empty the disk is; zero for never.
    pub image_maximum_age: Duration,
    /// Younger dead containers stay.
    pub container_minimum_age: Duration,
    /// How many dead runs each container of a Pod keeps.
    pub dead_per_container: usize,
    /// How many dead containers the node keeps in all, if there is a bound.
    pub dead_per_node: Option<usize>,
}

impl Default for Collection {
    fn default() -> Self {
        Collection {
            image_high_threshold: 85,
            image_low_threshold: 80,
            image_period: Duration::from_secs(300),
            image_minimum_age: Duration::from_secs(120),
            image_maximum_age: Duration::ZERO,
            container_minimum_age: Duration::ZERO,
            dead_per_container: 1,
            dead_per_node: None,
        }
    }
}

/// The collector of one machine.
pub(crate) struct Collector {
    node: String,
    runtime: Arc<dyn Runtime>,
    recorder: Recorder,
    clock: Clock,
    settings: Collection,
    records: tokio::sync::Mutex<Records>,
}

impl Collector {
    pub(crate) fn new(
        node: String,
        runtime: Arc<dyn Runtime>,
        recorder: Recorder,
        clock: Clock,
        settings: Collection,
    ) -> Self {
        Collector { node, runtime, recorder, clock, settings, records: tokio::sync::Mutex::default() }
    }

    /// Removes all that nobody needs: dead containers of Pods that do not live, and images that nothing uses.
    pub(crate) async fn reclaim(&self, living: &BTreeSet<String>) -> Result<(), pintle_container::Error> {
        let mut records = self.records.lock().await;
        let now = self.clock.now();
        let all = self.runtime.list_containers(None).await?;
        for dead in all.iter().filter(|container| !container.is_alive() && !living.contains(&container.pod.uid)) {
            self.runtime.remove_container(&dead.id).await?;
        }
        let (present, left) = (self.runtime.list_images().await?, self.runtime.list_containers(None).await?);
        records.take_note(&present, &left, now);
        for (id, size) in records.least_recent(&present, &self.settings, now) {
            tracing::info!(node = %self.node, image = %id, bytes = size, "removed to make room");
            self.runtime.remove_image(&id).await?;
        }
        Ok(())
    }

    /// Runs until dropped.
    pub(crate) async fn run(&self) {
        let period = PERIOD.min(self.settings.image_period);
        // The first look at images only takes note of them: they get their age from it.
        let mut images_at = Instant::now();
        loop {
            let images = Instant::now() >= images_at;
            if images {
                images_at = Instant::now() + self.settings.image_period;
            }
            if let Err(error) = self.look(images).await {
                tracing::warn!(node = %self.node, %error, "nothing could be collected; trying again soon");
            }
            tokio::time::sleep(period).await;
        }
    }

    async fn look(&self, images: bool) -> Result<(), pintle_container::Error> {
        let mut records = self.records.lock().await;
        let now = self.clock.now();
        let (all, sandboxes) = (self.runtime.list_containers(None).await?, self.runtime.list_sandboxes(None).await?);
        for id in containers::superfluous(&all, &self.settings, now) {
            self.runtime.remove_container(&id).await?;
        }
        for id in containers::superseded(&sandboxes, &all) {
            self.runtime.remove_sandbox(&id).await?;
        }
        if !images {
            return Ok(());
        }
        let mut present = self.runtime.list_images().await?;
        records.take_note(&present, &all, now);
        for id in records.too_old(&present, &self.settings, now) {
            self.runtime.remove_image(&id).await?;
            present.retain(|image| image.id != id);
        }
        let Some(store) = self.runtime.image_store().await? else { return Ok(()) };
        if let Some(disk) = disk(&store) {
            self.make_room(&records, &present, &disk, now).await?;
        }
        Ok(())
    }

    async fn make_room(
        &self,
        records: &Records,
        present: &[Image],
        disk: &Disk,
        now: Timestamp,
    ) -> Result<(), pintle_container::Error> {
        let wanted = disk.to_free(&self.settings);
        if wanted == 0 {
            return Ok(());
        }
        let mut freed = 0;
        for (id, size) in records.least_recent(present, &self.settings, now) {
            if freed >= wanted {
                return Ok(());
            }
            tracing::info!(node = %self.node, image = %id, bytes = size, "removed to make room");
            self.runtime.remove_image(&id).await?;
            freed += size;
        }
        if freed < wanted {
            let message = format!(
                "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found \
                 {freed} bytes eligible to free."
            );
            self.recorder.record(&reference(&self.node), "Warning", "FreeDiskSpaceFailed", message);
        }
        Ok(())
    }
}

fn disk(store: &ImageStore) -> Option<Disk> {
    let told = rustix::fs::statvfs(store.path.as_str()).ok()?;
    Some(Disk { capacity: told.f_blocks * told.f_frsize, available: told.f_bavail * told.f_frsize })
}
