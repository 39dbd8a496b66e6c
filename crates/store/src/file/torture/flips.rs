//! Flipped bytes: each is noticed, or changes nothing.

use super::setting;
use super::world::World;
use crate::chance::Chance;
use crate::file::block::BLOCK;
use crate::file::recover::Problem;
use crate::file::sim::SimDisk;

#[test]
fn a_flipped_byte_is_noticed_or_changes_nothing() {
    let flips = setting("PINTLE_FLIPS", 1000);
    let first_seed = setting("PINTLE_SEED", 1);
    let (mut noticed, mut harmless, mut done) = (0, 0, 0);
    for seed in first_seed.. {
        if done >= flips {
            break;
        }
        // A directory with all there can be: a state, ended logs, and a log that was closed or cut off.
        let mut chance = Chance::seeded(seed);
        let mut disk = SimDisk::new();
        for _ in 0..3 {
            let mut world = World::open(disk, None).expect("nothing was damaged");
            for step in 0..30 {
                if step == 10 {
                    world.begin_checkpoint();
                }
                world.step(&mut chance);
            }
            disk = if chance.once_in(2) { world.close().0.after_kill() } else { world.crash(&mut chance).0 };
        }
        let expected = World::open(disk.after_kill(), None).expect("nothing was damaged").keys();
        let revision = World::open(disk.after_kill(), None).expect("nothing was damaged").told.seen;
        let files = disk.file_lengths();
        for _ in 0..40 {
            let damaged = disk.after_kill();
            // A byte of any file, each as likely as another.
            let mut at = chance.below(files.iter().map(|(_, length)| *length as u64).sum());
            let (name, _) = files
                .iter()
                .find(|(_, length)| {
                    let here = at < *length as u64;
                    at -= if here { 0 } else { *length as u64 };
                    here
                })
                .expect("there is such a byte");
            let with = (chance.number() as u8).max(1);
            damaged.flip(name, usize::try_from(at).expect("a short file"), with);
            done += 1;
            match World::open(damaged, None) {
                Ok(mut world) => {
                    let context = format!("seed {seed}: byte {at} of {name} with {with:#x}");
                    assert_eq!(world.keys(), expected, "{context}");
                    assert_eq!(world.told.seen, revision, "{context}");
                    harmless += 1;
                }
                Err(Problem::Damaged { .. } | Problem::Format { .. }) => noticed += 1,
                Err(other) => panic!("seed {seed}: byte {at} of {name}: {other:?}"),
            }
        }
    }
    println!("flipped bytes {done}: {noticed} noticed, {harmless} harmless, 0 wrong values");
    assert!(noticed > harmless, "most bytes matter");
}

#[test]
fn a_durable_write_that_is_gone_from_the_log_is_noticed() {
    let mut chance = Chance::seeded(3);
    let mut world = World::open(SimDisk::new(), None).expect("an empty disk");
    for _ in 0..12 {
        world.commit(&mut chance);
        world.sync();
    }
    // Not closed: nothing but the groups themselves tells how far the log had come.
    let (disk, all) = (world.disk.after_kill(), world.keys());
    let (name, length) = disk.file_lengths().pop().expect("a log");
    let (mut noticed, mut last_group) = (0, 0);
    for at in (0..length).step_by(BLOCK) {
        let damaged = disk.after_kill();
        damaged.erase(&name, at, BLOCK);
        match World::open(damaged, None) {
            Err(Problem::Damaged { .. }) => noticed += 1,
            // Of the last group nobody can tell whether it was cut off before it was durable.
            Ok(mut found) => {
                last_group += 1;
                assert_ne!(found.keys(), all, "a block that was gone and is not missed");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(noticed > 3 * last_group && last_group > 0, "{noticed} noticed, {last_group} of the last group");
}
