//! Which images go: when the disk is too full, the least recently used first, never one in use, pinned or young.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use pintle_container::{Container, Image};

use super::Collection;

/// The file system that holds the images.
pub(super) struct Disk {
    pub(super) capacity: u64,
    pub(super) available: u64,
}

impl Disk {
    /// How many bytes must go; none while it is below the high threshold.
    pub(super) fn to_free(&self, settings: &Collection) -> u64 {
        if self.capacity == 0 {
            return 0;
        }
        let free_percent = self.available.min(self.capacity) * 100 / self.capacity;
        if 100 - free_percent < u64::from(settings.image_high_threshold) {
            return 0;
        }
        let low = u64::from(settings.image_low_threshold).min(100);
        (self.capacity * (100 - low) / 100).saturating_sub(self.available)
    }
}

/// When each image came and was last in use, as far as this process has seen.
#[derive(Default)]
pub(super) struct Records(BTreeMap<String, Record>);

struct Record {
    came: Timestamp,
    used: Option<Timestamp>,
}

impl Records {
    /// Looks at what is there and at what uses it. Dead containers use their images too.
    pub(super) fn take_note(&mut self, images: &[Image], containers: &[Container], now: Timestamp) {
        self.0.retain(|id, _| images.iter().any(|image| image.id == *id));
        for image in images {
            let record = self.0.entry(image.id.clone()).or_insert(Record { came: now, used: None });
            if containers.iter().any(|container| uses(container, image)) {
                record.used = Some(now);
            }
        }
    }

    /// What may go now, with its size, in the order in which it should.
    pub(super) fn least_recent(&self, images: &[Image], settings: &Collection, now: Timestamp) -> Vec<(String, u64)> {
        let mut unused: Vec<_> = self
            .unused(images, now)
            .filter(|(_, record)| age(record.came, now) >= settings.image_minimum_age)
            .map(|(image, record)| ((record.used, record.came), image))
            .collect();
        unused.sort_by(|(a, first), (b, second)| a.cmp(b).then_with(|| first.id.cmp(&second.id)));
        unused.into_iter().map(|(_, image)| (image.id.clone(), image.size)).collect()
    }

    /// What nobody has used for too long.
    pub(super) fn too_old(&self, images: &[Image], settings: &Collection, now: Timestamp) -> Vec<String> {
        let longest = settings.image_maximum_age;
        if longest.is_zero() {
            return Vec::new();
        }
        let old = self.unused(images, now).filter(|(_, record)| age(record.used.unwrap_or(record.came), now) > longest);
        old.map(|(image, _)| image.id.clone()).collect()
    }

    fn unused<'a>(&'a self, images: &'a [Image], now: Timestamp) -> impl Iterator<Item = (&'a Image, &'a Record)> {
        images
            .iter()
            .filter(|image| !image.pinned)
            .filter_map(|image| Some((image, self.0.get(&image.id)?)))
            .filter(move |(_, record)| record.used != Some(now))
    }
}

/// Runtimes name a container's image by its digest or by one of its names.
fn uses(container: &Container, image: &Image) -> bool {
    let named = [&container.image_id, &container.image];
    named.into_iter().any(|name| *name == image.id || image.names.contains(name))
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pintle_container::{ContainerId, PodRef, SandboxId, State};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn image(id: &str, size: u64) -> Image {
        Image { id: id.into(), name: id.into(), size, names: vec![format!("r/{id}:1")], ..Image::default() }
    }

    fn container(image: &str) -> Container {
        Container {
            id: ContainerId("c".into()),
            sandbox: SandboxId("s".into()),
            pod: PodRef::default(),
            name: "c".into(),
            attempt: 0,
            image: image.into(),
            image_id: String::new(),
            created_at: at(0),
            state: State::Unknown,
            asked_image: None,
            stopping: false,
        }
    }

    #[test]
    fn a_disk_is_emptied_from_the_high_threshold_down_to_the_low_one_and_left_alone_below() {
        let settings = Collection::default();
        for (available, expected) in [(100, 0), (16, 0), (15, 5), (3, 17), (0, 20)] {
            assert_eq!(Disk { capacity: 100, available }.to_free(&settings), expected, "{available} of 100 are free");
        }
        assert_eq!(Disk { capacity: 0, available: 0 }.to_free(&settings), 0);
    }

    #[test]
    fn what_is_in_use_pinned_or_young_stays_and_the_rest_goes_by_its_last_use() {
        let settings = Collection::default();
        let pinned = Image { pinned: true, ..image("pause", 1) };
        let images = [image("never", 1), image("early", 2), image("late", 3), image("now", 4), pinned];
        let mut records = Records::default();
        records.take_note(&images, &[container("r/early:1"), container("r/late:1")], at(0));
        records.take_note(&images, &[container("late")], at(100));
        let young = image("young", 9);
        let images = [&images[..], &[young]].concat();
        records.take_note(&images, &[container("now")], at(200));
        let ids = |found: Vec<(String, u64)>| found.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(records.least_recent(&images, &settings, at(200))), ["never", "early", "late"]);
        // An hour later nothing is young any more, and what was in use is not known to be used now.
        records.take_note(&images, &[], at(3800));
        assert_eq!(ids(records.least_recent(&images, &settings, at(3800))), ["never", "young", "early", "late", "now"]);
    }

    #[test]
    fn images_that_nobody_used_for_too_long_go_even_from_an_empty_disk() {
        let images = [image("old", 1), image("used", 1)];
        let mut records = Records::default();
        records.take_note(&images, &[], at(0));
        records.take_note(&images, &[container("used")], at(50));
        let settings = Collection { image_maximum_age: Duration::from_secs(60), ..Collection::default() };
        assert_eq!(records.too_old(&images, &settings, at(100)), ["old"]);
        assert!(records.too_old(&images, &Collection::default(), at(9999)).is_empty());
    }
}
