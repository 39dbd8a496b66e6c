//! What to do about an At, from what is there: no I/O, so that every state can be tested.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::types::{At, Outcome, Phase};

/// What is known about the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Absent,
    Unfinished,
    /// It will not run any more, and this came of it.
    Over(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The schedule is not a time; somebody must change it.
    Refuse,
    /// Look again when this has passed.
    Wait(Duration),
    /// Its time has come: there must be a Pod.
    Start,
    /// The Pod is at work.
    Watch,
    /// The Pod has ended: write down what came of it, then let the Pod go.
    Finish(Outcome),
    /// It is over; the Pod, if it is still there, may go.
    Rest,
}

/// ```text
///            time comes,                   Pod ends
///            record is there               or is deleted
/// PENDING ───────────────────▶ RUNNING ───────────────────▶ DONE
///    │ ▲
///    └─┘ schedule is edited
/// ```
///
/// A Pod that is there although the phase says PENDING was started by a process that ended before it could say so.
pub fn step(at: &At, run: Run, now: Timestamp) -> Step {
    let phase = at.status.as_ref().and_then(|status| status.phase);
    match (phase, run) {
        (Some(Phase::Done), _) => Step::Rest,
        (_, Run::Over(outcome)) => Step::Finish(outcome),
        (_, Run::Unfinished) => Step::Watch,
        // Nobody but this operator may let the Pod go, so somebody took its finalizer off by hand.
        (Some(Phase::Running), Run::Absent) => Step::Finish(Outcome::Deleted),
        (_, Run::Absent) => match at.spec.schedule.parse::<Timestamp>() {
            Err(_) => Step::Refuse,
            Ok(due) if due > now => Step::Wait(Duration::try_from(due.duration_since(now)).unwrap_or_default()),
            // A time in the past is now: late is better than never.
            Ok(_) => Step::Start,
        },
    }
}

/// What the Pod says about itself. One that is on its way out counts as over: nothing keeps it from ending.
pub fn run_of(pod: Option<&Pod>) -> Run {
    let Some(pod) = pod else { return Run::Absent };
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => Run::Over(Outcome::Succeeded),
        Some("Failed") => Run::Over(Outcome::Failed),
        _ if pod.metadata.deletion_timestamp.is_some() => Run::Over(Outcome::Deleted),
        _ => Run::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{AtSpec, AtStatus};

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn at(schedule: &str, phase: Option<Phase>) -> At {
        let spec = AtSpec { schedule: schedule.into(), command: "true".into(), ..AtSpec::default() };
        let status = phase.map(|phase| AtStatus { phase: Some(phase), ..AtStatus::default() });
        At { status, ..At::new("x", spec) }
    }

    #[test]
    fn every_state_has_one_step() {
        let (pending, running, done) = (Some(Phase::Pending), Some(Phase::Running), Some(Phase::Done));
        let (past, future) = ("2025-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        let over = Run::Over(Outcome::Failed);
        for (schedule, phase, run, expected) in [
            (future, None, Run::Absent, Step::Wait(Duration::from_secs(60))),
            (future, pending, Run::Absent, Step::Wait(Duration::from_secs(60))),
            (NOW, pending, Run::Absent, Step::Start),
            (past, None, Run::Absent, Step::Start),
            ("noon", pending, Run::Absent, Step::Refuse),
            // Edits cannot stop what has begun.
            (future, pending, Run::Unfinished, Step::Watch),
            (future, running, Run::Unfinished, Step::Watch),
            ("noon", running, over, Step::Finish(Outcome::Failed)),
            (past, pending, over, Step::Finish(Outcome::Failed)),
            (past, running, Run::Absent, Step::Finish(Outcome::Deleted)),
            // What is done is never done again.
            (past, done, Run::Absent, Step::Rest),
            (past, done, over, Step::Rest),
            (future, done, Run::Unfinished, Step::Rest),
        ] {
            let step = step(&at(schedule, phase), run, NOW.parse().unwrap());
            assert_eq!(step, expected, "{schedule} {phase:?} {run:?}");
        }
    }
}
