//! Which faults are planned for which loop, and how often each plan has been met.

use super::plans::{Fault, Which};
use super::watches::Then;
use super::{Faults, lock};
use std::time::Duration;
use tokio::time::Instant;

/// One plan, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The agent, or the beginning of its name and `*`.
    pub agent: String,
    /// Empty for every resource.
    pub resource: String,
    /// What happens, in a word: `fail`, `sever`, `hold` and so on.
    pub fault: &'static str,
    /// How it is counted; nothing for what happens to watches.
    pub count: Option<Count>,
    /// How long it will still last; nothing for what lasts until it is lifted, or is counted.
    pub lasts: Option<Duration>,
}

/// The requests that a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// `writes`, `reads` or `all`.
    pub of: &'static str,
    /// The first request that is met, and how many are met at most.
    pub nth: u64,
    pub times: u64,
    /// Requests that the plan has counted, and those among them that it has met.
    pub seen: u64,
    pub met: u64,
}

impl Faults {
    /// Every plan that has not been lifted, in the order of making; blindness that is over is left out.
    pub fn planned(&self) -> Vec<Planned> {
        let (state, now) = (lock(&self.0.state), Instant::now());
        let counted = state.plans.iter().map(|plan| Planned {
            agent: plan.agent.clone(),
            resource: plan.resource.clone(),
            fault: word(&plan.fault),
            count: Some(Count {
                of: match plan.which {
                    Which::Writes => "writes",
                    Which::Reads => "reads",
                    Which::All => "all",
                },
                nth: plan.from,
                times: plan.times,
                seen: plan.seen,
                met: plan.met,
            }),
            lasts: None,
        });
        let blinds =
            state.blinds.iter().filter(|blind| blind.ends.is_none_or(|ends| ends > now)).map(|blind| Planned {
                agent: blind.agent.clone(),
                resource: blind.resource.clone(),
                fault: match blind.then {
                    Then::Deliver => "hold",
                    Then::Merge => "merge",
                    Then::Forget => "drop",
                },
                count: None,
                lasts: blind.ends.map(|ends| ends - now),
            });
        let lags = state.lags.iter().map(|(agent, resource, _)| Planned {
            agent: agent.clone(),
            resource: resource.clone(),
            fault: "delay",
            count: None,
            lasts: None,
        });
        counted.chain(blinds).chain(lags).collect()
    }
}

fn word(fault: &Fault) -> &'static str {
    match fault {
        Fault::CrashBefore(_) | Fault::CrashAfter(_) => "crash",
        Fault::Refuse(_) => "fail",
        Fault::Lose => "lose",
        Fault::TimeOut => "timeout",
        Fault::Sever => "sever",
        Fault::Slow(_) => "slow",
    }
}
