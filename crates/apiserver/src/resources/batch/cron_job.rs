//! A CronJob: a Job again and again.

use crate::resources::print::{
    AGE, CONTAINERS, IMAGES, NAME, NONE, boolean, flag_word, integer, length, selector, since, text, text_or, wide,
};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use pintle_rules::cron::{Schedule, time_zone};
use serde_json::{Value, json};

const COLUMNS: &[Printed] = &[
    NAME,
    text("Schedule", "batch.v1.CronJobSpec.schedule", |job, _| object::text(job, &["spec", "schedule"]).into()),
    text("Timezone", "batch.v1.CronJobSpec.timeZone", |job, _| text_or(job, &["spec", "timeZone"], NONE)),
    boolean("Suspend", "batch.v1.CronJobSpec.suspend", |job, _| flag_word(job, &["spec", "suspend"])),
    integer("Active", "batch.v1.CronJobStatus.active", |job, _| length(job, &["status", "active"])),
    text("Last Schedule", "batch.v1.CronJobStatus.lastScheduleTime", |job, now| {
        since(job, &["status", "lastScheduleTime"], NONE, now)
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", "batch.v1.JobSpec.selector", |job, _| {
        selector(object::at(job, &["spec", "jobTemplate", "spec", "selector"]))
    }),
];
/// A Job's name is this one's and a time.
const LONGEST_NAME: usize = 52;

pub struct CronJob;

impl Strategy for CronJob {
    fn prepare_create(&self, job: &mut Value) {
        object::set(job, &["status"], json!({}));
    }

    fn validate(&self, job: &Value, old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        check_schedule(job, old, &spec.child("schedule"), errors);
        if let Some(zone) = zone_of(job).filter(|zone| old.is_none_or(|old| zone_of(old) != Some(*zone))) {
            check_zone(zone, &spec.child("timeZone"), errors);
        }
        let template = spec.child("jobTemplate").child("spec");
        if let Some(selector) = object::at(job, &["spec", "jobTemplate", "spec", "selector"]).filter(|s| !s.is_null()) {
            let detail = "`selector` will be auto-generated";
            errors.push(Error::invalid(&template.child("selector"), selector.clone(), detail));
        }
        if object::flag(job, &["spec", "jobTemplate", "spec", "manualSelector"]) {
            errors.push(Error::not_supported(&template.child("manualSelector"), true, &["nil", "false"]));
        }
        let name = object::name(job);
        if old.is_none() && name.len() > LONGEST_NAME {
            let here = Path::new("metadata").child("name");
            errors.push(Error::invalid(&here, name, format!("must be no more than {LONGEST_NAME} characters")));
        }
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn check_schedule(job: &Value, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    let schedule = object::text(job, &["spec", "schedule"]);
    if schedule.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    if let Err(problem) = Schedule::parse(schedule) {
        errors.push(Error::invalid(path, schedule, problem.to_string()));
    }
    if !schedule.contains("TZ") {
        return;
    }
    let had_zone = old.is_some_and(|old| object::text(old, &["spec", "schedule"]).contains("TZ"));
    let detail = match had_zone {
        false => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        true if zone_of(job).is_some() => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        true => return,
    };
    errors.push(Error::invalid(path, schedule, detail));
}

fn zone_of(job: &Value) -> Option<&str> {
    object::at(job, &["spec", "timeZone"]).and_then(Value::as_str)
}

fn check_zone(zone: &str, path: &Path, errors: &mut Errors) {
    if zone.is_empty() {
        errors.push(Error::invalid(path, zone, "timeZone must be nil or non-empty string"));
        return;
    }
    let is_usual = |part: &str| {
        let usual = |letter: u8| letter.is_ascii_alphanumeric() || b".-_+".contains(&letter);
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(usual)
    };
    if !zone.split('/').all(is_usual) {
        errors.push(Error::invalid(path, zone, format!("unknown time zone {zone}")));
        return;
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(Error::invalid(path, zone, detail));
    }
    if let Err(problem) = time_zone(zone) {
        errors.push(Error::invalid(path, zone, problem.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(spec: Value, old: Option<Value>) -> Vec<String> {
        let object = |spec: Value| json!({"metadata": {"name": "c"}, "spec": spec});
        let mut errors = Errors::new();
        CronJob.validate(&object(spec), old.map(object).as_ref(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_schedule_that_cannot_be_met_is_refused() {
        let good = [json!({"schedule": "*/5 * * * *"}), json!({"schedule": "@daily", "timeZone": "Europe/Berlin"})];
        for spec in good {
            assert!(problems(spec.clone(), None).is_empty(), "{spec}");
        }
        let cases = [
            (json!({}), "spec.schedule: Required value"),
            (json!({"schedule": "x"}), "spec.schedule: Invalid value: \"x\": expected exactly 5 fields, found 1: [x]"),
            (
                json!({"schedule": "TZ=UTC 0 * * * *"}),
                "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ),
            (
                json!({"schedule": "@daily", "timeZone": ""}),
                "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string",
            ),
            (
                json!({"schedule": "@daily", "timeZone": "Middle/Earth"}),
                "spec.timeZone: Invalid value: \"Middle/Earth\": unknown time zone Middle/Earth",
            ),
            (
                json!({"schedule": "@daily", "timeZone": "../etc/passwd"}),
                "spec.timeZone: Invalid value: \"../etc/passwd\": unknown time zone ../etc/passwd",
            ),
            (
                json!({"schedule": "@daily", "timeZone": "local"}),
                "spec.timeZone: Invalid value: \"local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            ),
        ];
        for (spec, problem) in cases {
            assert_eq!(problems(spec.clone(), None).first().map(String::as_str), Some(problem), "{spec}");
        }
    }

    #[test]
    fn a_zone_in_an_old_schedule_may_stay_there() {
        let old = json!({"schedule": "TZ=UTC 0 * * * *"});
        assert!(problems(old.clone(), Some(old.clone())).is_empty());
        let both = json!({"schedule": "TZ=UTC 0 * * * *", "timeZone": "UTC"});
        assert_eq!(problems(both, Some(old)).len(), 1);
    }
}
