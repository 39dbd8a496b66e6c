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
    /// Done; every connection of the one who asks breaks before the answer.
    Sever,
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
    pub(super) met: u64,
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
        if !kind
            || !is_meant(&self.agent, &asked.agent)
            || !(self.resource.is_empty() || self.resource == asked.resource)
        {
            return false;
        }
        self.seen += 1;
        let meets = self.seen >= self.from && self.seen - self.from < self.times;
        self.met += u64::from(meets);
        meets
    }
}

/// Whether this agent is the one that a plan names; `at*` names all that begin with `at`.
pub(super) fn is_meant(named: &str, agent: &str) -> bool {
    named.strip_suffix('*').map_or(named == agent, |beginning| agent.starts_with(beginning))
}
