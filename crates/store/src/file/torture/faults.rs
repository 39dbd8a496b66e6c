//! The n-th write, sync and rename fails, for every n: the store stops at once and answers nothing after.

use super::setting;
use super::world::World;
use crate::chance::Chance;
use crate::file::sim::{Error, Fault, Operation, SimDisk};

const STEPS: u64 = 60;

/// The same life each time, with one checkpoint in it; says after how many steps the store had stopped.
fn live(world: &mut World, seed: u64) -> Option<u64> {
    let mut chance = Chance::seeded(seed);
    for step in 0..STEPS {
        if step == STEPS / 3 {
            world.begin_checkpoint();
        } else if step > STEPS / 3 && step % 2 == 0 {
            world.checkpoint_step();
        }
        world.commit(&mut chance);
        if step % 5 == 0 {
            world.sync();
        }
        if world.health().is_err() {
            return Some(step);
        }
    }
    None
}

#[test]
fn every_operation_that_fails_stops_the_store_before_it_answers() {
    let seeds = setting("PINTLE_FAULT_SEEDS", 2);
    let (mut faults, mut stopped, mut at_start) = (0, 0, 0);
    for seed in 1..=seeds {
        // A life on a disk that has some already, to have all of a recovery too.
        let mut first = World::open(SimDisk::new(), None).expect("an empty disk");
        live(&mut first, seed ^ 0xFACE);
        let (before, told_before) = first.close();
        for operation in [Operation::Write, Operation::Sync, Operation::Rename] {
            for error in [Error::Broken, Error::Full] {
                for nth in 1.. {
                    let disk = before.after_kill();
                    disk.fail(Fault { operation, nth, error });
                    let context = format!("seed {seed}: {operation:?} {nth} {error:?}");
                    let told = match World::open(disk.clone(), None) {
                        Err(_) => {
                            assert!(disk.has_failed(), "{context}: only a failure stops it from opening");
                            at_start += 1;
                            None
                        }
                        Ok(mut world) => {
                            let at = live(&mut world, seed);
                            if !disk.has_failed() {
                                assert_eq!(at, None, "{context}: nothing failed");
                                break;
                            }
                            assert!(at.is_some(), "{context}: it failed and the store goes on");
                            stopped += 1;
                            let acknowledged = world.told.acknowledged;
                            for _ in 0..3 {
                                world.commit(&mut Chance::seeded(nth));
                            }
                            assert_eq!(world.told.acknowledged, acknowledged, "{context}: it answered after it failed");
                            Some(world.close().1)
                        }
                    };
                    faults += 1;
                    // Space is made, or the disk replaced, and the power was never cut; or it was.
                    for found in [disk.after_kill(), disk.after_power_cut(&mut Chance::seeded(nth))] {
                        let mut world = World::open(found, None)
                            .unwrap_or_else(|problem| panic!("{context}: does not open again: {problem:?}"));
                        let told = told.as_ref().unwrap_or(&told_before);
                        told.check(&mut world).unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                        world.commit(&mut Chance::seeded(nth));
                        assert_eq!(world.health(), Ok(()), "{context}");
                    }
                }
            }
        }
    }
    println!(
        "failed operations {faults} ({at_start} while opening): {stopped} of {} stopped the store, 0 acknowledged after",
        faults - at_start
    );
    assert!(stopped > 300, "there was much that could fail");
}
