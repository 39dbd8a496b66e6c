//! Power cuts: nothing acknowledged is lost, no transaction is half there, every store opens again.

use super::setting;
use super::world::World;
use crate::chance::Chance;
use crate::file::sim::SimDisk;

#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut() {
    let cuts = setting("PINTLE_POWER_CUTS", 1500);
    let seed = setting("PINTLE_SEED", 1);
    let (mut acknowledged, mut checkpoints, mut relit) = (0, 0, 0);
    let mut done = 0;
    // Each seed is a disk of its own, on which the power is cut some times in a row.
    for seed in seed.. {
        if done >= cuts {
            break;
        }
        let mut chance = Chance::seeded(seed);
        let mut disk = SimDisk::new();
        let mut last = None;
        for life in 0..=8 {
            let mut world = match World::open(disk.clone(), None) {
                Ok(world) => world,
                Err(problem) => panic!("seed {seed}, life {life}: the store does not open: {problem:?}"),
            };
            if let Some(told) = last.take() {
                let told: super::world::Told = told;
                told.check(&mut world).unwrap_or_else(|wrong| panic!("seed {seed}, life {life}: {wrong}"));
            }
            // Now and then the power goes before anything was written: a start must not depend on the one before.
            let steps = if chance.once_in(6) { 0 } else { chance.below(60) };
            for _ in 0..steps {
                world.step(&mut chance);
            }
            assert_eq!(world.health(), Ok(()), "seed {seed}: nothing failed");
            acknowledged += world.told.acknowledged;
            checkpoints += world.checkpoints;
            done += 1;
            if chance.once_in(10) {
                let (closed, told) = world.close();
                (disk, last) = (closed.after_power_cut(&mut chance), Some(told));
                relit += 1;
            } else {
                let (found, told) = world.crash(&mut chance);
                (disk, last) = (found, Some(told));
            }
        }
    }
    println!(
        "power cuts {done} ({relit} after a close): {acknowledged} acknowledged transactions, {checkpoints} \
         checkpoints completed; 0 lost, 0 that did not open, 0 half transactions"
    );
    assert!(acknowledged > done && checkpoints > done / 50, "enough was going on");
}
