//! What the API server asks the operator: what a new At lacks, whether a write makes sense, and what an At is in the other version.
//!
//! None of it is needed to run Ats. Without it mistakes are told later, by a condition and an event, and there is one version.

use jiff::{SignedDuration, Timestamp};
use pintle_runtime::Context;
use pintle_runtime::webhook::{Conversion, Hook, Mutation, Operation, Request, Verdict, WebhookConfig, WebhookServer};

use crate::types::{At, Phase, v1beta1};

/// Whoever means a time so far ahead is asked whether they do.
const FAR: SignedDuration = SignedDuration::from_hours(366 * 24);

/// The server, ready to serve. It registers itself.
pub fn server(context: &Context, config: WebhookConfig) -> WebhookServer {
    let (clock, same_clock) = (context.clock.clone(), context.clock.clone());
    WebhookServer::new(context, config)
        .mutating(Hook::about::<At>("/default").on(&[Operation::Create]), move |request: Request<At>| {
            let now = clock.now();
            async move { request.object.map_or_else(Mutation::unchanged, |at| Mutation::to(complete(at, now))) }
        })
        .validating(Hook::about::<At>("/validate"), move |request: Request<At>| {
            let now = same_clock.now();
            async move { judge(request.object.as_ref(), request.old_object.as_ref(), now) }
        })
        .converting_between::<At, v1beta1::At>(Conversion::of::<At>("/convert").serving("v1beta1"))
}

/// Without a schedule it runs at once; a time with an offset is written in UTC, as everybody reads it.
fn complete(mut at: At, now: Timestamp) -> At {
    let schedule = at.spec.schedule.trim();
    match schedule.parse::<Timestamp>() {
        _ if schedule.is_empty() => {
            at.spec.schedule = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
        }
        Ok(time) => at.spec.schedule = time.to_string(),
        // The validating webhook says what is wrong with it.
        Err(_) => {}
    }
    at
}

fn judge(at: Option<&At>, old: Option<&At>, now: Timestamp) -> Verdict {
    let Some(at) = at else { return Verdict::allow() };
    let begun = old.and_then(|old| old.status.as_ref()?.phase).filter(|phase| *phase != Phase::Pending);
    if let (Some(phase), Some(old)) = (begun, old)
        && old.spec != at.spec
    {
        let phase = if phase == Phase::Done { "is over" } else { "is running" };
        return Verdict::deny(format!("spec: this At {phase} and cannot be changed; delete it and create another"));
    }
    match at.spec.schedule.parse::<Timestamp>() {
        Err(_) => Verdict::deny(format!(
            "spec.schedule: {:?} is not a time; write it as 2026-11-15T21:37:00Z",
            at.spec.schedule
        )),
        Ok(time) if time.duration_since(now) > FAR => {
            Verdict::allow().warn(format!("spec.schedule: {time} is more than a year ahead"))
        }
        Ok(_) => Verdict::allow(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{AtSpec, AtStatus};

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn at(schedule: &str, phase: Option<Phase>) -> At {
        let spec = AtSpec { schedule: schedule.into(), command: "true".into(), ..AtSpec::default() };
        At { status: phase.map(|phase| AtStatus { phase: Some(phase), ..AtStatus::default() }), ..At::new("x", spec) }
    }

    #[test]
    fn a_schedule_is_filled_in_and_read_in_utc() {
        let now = NOW.parse().unwrap();
        for (written, stored) in [
            ("", NOW),
            ("2026-06-01T12:00:00+02:00", "2026-06-01T10:00:00Z"),
            ("2026-06-01T12:00:00Z", "2026-06-01T12:00:00Z"),
            ("noon", "noon"),
        ] {
            assert_eq!(complete(at(written, None), now).spec.schedule, stored, "{written}");
        }
    }

    #[test]
    fn what_has_begun_is_not_changed_and_a_time_must_be_one() {
        let now = NOW.parse().unwrap();
        let (soon, later) = ("2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z");
        for (new, old, allowed) in [
            (at(soon, None), None, true),
            (at("noon", None), None, false),
            (at(later, None), Some(at(soon, Some(Phase::Pending))), true),
            (at(later, None), Some(at(soon, Some(Phase::Running))), false),
            (at(later, None), Some(at(soon, Some(Phase::Done))), false),
            // Labels and finalizers are not what it runs.
            (at(soon, None), Some(at(soon, Some(Phase::Done))), true),
        ] {
            let verdict = judge(Some(&new), old.as_ref(), now);
            assert_eq!(verdict == Verdict::allow(), allowed, "{new:?} {old:?}");
        }
        assert_eq!(judge(None, Some(&at(soon, Some(Phase::Done))), now), Verdict::allow(), "deletions pass");
        assert_ne!(judge(Some(&at("2028-01-01T00:00:00Z", None)), None, now), Verdict::allow(), "a warning");
    }
}
