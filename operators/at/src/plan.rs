//! What to do about an At, from what is there: no I/O, so that every state can be tested.

use crate::types::{At, AtStatus, Phase};
use jiff::Timestamp;
use std::time::Duration;

/// What is known about the Pod that runs the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Absent,
    Unfinished,
    Succeeded,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing will change by itself.
    Rest,
    /// Look again when this has passed.
    Wait(Duration),
    /// Start the command, then record it.
    StartPod,
    /// Write this status.
    Record(AtStatus),
}

/// ```text
/// PENDING ── time comes ──▶ RUNNING ── Pod ends ──▶ DONE
/// ```
pub fn step(at: &At, run: Run, now: Timestamp) -> Step {
    let phase = at.status.as_ref().and_then(|s| s.phase);
    let record =
        |phase: Phase, message: &str| Step::Record(AtStatus { phase: Some(phase), message: message.to_owned() });
    match (phase, run) {
        (None, _) => record(Phase::Pending, "waiting for its time"),
        (Some(Phase::Pending), Run::Absent) => match at.spec.schedule.parse::<Timestamp>() {
            Ok(due) if due > now => Step::Wait(Duration::try_from(due.duration_since(now)).unwrap_or_default()),
            // A time in the past is now: late is better than never.
            Ok(_) => Step::StartPod,
            Err(_) => record(Phase::Done, "the schedule is not a time; nothing was run"),
        },
        // The Pod is there although nobody wrote it down: an earlier run of ours ended in between.
        (Some(Phase::Pending), _) => record(Phase::Running, "the command runs"),
        (Some(Phase::Running), Run::Unfinished) => Step::Rest,
        (Some(Phase::Running), Run::Succeeded) => record(Phase::Done, "the command succeeded"),
        (Some(Phase::Running), Run::Failed) => record(Phase::Done, "the command failed"),
        (Some(Phase::Running), Run::Absent) => record(Phase::Done, "the command's Pod was deleted before it ended"),
        (Some(Phase::Done), _) => Step::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::AtSpec;

    fn at(schedule: &str, phase: Option<Phase>) -> At {
        let mut at = At::new("x", AtSpec { schedule: schedule.into(), command: "true".into() });
        at.status = phase.map(|phase| AtStatus { phase: Some(phase), message: String::new() });
        at
    }

    fn phase_after(step: &Step) -> Option<Phase> {
        match step {
            Step::Record(status) => status.phase,
            _ => None,
        }
    }

    #[test]
    fn the_command_runs_at_its_time_and_never_before() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let future = "2026-01-01T00:01:00Z";
        assert_eq!(step(&at(future, Some(Phase::Pending)), Run::Absent, now), Step::Wait(Duration::from_secs(60)));
        assert_eq!(step(&at("2025-01-01T00:00:00Z", Some(Phase::Pending)), Run::Absent, now), Step::StartPod);
    }

    #[test]
    fn what_is_done_is_never_done_again() {
        let now = Timestamp::UNIX_EPOCH;
        for run in [Run::Absent, Run::Unfinished, Run::Succeeded, Run::Failed] {
            assert_eq!(step(&at("1960-01-01T00:00:00Z", Some(Phase::Done)), run, now), Step::Rest);
            assert_eq!(phase_after(&step(&at("x", None), run, now)), Some(Phase::Pending));
        }
        assert_eq!(phase_after(&step(&at("nonsense", Some(Phase::Pending)), Run::Absent, now)), Some(Phase::Done));
        assert_eq!(phase_after(&step(&at("nonsense", Some(Phase::Running)), Run::Absent, now)), Some(Phase::Done));
    }
}
