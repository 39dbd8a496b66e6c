//! A scenario under faults that a seed draws: refusals, lost answers, latency, blindness, late, merged and lost events.

use crate::parallel;
use crate::scenario::Scenario;
use crate::{Cluster, Faults};
use pintle_meta::Random;
use std::time::Duration;

/// Faults a run has, at most.
const MOST: u64 = 4;

impl Scenario {
    /// Tells the story once for each seed, under faults drawn from it, and compares each end with that of the fault-free run.
    /// `PINTLE_SEED=17` runs that seed alone.
    ///
    /// # Errors
    ///
    /// The first seed whose end is another, its faults, and the command that runs it again.
    pub fn try_explore(&self, seeds: impl IntoIterator<Item = u64>) -> Result<usize, String> {
        let clean = self.in_peace()?;
        let seeds: Vec<u64> = parallel::wanted_seed().map_or_else(|| seeds.into_iter().collect(), |seed| vec![seed]);
        let again = parallel::rerun();
        let failures = parallel::each(
            &seeds,
            |seed| {
                let outcome = self.run(*seed, |cluster| {
                    draw(*seed, &cluster.faults, &self.agent);
                });
                let complaint = match outcome {
                    Ok(outcome) => self.complaint(&clean, &outcome)?,
                    Err(error) => format!(" {error}"),
                };
                let faults = draw(*seed, &Faults::default(), &self.agent).join(", ");
                let again = again(*seed);
                Some(format!("{} under seed {seed} ({faults}):{complaint}\n  again: {again}", self.agent))
            },
            Option::is_some,
        );
        match failures.into_iter().flatten().next() {
            Some(failure) => Err(failure),
            None => Ok(seeds.len()),
        }
    }

    /// The same for a test.
    ///
    /// # Panics
    ///
    /// With the failure.
    pub fn explore(&self, seeds: impl IntoIterator<Item = u64>) -> usize {
        self.try_explore(seeds).unwrap_or_else(|failure| panic!("{failure}"))
    }
}

impl Cluster {
    /// Plans faults for a loop as the seed says, and tells which.
    pub fn plan_chaos(&self, seed: u64, agent: &str) -> Vec<String> {
        draw(seed, &self.faults, agent)
    }
}

/// Plans faults for a loop and tells which.
fn draw(seed: u64, faults: &Faults, agent: &str) -> Vec<String> {
    let random = Random::seeded(seed.wrapping_mul(0x9E37_79B9).wrapping_add(17));
    (0..=random.below(MOST)).map(|_| draw_one(&random, faults, agent)).collect()
}

fn draw_one(random: &Random, faults: &Faults, agent: &str) -> String {
    let (on, n) = (faults.on(agent), 1 + random.below(8));
    let (begin, long) = (Duration::from_millis(random.below(6000)), Duration::from_millis(500 + random.below(8000)));
    let window = format!("for {long:?} from {begin:?} on");
    match random.below(11) {
        0 => {
            let (code, times) = ([409, 429, 500, 503][random.below(4) as usize], 1 + random.below(3));
            on.fail(n, times, code);
            format!("{code} for {times} writes from the {n}th on")
        }
        1 => {
            let code = [429, 500][random.below(2) as usize];
            on.reads().fail(1, n, code);
            format!("{code} for {n} reads")
        }
        2 => {
            on.lose_answer(n);
            format!("answer of write {n} lost")
        }
        3 => {
            on.time_out(n);
            format!("timeout after write {n}")
        }
        4 => {
            let wait = Duration::from_millis(random.below(400));
            on.latency(wait);
            format!("latency of {wait:?}")
        }
        5 => {
            on.begin_after(begin).hold_watch(long);
            format!("events held {window}")
        }
        6 => {
            on.begin_after(begin).merge_events(long);
            format!("events merged {window}")
        }
        7 => {
            on.begin_after(begin).drop_events(long);
            format!("events lost {window}")
        }
        8 => {
            let longest = Duration::from_millis(random.below(800));
            on.delay_events(longest);
            format!("events late by up to {longest:?}")
        }
        9 => {
            on.crash_after_write(n);
            format!("crash after write {n}")
        }
        _ => {
            on.restart_after(long).crash_before_write(n);
            format!("crash before write {n}, down for {long:?}")
        }
    }
}
