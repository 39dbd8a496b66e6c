//! Crashing a loop at every write it makes, one run for each.

use crate::parallel;
use crate::scenario::{Outcome, Scenario};
use std::fmt;

/// Where a crash falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    After,
    /// After the write, and the loop stays down until every step is done.
    AfterForLong,
}

/// How many crashes a loop has survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    pub writes: usize,
    pub crashes: usize,
}

impl Scenario {
    /// Runs the story without faults, counts the loop's writes, then runs it again with a crash before and after each of
    /// them, and with the loop down from there to the end of the story. Each end must be that of the fault-free run, and then
    /// there must be silence.
    ///
    /// # Errors
    ///
    /// The first crash that left another end: which write, and what is different.
    pub fn try_sweep(&self) -> Result<Swept, String> {
        let clean = self.in_peace()?;
        let moments = [Moment::Before, Moment::After, Moment::AfterForLong];
        let writes = clean.writes.len();
        let jobs: Vec<(usize, Moment)> = (1..=writes).flat_map(|n| moments.map(|moment| (n, moment))).collect();
        let failures = parallel::each(&jobs, |job| self.crash(&clean, *job), Option::is_some);
        match failures.into_iter().flatten().next() {
            Some(failure) => Err(failure),
            None => Ok(Swept { writes, crashes: jobs.len() }),
        }
    }

    /// The same for a test.
    ///
    /// # Panics
    ///
    /// With the failure, or if the loop writes nothing in this story: then nothing was tested.
    pub fn sweep(&self) -> Swept {
        let swept = self.try_sweep().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(swept.writes > 0, "{} writes nothing in this scenario: is that its name?", self.agent);
        swept
    }

    fn crash(&self, clean: &Outcome, (n, moment): (usize, Moment)) -> Option<String> {
        let outcome = self.run(1, |cluster| {
            let (on, n) = (cluster.faults.on(&self.agent), n as u64);
            match moment {
                Moment::Before => on.crash_before_write(n),
                Moment::After => on.crash_after_write(n),
                Moment::AfterForLong => on.stay_down().crash_after_write(n),
            }
        });
        let complaint = match outcome {
            Ok(outcome) => self.complaint(clean, &outcome)?,
            Err(error) => format!(" {error}"),
        };
        let write = clean.writes.get(n - 1).map(ToString::to_string).unwrap_or_default();
        Some(format!("{} does not survive a crash {moment} its write {n} ({write}):{complaint}", self.agent))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moment::Before => "before",
            Moment::After => "after",
            Moment::AfterForLong => "(and a long time down) after",
        })
    }
}
