//! Fault plans as JSON: the testkit's, for clients whose user agent begins with a name.

use super::Served;
use super::fields::{Fields, missing, wrong};
use crate::faults::On;
use pintle_meta::Status;
use serde_json::{Value, json};

/// Every fault, for messages.
const FAULTS: &str = "fail, timeout, lose, sever, slow, hold, merge, drop and delay";

/// Codes that a refusal may have.
const CODES: [u16; 4] = [409, 429, 500, 503];

impl Served {
    /// `POST /control/faults`
    pub(super) fn plan(&self, mut fields: Fields) -> Result<Value, Status> {
        let agent = fields.text("agent")?.ok_or_else(|| missing("agent", "\"my-operator\""))?;
        if agent.is_empty() || agent.contains(['/', '*']) {
            let why = format!("{agent:?} is no beginning of a user agent's name, which ends before the first slash");
            return Err(wrong("agent", why));
        }
        let fault = fields.text("fault")?.ok_or_else(|| missing("fault", "\"fail\""))?;
        let resource = fields.text("resource")?.unwrap_or_default();
        let on = self.cluster.faults.on(&format!("{agent}*")).to(&resource);
        self.plan_fault(on, &fault, fields)?;
        Ok(self.planned())
    }

    fn plan_fault(&self, on: On, fault: &str, mut fields: Fields) -> Result<(), Status> {
        // Everything is read and checked before anything is planned.
        match fault {
            "fail" => {
                let (nth, times) = (fields.count("nth")?.unwrap_or(1), fields.count("times")?.unwrap_or(1));
                let code = fields.count("code")?.ok_or_else(|| missing("code", "409"))?;
                let known = u16::try_from(code).ok().filter(|code| CODES.contains(code));
                let code = known.ok_or_else(|| wrong("code", format!("{code} is none of {CODES:?}")))?;
                let on = reads(on, &mut fields)?;
                fields.end()?;
                on.fail(nth, times, code);
            }
            "timeout" | "lose" | "sever" => {
                let nth = fields.count("nth")?.unwrap_or(1);
                let on = if fault == "sever" { on } else { reads(on, &mut fields)? };
                fields.end()?;
                match fault {
                    "timeout" => on.time_out(nth),
                    "lose" => on.lose_answer(nth),
                    _ => on.sever_after_write(nth),
                }
            }
            "hold" | "merge" | "drop" => {
                let long = fields.duration("for")?;
                let on = on.begin_after(fields.duration("after")?.unwrap_or_default());
                fields.end()?;
                match (fault, long) {
                    ("hold", None) => on.hold_watch_until_lifted(),
                    (_, None) => return Err(missing("for", "\"30s\"")),
                    ("hold", Some(long)) => on.hold_watch(long),
                    ("merge", Some(long)) => on.merge_events(long),
                    (_, Some(long)) => on.drop_events(long),
                }
            }
            "slow" | "delay" => {
                let long = fields.duration("for")?.ok_or_else(|| missing("for", "\"2s\""))?;
                fields.end()?;
                if fault == "slow" { on.latency(long) } else { on.delay_events(long) }
            }
            _ => return Err(wrong("fault", format!("{fault:?} is none; there are {FAULTS}"))),
        }
        Ok(())
    }

    /// `GET /control/faults`
    pub(super) fn planned(&self) -> Value {
        let planned = self.cluster.faults.planned().into_iter().map(|planned| {
            let mut shown = json!({"agent": planned.agent.trim_end_matches('*'), "fault": planned.fault});
            if !planned.resource.is_empty() {
                shown["resource"] = planned.resource.into();
            }
            if let Some(count) = planned.count {
                shown["of"] = count.of.into();
                (shown["nth"], shown["seen"], shown["met"]) = (count.nth.into(), count.seen.into(), count.met.into());
                if count.times < u64::MAX {
                    shown["times"] = count.times.into();
                }
            }
            if let Some(lasts) = planned.lasts {
                shown["lasts"] = format!("{}s", lasts.as_secs_f64()).into();
            }
            shown
        });
        json!({"faults": planned.collect::<Vec<Value>>()})
    }
}

fn reads(on: On, fields: &mut Fields) -> Result<On, Status> {
    Ok(if fields.flag("reads")? { on.reads() } else { on })
}
