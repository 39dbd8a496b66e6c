//! Waiting until everything that can happen has happened, and waiting for one thing to happen.

use crate::Cluster;
use pintle_runtime::board::Failing;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Nothing was written for this long, in virtual time: longer than any first retry, shorter than any resync.
const QUIET: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(50);
/// A loop that is still writing after this much virtual time will never stop.
const LONGEST: Duration = Duration::from_secs(600);
/// Fields that a report shows.
const SHOWN: usize = 5;

impl Cluster {
    /// Returns when nothing has been written for a while, no loop has work in hand, no key waits to be tried again because it
    /// failed, no request is under way, no crashed loop waits to come back and none waits to list again what a fault refused it. Leases and events do not count: they never end.
    ///
    /// # Panics
    ///
    /// When the cluster does not come to rest; the message names the keys that fail, who keeps writing what, and which field flips.
    pub async fn settle(&self) {
        if let Err(report) = self.try_settle().await {
            panic!("{report}");
        }
    }

    /// The same with the report as an error.
    pub async fn try_settle(&self) -> Result<(), String> {
        let started = tokio::time::Instant::now();
        self.activity.cool();
        let mut seen = self.writes();
        let mut quiet = Duration::ZERO;
        // A request under way is waited for, but is no unrest: a loop may ask every second whether all is well.
        while quiet < QUIET || self.faults.has_requests() || self.faults.has_slow_requests() {
            self.pass(STEP).await?;
            let now = self.writes();
            if now == seen && !self.is_busy() && !self.faults.has_refused_reads() && self.failing().is_empty() {
                quiet += STEP;
            } else {
                (seen, quiet) = (now, Duration::ZERO);
            }
            if started.elapsed() >= LONGEST {
                return Err(self.restless());
            }
        }
        Ok(())
    }

    /// Keys that failed and wait to be tried again.
    fn failing(&self) -> Vec<(String, Failing)> {
        self.context().board.failing()
    }

    fn is_busy(&self) -> bool {
        !self.context().board.is_idle() || self.faults.has_late_events() || self.processes.are_restarting()
    }

    /// The same, where requests under way count too.
    pub(crate) fn has_work(&self) -> bool {
        self.is_busy() || self.faults.has_requests() || self.faults.late() > 0
    }

    /// Who writes what again and again, and what alternates.
    pub(crate) fn unrest(&self) -> String {
        let mut report = String::new();
        for (name, Failing { key, failures, error }) in self.failing().into_iter().take(SHOWN) {
            let _ = writeln!(report, "{name} has failed {failures} times for {key}: {error}");
        }
        let Some(hottest) = self.activity.hottest() else {
            if !report.is_empty() {
                return report;
            }
            let busy = self.context().board.loops();
            let busy: Vec<_> = busy.iter().filter(|(_, m)| m.depth + m.working > 0).map(|(name, _)| name).collect();
            let _ = write!(report, "nothing is written, but work never ends in {busy:?}");
            return report;
        };
        let _ = write!(report, "still changing: {} ({} writes)", hottest.key, hottest.count);
        let mut writers: BTreeMap<String, u64> = BTreeMap::new();
        for asked in self.faults.writes().into_iter().filter(|asked| asked.is_about(&hottest.key)) {
            let key = if asked.key.is_empty() { String::new() } else { format!(" for its key {}", asked.key) };
            *writers.entry(format!("{} ({}){key}", asked.agent, asked.method)).or_default() += 1;
        }
        let mut writers: Vec<_> = writers.into_iter().collect();
        writers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (writer, count) in writers {
            let _ = write!(report, "\n  written by {writer} {count} times");
        }
        for (path, values) in hottest.flips.iter().take(SHOWN) {
            let path = path.trim_start_matches('.').replace('\u{1}', ".");
            let _ = write!(report, "\n  {path} goes {}", values.join(" → "));
        }
        report
    }

    /// Moves timers and clocks forward; everything due in between happens in order.
    ///
    /// # Panics
    ///
    /// When someone writes without end at one moment, so that time cannot move.
    pub async fn advance(&self, duration: Duration) {
        if let Err(report) = self.pass(duration).await {
            panic!("{report}");
        }
    }

    /// Lets time pass, unless someone keeps it from passing.
    async fn pass(&self, duration: Duration) -> Result<(), String> {
        tokio::select! {
            biased;
            () = self.activity.frenzy() => Err(self.restless()),
            () = tokio::time::sleep(duration) => Ok(()),
        }
    }

    pub(crate) fn restless(&self) -> String {
        format!("the cluster does not settle; {}", self.unrest())
    }

    /// Waits until `check` gives a value.
    ///
    /// # Panics
    ///
    /// When it does not within ten minutes of virtual time.
    pub async fn eventually<T, F>(&self, what: &str, mut check: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let started = tokio::time::Instant::now();
        loop {
            if let Some(value) = check().await {
                return value;
            }
            assert!(started.elapsed() < LONGEST, "waited without success: {what}");
            self.advance(STEP).await;
        }
    }
}
