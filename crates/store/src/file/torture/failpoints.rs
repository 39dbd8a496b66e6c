//! A power cut and an error at every failpoint, and that each of them is reached.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::world::World;
use crate::chance::Chance;
use crate::failpoint::{Failpoint, Failpoints};
use crate::file::sim::SimDisk;

/// Cuts the power, or fails, when a point is reached for the n-th time.
#[derive(Debug)]
struct Trap {
    at: Option<(Failpoint, usize)>,
    cut: Option<SimDisk>,
    reached: Mutex<Vec<Failpoint>>,
}

impl Failpoints for Trap {
    fn reached(&self, point: Failpoint) -> Result<(), String> {
        let mut reached = self.reached.lock().expect("no panic");
        reached.push(point);
        let times = reached.iter().filter(|seen| **seen == point).count();
        match self.at {
            Some((trapped, nth)) if trapped == point && times >= nth => {
                if let Some(disk) = &self.cut {
                    disk.cut_power();
                }
                Err(format!("trapped at {point:?}"))
            }
            _ => Ok(()),
        }
    }
}

/// A life that reaches every failpoint; ends early if it is trapped while the store opens.
fn live(disk: &SimDisk, trap: &Arc<Trap>) -> Option<World> {
    let mut world = World::open(disk.clone(), Some(Arc::clone(trap) as Arc<dyn Failpoints>)).ok()?;
    let mut chance = Chance::seeded(5);
    for step in 0..40 {
        if step == 15 {
            world.begin_checkpoint();
        } else if step > 15 {
            world.checkpoint_step();
        }
        world.commit(&mut chance);
        world.sync();
    }
    Some(world)
}

/// A disk with a state, logs and something left over from a start.
fn used() -> SimDisk {
    let mut disk = SimDisk::new();
    for _ in 0..2 {
        let trap = Arc::new(Trap { at: None, cut: None, reached: Mutex::default() });
        disk = live(&disk, &trap).expect("nothing is trapped").close().0.after_kill();
    }
    disk
}

#[test]
fn a_crash_or_an_error_at_every_step_loses_nothing_acknowledged() {
    let used = used();
    let everywhere = Arc::new(Trap { at: None, cut: None, reached: Mutex::default() });
    live(&used.after_kill(), &everywhere).expect("nothing is trapped");
    let reached: BTreeSet<_> = everywhere.reached.lock().expect("no panic").iter().copied().collect();
    assert_eq!(reached, BTreeSet::from(Failpoint::ALL), "every failpoint is on the way");

    let mut trapped = 0;
    for point in Failpoint::ALL {
        for nth in [1, 2, 5, 20] {
            for cut in [true, false] {
                let disk = used.after_kill();
                let at = Some((point, nth));
                let trap = Arc::new(Trap { at, cut: cut.then(|| disk.clone()), reached: Mutex::default() });
                let world = live(&disk, &trap);
                let told = world.map(|world| world.close().1);
                let times = trap.reached.lock().expect("no panic").iter().filter(|seen| **seen == point).count();
                trapped += usize::from(times >= nth);
                for seed in 0..6 {
                    let context = format!("{point:?} the {nth}. time, cut {cut}, seed {seed}");
                    let found = disk.after_power_cut(&mut Chance::seeded(seed));
                    let mut world = World::open(found, None).unwrap_or_else(|problem| panic!("{context}: {problem:?}"));
                    if let Some(told) = &told {
                        told.check(&mut world).unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                    }
                }
            }
        }
    }
    println!("failpoints {}: trapped {trapped} times, each followed by 6 power cuts; 0 lost", Failpoint::ALL.len());
}
