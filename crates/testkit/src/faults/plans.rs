//! Which fault meets which request: plans in the order in which they were made, each with its own count.

use super::asked::Asked;
use super::crash::Crash;
use std::time::Duration;

/// Which requests of a loop a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Writes,
    /// Gets and lists, not watches.
    Reads,
    All,
}

#[derive(Clone, Debug)]
pub(super) enum Fault {
    CrashBefore(Crash),
    CrashAfter(Crash),
    /// This code, and nothing is done.
    Refuse(u16),
    /// Done; the connection breaks before the answer.
    Lose,
    /// Done; the answer is a 504.
    TimeOut,
    Slow(Duration),
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) agent: String,
    pub(super) which: Which,
    /// Empty for every resource.
    pub(super) resource: String,
    /// The first request that is met, counted from 1, and how many after it.
    pub(super) from: u64,
    pub(super) times: u64,
    pub(super) seen: u64,
    pub(super) fault: Fault,
}

impl Plan {
    /// Counts the request if it is one of the plan's, and says whether the fault meets it.
    pub(super) fn meets(&mut self, asked: &Asked) -> bool {
        let kind = match self.which {
            Which::Writes => asked.writes(),
            Which::Reads => !asked.watches && asked.method == "GET",
            Which::All => true,
        };
        if !kind || self.agent != asked.agent || !(self.resource.is_empty() || self.resource == asked.resource) {
            return false;
        }
        self.seen += 1;
        self.seen >= self.from && self.seen - self.from < self.times
    }
}
