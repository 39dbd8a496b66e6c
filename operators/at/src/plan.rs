//! What the phases of an At decide by: when it is due, and what its Pod says. No I/O, so that every state can be tested.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::types::{At, Outcome};

/// What is known about the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Absent,
    Unfinished,
    /// It will not run any more, and this came of it.
    Over(Outcome),
}

/// When an At that is pending is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The schedule is not a time; somebody must change it.
    Never,
    /// When this has passed.
    In(Duration),
    /// There must be a Pod.
    Now,
    /// A process that ended before it could say so has started it.
    Started,
}

pub fn due(at: &At, run: Run, now: Timestamp) -> Due {
    if run != Run::Absent {
        return Due::Started;
    }
    match at.spec.schedule.parse::<Timestamp>() {
        Err(_) => Due::Never,
        Ok(due) if due > now => Due::In(Duration::try_from(due.duration_since(now)).unwrap_or_default()),
        // A time in the past is now: late is better than never.
        Ok(_) => Due::Now,
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
    use crate::types::AtSpec;

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn every_state_of_a_pending_at_has_one_answer() {
        let (past, future) = ("2025-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        for (schedule, run, expected) in [
            (future, Run::Absent, Due::In(Duration::from_secs(60))),
            (NOW, Run::Absent, Due::Now),
            (past, Run::Absent, Due::Now),
            ("noon", Run::Absent, Due::Never),
            // Edits cannot stop what has begun.
            (future, Run::Unfinished, Due::Started),
            ("noon", Run::Over(Outcome::Failed), Due::Started),
        ] {
            let spec = AtSpec { schedule: schedule.into(), command: "true".into(), ..AtSpec::default() };
            assert_eq!(due(&At::new("x", spec), run, NOW.parse().unwrap()), expected, "{schedule} {run:?}");
        }
    }

    #[test]
    fn a_pod_that_will_not_run_again_is_over() {
        let pod = |phase: &str, is_going: bool| -> Pod {
            let mut pod: Pod = serde_json::from_value(serde_json::json!({"status": {"phase": phase}})).unwrap();
            pod.metadata.deletion_timestamp = is_going.then(|| NOW.parse::<Timestamp>().unwrap().into());
            pod
        };
        for (pod, expected) in [
            (None, Run::Absent),
            (Some(pod("Pending", false)), Run::Unfinished),
            (Some(pod("Running", true)), Run::Over(Outcome::Deleted)),
            (Some(pod("Succeeded", true)), Run::Over(Outcome::Succeeded)),
            (Some(pod("Failed", false)), Run::Over(Outcome::Failed)),
        ] {
            assert_eq!(run_of(pod.as_ref()), expected);
        }
    }
}
