//! Waiting for clients that live elsewhere: until everything rests, and between the steps in which time moves.

use super::Served;
use super::fields::{Fields, missing, wrong};
use super::time::{BEAT, Stuck};
use jiff::Timestamp;
use pintle_meta::Status;
use pintle_meta::clock::rfc3339_micro;
use serde_json::{Value, json};
use std::time::Duration;

/// Virtual time moves by this much at once while a cluster settles.
const STEP: Duration = Duration::from_millis(50);
/// A cluster that still writes after this much virtual time will never stop.
const LONGEST: Duration = Duration::from_secs(600);
/// As long as clients are given after one step, in real time, before time goes on without them.
const PATIENCE: Duration = Duration::from_secs(2);
/// Steps of one request.
const STEPS: u128 = 1_000_000;
/// Ten years at most: what expires after that is of no interest.
const FARTHEST: Duration = Duration::from_secs(10 * 365 * 86400);
/// After a step, tasks that are due at its very end get this many turns.
const TURNS: usize = 64;

/// By what two moments are known to be one after the other with nothing in between.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    writes: u64,
    events: u64,
    asked: u64,
}

/// How long something has been at rest.
struct Calm {
    mark: Mark,
    since: Timestamp,
}

impl Served {
    /// `POST /control/settle`
    pub(super) async fn settle(&self, mut fields: Fields) -> Result<Value, Status> {
        let quiet = fields.duration("quiet")?.unwrap_or(Duration::from_millis(200));
        let virtual_quiet = fields.duration("virtualQuiet")?.unwrap_or(Duration::from_secs(2));
        let timeout = fields.duration("timeout")?.unwrap_or(Duration::from_secs(30));
        fields.end()?;
        let (began, really_began) = (self.cluster.clock.now(), self.time.really_now());
        self.cluster.activity.cool();
        let (mut calm, mut passed, mut calm_passed) = (self.calm(), Duration::ZERO, Duration::ZERO);
        loop {
            if calm_passed < virtual_quiet {
                self.time.pass(STEP).await.map_err(|Stuck| self.restless())?;
                passed += STEP;
                calm_passed += STEP;
            }
            let mut rests = self.still(&mut calm);
            // What waits for virtual time alone is not worth real time.
            if calm_passed >= virtual_quiet || !rests || !self.cluster.has_work() {
                self.time.really_wait(BEAT).await;
                rests &= self.still(&mut calm);
            }
            if !rests || self.cluster.has_work() {
                calm_passed = Duration::ZERO;
            } else if calm_passed >= virtual_quiet && self.time.really_since(calm.since) >= quiet {
                break;
            }
            if passed >= LONGEST || self.time.really_since(really_began) >= timeout {
                return Err(self.restless());
            }
        }
        let moved = self.cluster.clock.now().duration_since(began);
        Ok(self.time_now(&[("passed", format!("{moved:#}").into())]))
    }

    /// `POST /control/advance`
    pub(super) async fn advance(&self, mut fields: Fields) -> Result<Value, Status> {
        let by = fields.duration("by")?.ok_or_else(|| missing("by", "\"24h\""))?;
        let step = fields.duration("step")?.unwrap_or(Duration::from_secs(60));
        let quiet = fields.duration("quiet")?.unwrap_or(Duration::from_millis(20));
        let timeout = fields.duration("timeout")?.unwrap_or(Duration::from_secs(600));
        fields.end()?;
        if by > FARTHEST {
            return Err(wrong("by", "more than ten years; advance by less".to_owned()));
        }
        if step.is_zero() || by.as_nanos() / step.as_nanos() > STEPS {
            return Err(wrong("step", format!("gives more than {STEPS} steps; make it longer")));
        }
        let (really_began, mut left, mut steps) = (self.time.really_now(), by, 0_u64);
        let mut calm = self.calm();
        self.cluster.activity.cool();
        while !left.is_zero() {
            if self.time.really_since(really_began) >= timeout {
                let message = format!(
                    "{} of {} have passed, and it took longer than {timeout:?} of real time; {}",
                    seconds(by - left),
                    seconds(by),
                    self.cluster.unrest()
                );
                return Err(Status::new(408, "Timeout", message));
            }
            let now = left.min(step);
            self.time.pass(now).await.map_err(|Stuck| self.restless())?;
            (left, steps) = (left - now, steps + 1);
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            // Nothing was written, so that no client has anything to react to.
            if !self.still(&mut calm) {
                self.wait_for_clients(&mut calm, quiet).await;
            }
        }
        self.wait_for_clients(&mut calm, quiet).await;
        Ok(self.time_now(&[("passed", seconds(by).into()), ("steps", steps.into())]))
    }

    /// Until nobody has asked or written anything for as long as `quiet`, really.
    async fn wait_for_clients(&self, calm: &mut Calm, quiet: Duration) {
        let began = self.time.really_now();
        calm.since = began;
        while self.time.really_since(began) < PATIENCE {
            self.time.really_wait(BEAT).await;
            if self.still(calm) && self.time.really_since(calm.since) >= quiet {
                return;
            }
        }
    }

    fn calm(&self) -> Calm {
        Calm { mark: self.mark(), since: self.time.really_now() }
    }

    fn mark(&self) -> Mark {
        let activity = &self.cluster.activity;
        Mark { writes: activity.count(), events: activity.events(), asked: self.links.asked() }
    }

    /// Whether nothing has happened since the last look, and no request is being answered.
    fn still(&self, calm: &mut Calm) -> bool {
        let mark = self.mark();
        let still = mark == calm.mark && !self.cluster.faults.has_requests();
        if !still {
            *calm = Calm { mark, since: self.time.really_now() };
        }
        still
    }

    fn restless(&self) -> Status {
        let mut report = self.cluster.restless();
        let late = self.cluster.faults.late();
        if late > 0 {
            report +=
                &format!("\n  faults hold {late} requests and events back; lift them, or advance beyond their end");
        }
        Status::new(408, "Timeout", format!("{report}{}", self.links.report()))
    }

    /// What time it is, and more.
    pub(super) fn time_now(&self, more: &[(&str, Value)]) -> Value {
        let mode = if self.time.follows() { "follow" } else { "manual" };
        let mut answer = json!({"now": rfc3339_micro(self.cluster.clock.now()), "mode": mode});
        for (name, value) in more {
            answer[*name] = value.clone();
        }
        answer
    }
}

fn seconds(long: Duration) -> String {
    format!("{}s", long.as_secs_f64())
}
